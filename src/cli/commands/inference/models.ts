import type { Static } from '@sinclair/typebox'
import type { Node } from '../../../protocol/wire/admin/admin.ts'
import type { AdminModelList, ModelEntry } from '../../../protocol/wire/admin/catalogue.ts'
import type { DescribedModelList } from '../../../protocol/wire/inference/models.ts'
import { modalities } from '../../../protocol/wire/nodes/kinds-of-work.ts'
import { action, type Verb } from '../../frame/action.ts'
import { reasonBody, reasonOption } from '../../frame/admin-options.ts'
import { UsageFault } from '../../frame/failure.ts'
import { kindsGiven } from '../../frame/given-work.ts'
import type { Session } from '../../frame/session.ts'
import { fields, shortTime, table } from '../../frame/table.ts'
import { placesTable } from './model-places.ts'
import { copy } from './models-copy.ts'
import { pull } from './models-pull.ts'

const path = '/v1/admin/models'
const idOperand = { name: 'MODEL', about: 'The model id that clients use' } as const

type Listed = Static<typeof AdminModelList>

function described(session: Session, entry: ModelEntry): string {
  return fields(session.terminal, [
    ['Model', entry.id],
    ['Aliases', entry.aliases.join(', ')],
    ['Name', entry.name],
    ['Description', entry.description],
    ['Input', entry.input_modalities?.join(', ')],
    ['Output', entry.output_modalities?.join(', ')],
    ['Serves', entry.serves?.join(', ')],
    ['Context', entry.context_length],
    ['Longest output', entry.max_output_length],
    ['Prompt price', entry.prompt_token_price_wei],
    ['Output price', entry.completion_token_price_wei],
    ['USD prices', usdText(entry)],
  ])
}

const usdText = ({ usd_prices: prices }: ModelEntry) =>
  prices === null
    ? null
    : Object.entries(prices)
        .map(([unit, price]) => `${unit} ${price}`)
        .join(', ')

/** The entry as it is now, and its ETag; null: there is none. */
async function currentEntry(session: Session, id: string): Promise<Listed['models'][number] | null> {
  const { models } = await session.gateway().admin<Listed>({ path: `${path}?limit=10000` })
  return models.find((model) => model.id === id && model.in_catalogue) ?? null
}

/** Changes the given fields alone, and those only of the entry that was read. */
async function change(
  session: Session,
  json: boolean,
  known: Listed['models'][number] | null,
  body: object,
): Promise<undefined> {
  const seen = known === null ? null : (known.etag ?? undefined)
  const entry = await session.gateway().admin<ModelEntry>({ method: 'PATCH', path, body, seen })
  session.show(json, entry, (made) => described(session, made))
  return undefined
}

const list = action({
  about: 'List the models of the catalogue and the models that nodes serve, and what each node has of them in memory',
  options: {},
  run: async ({ json }, session) => {
    if (session.connection().adminToken === null) return listForKey(session, json)
    const gateway = session.gateway()
    const answer = await gateway.admin<Listed>({ path: `${path}?limit=10000` })
    const { nodes } = await gateway.admin<{ readonly nodes: readonly Node[] }>({ path: '/v1/admin/nodes' })
    session.show(json, { ...answer, on_nodes: nodes.map(({ node_id, runtimes }) => ({ node_id, runtimes })) }, () => {
      const { models } = answer
      const all = table(
        session.terminal,
        ['MODEL', 'NODES', 'READY', 'ENTRY', 'ALIASES', 'CONTEXT', 'UPDATED'],
        models.map((model) => [
          model.id,
          model.nodes,
          model.nodes_ready,
          model.in_catalogue,
          model.aliases.join(', '),
          model.served_context_length ?? model.context_length,
          shortTime(model.updated_at),
        ]),
        'There are no models, because no node has answered yet.',
      )
      return all + placesTable(session.terminal, nodes, Date.now())
    })
    return undefined
  },
})

/** Without an admin token, lists the models that the key may call. A price holds on nodes of others; own ones are free. */
async function listForKey(session: Session, json: boolean): Promise<undefined> {
  const { body } = await session.gateway().get<DescribedModelList>('/v1/models', true)
  session.show(json, body, ({ data }) =>
    table(
      session.terminal,
      ['MODEL', 'FOR', 'CONTEXT', 'OWN NODES', 'WEI A TOKEN IN', 'WEI A TOKEN OUT', 'KNOWN SINCE'],
      data.map(({ id, created, svc: { serves, context_length: context, own, price: paid } }) => [
        id,
        serves.join(', '),
        context,
        own,
        paid?.prompt_token_price_wei,
        paid?.completion_token_price_wei,
        shortTime(new Date(created * 1_000).toISOString()),
      ]),
      'No model can answer now.',
    ),
  )
  return undefined
}

const length = (about: string) => ({ kind: 'number', value: 'N', min: 1, max: 100_000_000, about }) as const
const price = (about: string) => ({ kind: 'text', value: 'WEI', about }) as const

const usdUnits = ['prompt', 'completion', 'image', 'request', 'input_cache_read'] as const

/** Merges the given prices into those of the entry. */
function usdPrices(given: readonly string[], known: ModelEntry['usd_prices'] | undefined) {
  if (given.length === 0) return undefined
  const named = given.map((text) => {
    const cut = text.indexOf('=')
    const unit = usdUnits.find((name) => name === text.slice(0, cut))
    if (unit === undefined) throw new UsageFault(`--usd-price is UNIT=USD, where UNIT is one of ${usdUnits.join(', ')}`)
    return [unit, text.slice(cut + 1)] as const
  })
  return { ...known, ...Object.fromEntries(named) }
}

const set = action({
  about: 'Create a catalogue entry, or change the given fields of an existing one',
  operands: [idOperand],
  options: {
    name: { kind: 'text', value: 'TEXT', about: 'Title' },
    description: { kind: 'text', value: 'TEXT', about: 'A short description' },
    'context-length': length('Context length: tokens of prompt and answer together'),
    'max-output-length': length('Largest number of tokens in an answer'),
    input: { kind: 'texts', value: 'text|image|file|audio', about: 'A kind of input that the model takes' },
    output: { kind: 'texts', value: 'text|image|file|audio', about: 'A kind of output that the model gives' },
    serves: {
      kind: 'text',
      value: 'KIND,…',
      about: `What the model does on nodes that declare nothing themselves, of ${modalities.join(', ')}; \`none\` leaves it to their servers`,
    },
    'prompt-price-wei': price('Price of a prompt token. The owner of the node does not pay it.'),
    'completion-price-wei': price('Price of an answer token. The owner of the node does not pay it.'),
    'usd-price': {
      kind: 'texts',
      value: 'UNIT=USD',
      about: `Price in the marketplace list, per ${usdUnits.join(', ')}`,
    },
    ...reasonOption,
  },
  run: async ({ operands, options, json }, session) => {
    const id = operands[0] ?? ''
    const known = await currentEntry(session, id)
    const changes = Object.entries({
      name: options.name,
      description: options.description,
      context_length: options['context-length'],
      max_output_length: options['max-output-length'],
      input_modalities: options.input.length === 0 ? undefined : options.input,
      output_modalities: options.output.length === 0 ? undefined : options.output,
      serves: kindsGiven(options.serves),
      prompt_token_price_wei: options['prompt-price-wei'],
      completion_token_price_wei: options['completion-price-wei'],
      usd_prices: usdPrices(options['usd-price'], known?.usd_prices),
    }).filter(([, value]) => value !== undefined)
    return change(session, json, known, { id, ...Object.fromEntries(changes), ...reasonBody(options.reason) })
  },
})

const alias = action({
  about: 'Give a model other names, so that nodes with different names for it serve it together',
  operands: [idOperand, { name: 'ALIAS', about: 'Another name of the model', rest: true }],
  options: { remove: { kind: 'flag', about: 'Remove these names instead' }, ...reasonOption },
  run: async ({ operands, options, json }, session) => {
    const [id = '', ...names] = operands
    const entry = await currentEntry(session, id)
    const known = entry?.aliases ?? []
    const absent = options.remove ? names.find((name) => !known.includes(name)) : undefined
    if (absent !== undefined) throw new UsageFault(`${absent} is not an alias of ${id}`)
    const aliases = options.remove
      ? known.filter((name) => !names.includes(name))
      : [...new Set([...known, ...names])].filter((name) => name !== id)
    return change(session, json, entry, { id, aliases, ...reasonBody(options.reason) })
  },
})

export const models: Verb = {
  name: 'models',
  about: 'List the models that nodes serve, and manage the catalogue that names them',
  actions: { list, set, alias, pull, copy },
}
