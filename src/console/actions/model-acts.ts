import type { AdminModelList, ModelEntry } from '../../protocol/wire/admin/catalogue.ts'
import { exactIn, weiTyped } from '../parts/format.ts'
import { unit } from '../parts/wei.tsx'
import { readAdmin } from '../state/api.ts'
import type { Act, Editing, Says, SeenRow, Values } from './act.ts'
import { kindsText, kindsTyped, workField } from './work-acts.ts'

export type Model = AdminModelList['models'][number]
/** What an operator has said of a model. */
type Entry = Omit<ModelEntry, 'etag' | 'updated_at'>

const path = '/v1/admin/models'
const labels = {
  aliases: 'Aliases',
  prompt: 'Price of a million prompt tokens',
  completion: 'Price of a million answer tokens',
} as const

const million = 1_000_000n
/** Prices are kept for one token, and people compare them by the million. */
export const perMillion = (wei: string): string => String(BigInt(wei) * million)
const priceText = (wei: string | null) => (wei === null ? '' : exactIn(perMillion(wei), unit.value))

const joined = (values: readonly string[] | null) => values?.join(', ') ?? ''
const saysOf = (entry: Entry): Says => ({
  [labels.aliases]: joined(entry.aliases),
  [labels.prompt]: priceText(entry.prompt_token_price_wei),
  [labels.completion]: priceText(entry.completion_token_price_wei),
  Name: entry.name ?? '',
  Description: entry.description ?? '',
  Takes: joined(entry.input_modalities),
  Gives: joined(entry.output_modalities),
  [workField().label]: kindsText(entry.serves),
  'Context length': String(entry.context_length ?? ''),
  'Longest answer': String(entry.max_output_length ?? ''),
  'USD prices': Object.entries(entry.usd_prices ?? {})
    .map(([unit, price]) => `${unit} ${price}`)
    .join(', '),
})

type Row = Entry & { readonly etag: string | null }
const seenIn = (row: Row): SeenRow<Row> => ({ etag: row.etag, says: saysOf(row), row })
/** A model that no entry names. */
const unnamed = (id: string): Row => ({
  id,
  aliases: [],
  name: null,
  description: null,
  input_modalities: null,
  output_modalities: null,
  serves: null,
  context_length: null,
  max_output_length: null,
  prompt_token_price_wei: null,
  completion_token_price_wei: null,
  usd_prices: null,
  etag: null,
})
async function readEntry(id: string): Promise<SeenRow> {
  const { models } = await readAdmin<AdminModelList>(`${path}?limit=10000`)
  return seenIn(models.find((model) => model.id === id) ?? unnamed(id))
}
const editing = (id: string, seen: SeenRow): Editing => ({ seen, read: () => readEntry(id) })

/** For one token, as the gateway keeps it; null: free. Throws where a token would cost a part of a wei. */
function price(text: string | undefined): string | null {
  if ((text ?? '').trim() === '') return null
  const wei = weiTyped(text ?? '', unit.value)
  if (wei === null || wei % million !== 0n) {
    const least = exactIn(String(million), unit.value)
    throw new Error(`A price is a multiple of ${least} ${unit.value}: a token costs whole wei`)
  }
  return String(wei / million)
}
const namesIn = (text: string | undefined) => (text ?? '').split(/[\s,]+/).filter((name) => name !== '')

type Changes = Partial<Omit<Entry, 'id'>>

/** What the person has changed of what the form showed, and nothing else. */
function changedBy(model: Model, { aliases, prompt, completion, serves }: Values): Changes {
  const named = namesIn(aliases)
  const kinds = kindsTyped(serves)
  return {
    ...(joined(named) === joined(model.aliases) ? {} : { aliases: named }),
    ...(kindsText(kinds) === kindsText(model.serves) ? {} : { serves: kinds === null ? null : [...kinds] }),
    ...(price(prompt) === model.prompt_token_price_wei ? {} : { prompt_token_price_wei: price(prompt) }),
    ...(price(completion) === model.completion_token_price_wei
      ? {}
      : { completion_token_price_wei: price(completion) }),
  }
}

/** The way back from a change: what it has changed becomes what it was, where the entry was not changed since. */
function putBack(before: Row, after: ModelEntry, changes: Changes): Act {
  const { id } = before
  const was = Object.fromEntries(Object.keys(changes).map((name) => [name, before[name as keyof Changes]]))
  const known = before.etag !== null
  return {
    actions: known ? ['model.edit'] : ['model.delete'],
    verb: 'Put back',
    title: `Put ${id} back`,
    about: known ? 'What was changed becomes what it was before.' : 'The entry that was made is removed.',
    editing: editing(id, seenIn(after)),
    run: (_, send) =>
      known
        ? send({ action: 'model.edit', method: 'PATCH', path, body: { id, ...was } })
        : send({ action: 'model.delete', method: 'DELETE', path, body: { id } }),
    done: `${id} is what it was.`,
  }
}

const priceField = (name: 'prompt' | 'completion', value: string | null) =>
  ({
    name,
    label: labels[name],
    value: priceText(value),
    hint: `in ${unit.value}; empty: free`,
    pattern: '[0-9]*([.][0-9]+)?',
  }) as const

export const editModel = (model: Model): Act => ({
  actions: ['model.edit'],
  verb: 'Save',
  title: `Aliases, work and prices of ${model.id}`,
  about: 'Nodes that name the model differently serve it together once each name is an alias.',
  fields: [
    { name: 'aliases', label: labels.aliases, hint: 'with commas between', value: joined(model.aliases) },
    workField(kindsText(model.serves)),
    priceField('prompt', model.prompt_token_price_wei),
    priceField('completion', model.completion_token_price_wei),
  ],
  editing: editing(model.id, seenIn(model)),
  run: (values, send) =>
    send({ action: 'model.edit', method: 'PATCH', path, body: { id: model.id, ...changedBy(model, values) } }),
  done: `${model.id} is saved.`,
  undo: (after: ModelEntry, values, before) => putBack((before as SeenRow<Row>).row, after, changedBy(model, values)),
})

/** What the removed entry said, for an entry that is made anew: no other may have been made. */
function makeAgain(model: Model): Act {
  const { aliases, name, description, input_modalities, output_modalities, serves } = model
  const { context_length, max_output_length } = model
  const { prompt_token_price_wei, completion_token_price_wei, usd_prices } = model
  const texts = { name, description, input_modalities, output_modalities, serves, context_length, max_output_length }
  const entry = { id: model.id, aliases, ...texts, prompt_token_price_wei, completion_token_price_wei, usd_prices }
  return {
    actions: ['model.edit'],
    verb: 'Put back',
    title: `Put ${model.id} back`,
    about: 'The entry becomes what it was before.',
    editing: editing(model.id, seenIn(unnamed(model.id))),
    run: (_, send) => send({ action: 'model.edit', method: 'PATCH', path, body: entry }),
    done: `${model.id} is what it was.`,
  }
}

export const removeEntry = (model: Model): Act => ({
  actions: ['model.delete'],
  verb: 'Remove entry',
  title: `Remove the entry of ${model.id}`,
  destroys: true,
  about: 'This removes its aliases, prices and description. Nodes keep serving the model under their own name for it.',
  editing: editing(model.id, seenIn(model)),
  run: (_, send) => send({ action: 'model.delete', method: 'DELETE', path, body: { id: model.id } }),
  done: `The entry of ${model.id} is removed.`,
  undo: () => makeAgain(model),
})
