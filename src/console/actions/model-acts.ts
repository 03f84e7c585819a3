import type { AdminModelList, ModelEntry } from '../../protocol/wire/admin/admin.ts'
import type { Act, Values } from './act.ts'

export type Model = AdminModelList['models'][number]

const path = '/v1/admin/models'

/** All that an entry says, for a call that puts the whole of it. */
function bodyOf(model: ModelEntry): Readonly<Record<string, unknown>> {
  const { updated_at: _, ...entry } = model
  return Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== null))
}

const entryOf = ({ in_catalogue: _, nodes: __, nodes_ready: ___, served_context_length: ____, ...entry }: Model) =>
  entry

const price = (text: string | undefined) => ((text ?? '').trim() === '' ? null : (text ?? '').trim())

function changedBy(model: Model, { aliases = '', prompt, completion }: Values) {
  const names = aliases.split(/[\s,]+/).filter((name) => name !== '')
  return {
    ...bodyOf(entryOf(model)),
    aliases: names,
    prompt_token_price_wei: price(prompt),
    completion_token_price_wei: price(completion),
  }
}

const putBack = (model: Model): Act => ({
  actions: model.in_catalogue ? ['model.update'] : ['model.delete'],
  verb: 'Put back',
  title: `Put ${model.id} back`,
  about: 'The entry becomes what it was before.',
  run: (_, send) =>
    model.in_catalogue
      ? send({ action: 'model.update', method: 'PUT', path, body: bodyOf(entryOf(model)) })
      : send({ action: 'model.delete', method: 'DELETE', path, body: { id: model.id } }),
  done: `${model.id} is what it was.`,
})

const priceField = (name: string, label: string, value: string | null) =>
  ({ name, label, value: value ?? '', hint: 'whole wei for one token; empty: free', pattern: '[0-9]*' }) as const

export const editModel = (model: Model): Act => ({
  actions: ['model.update'],
  verb: 'Save',
  title: `Aliases and prices of ${model.id}`,
  about: 'Nodes that name the model differently serve it together once each name is an alias.',
  fields: [
    { name: 'aliases', label: 'Aliases', hint: 'with commas between', value: model.aliases.join(', ') },
    priceField('prompt', 'Price of a prompt’s token', model.prompt_token_price_wei),
    priceField('completion', 'Price of an answer’s token', model.completion_token_price_wei),
  ],
  run: (values, send) => send({ action: 'model.update', method: 'PUT', path, body: changedBy(model, values) }),
  done: `${model.id} is saved.`,
  undo: () => putBack(model),
})

export const removeEntry = (model: Model): Act => ({
  actions: ['model.delete'],
  verb: 'Remove entry',
  title: `Remove the entry of ${model.id}`,
  about: 'Its aliases, prices and description go. Nodes keep serving the model under their own name for it.',
  run: (_, send) => send({ action: 'model.delete', method: 'DELETE', path, body: { id: model.id } }),
  done: `The entry of ${model.id} is removed.`,
  undo: () => putBack(model),
})
