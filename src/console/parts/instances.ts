import { nodesPath } from '../state/node-list.ts'

/** Where the rows of a chart's instances are read, for those that rest and for what the chart itself does not say. */
export interface InstanceSource {
  readonly path: string
  /** Member of the answer that holds the rows, and of a row that holds the id of the chart's actor. */
  readonly list: string
  readonly id: string
  /** Member with the state, or how the row says it; null where only the chart knows it. */
  readonly state: string | ((row: Row) => string) | null
  /** States that are written past the chart: where the row says one, no transition tells it. */
  readonly pastChart?: readonly string[]
  /** Member with a name for people. */
  readonly name?: string
}

/** By machine: a line per chart. */
export const instanceSources: Readonly<Record<string, InstanceSource>> = {
  node: { path: nodesPath, list: 'nodes', id: 'node_id', state: 'state', name: 'name' },
  request: {
    path: '/v1/admin/requests?limit=200',
    list: 'requests',
    id: 'request_id',
    state: ({ status, code }) =>
      status === 499 ? 'settled.left' : Number(status) >= 400 || code !== null ? 'settled.failed' : 'settled.served',
    name: 'model',
  },
  mixture: { path: '/v1/admin/mixtures?limit=200', list: 'mixtures', id: 'request_id', state: null, name: 'strategy' },
  'private-job': {
    path: '/v1/admin/jobs?limit=200',
    list: 'jobs',
    id: 'command_id',
    state: 'status',
    pastChart: ['expired', 'cancelled'],
    name: 'model_id',
  },
  'webhook-delivery': {
    path: '/v1/admin/webhooks?limit=200',
    list: 'webhooks',
    id: 'webhook_id',
    state: 'status',
  },
  'payout-batch': { path: '/v1/admin/payout-batches?limit=200', list: 'batches', id: 'batch_id', state: 'status' },
}

export type Row = Readonly<Record<string, unknown>>

export interface Instance {
  readonly id: string
  readonly name: string | null
  readonly state: string
  /** Of the last transition in memory; null: it rests since before. */
  readonly at: string | null
  /** When it last moved, as far as anybody knows. */
  readonly since: string | null
  /** Ids of the nodes that it has to do with. */
  readonly nodes: readonly string[]
}

const textOf = (row: Row, member: string | null | undefined): string | null => {
  const value = member == null ? undefined : row[member]
  return typeof value === 'string' && value !== '' ? value : null
}

export function rowsOf(answer: Row, source: InstanceSource): readonly Row[] {
  const rows = answer[source.list]
  return Array.isArray(rows) ? rows : []
}

/** What a row may call the moment when it last moved, latest first. */
const momentMembers = ['state_since', 'completed_at', 'delivered_at', 'ended_at', 'last_attempt_at', 'at', 'created_at']

function sinceOf(row: Row): string | null {
  const member = momentMembers.find((each) => textOf(row, each) !== null)
  return textOf(row, member)
}

function nodesOf(row: Row): readonly string[] {
  const calls = Array.isArray(row.experts) ? (row.experts as readonly Row[]) : []
  const ids = [row, ...calls].map((each) => textOf(each, 'node_id'))
  return ids.filter((id) => id !== null)
}

const stateOf = (row: Row, { state }: InstanceSource) => (typeof state === 'function' ? state(row) : textOf(row, state))

/** One that moved last stands first; what only rests comes after, as the rows come. */
export function instancesOf(
  transitions: readonly { readonly id: string; readonly to: string; readonly at: string }[],
  rows: readonly Row[],
  source: InstanceSource | undefined,
): readonly Instance[] {
  const found = new Map<string, Instance>()
  const byId = new Map(source === undefined ? [] : rows.map((row) => [textOf(row, source.id), row] as const))
  for (const { id, to, at } of transitions) {
    if (found.has(id)) continue
    const row = byId.get(id)
    const rests = row === undefined || source === undefined ? null : stateOf(row, source)
    const state = rests !== null && source?.pastChart?.includes(rests) === true ? rests : to
    const name = row === undefined ? null : textOf(row, source?.name)
    found.set(id, { id, state, at, since: at, name, nodes: row === undefined ? [] : nodesOf(row) })
  }
  for (const [id, row] of byId) {
    const state = source === undefined ? null : stateOf(row, source)
    if (id === null || state === null || found.has(id)) continue
    found.set(id, { id, state, at: null, since: sinceOf(row), name: textOf(row, source?.name), nodes: nodesOf(row) })
  }
  return [...found.values()]
}

export interface InstanceFilter {
  /** Empty: any. */
  readonly state: string
  /** The least time since it moved, ms; negative: the greatest; 0: any. */
  readonly ageMs: number
  /** A part of the name or id of a node, or of the instance. */
  readonly text: string
}

export const anyInstance: InstanceFilter = { state: '', ageMs: 0, text: '' }

export function filtered(
  instances: readonly Instance[],
  { state, ageMs, text }: InstanceFilter,
  nodeNames: ReadonlyMap<string, string>,
  nowMs: number,
): readonly Instance[] {
  const sought = text.trim().toLowerCase()
  return instances.filter((instance) => {
    if (state !== '' && instance.state !== state && !instance.state.startsWith(`${state}.`)) return false
    const age = instance.since === null ? Number.POSITIVE_INFINITY : nowMs - Date.parse(instance.since)
    if (ageMs > 0 && age < ageMs) return false
    if (ageMs < 0 && age > -ageMs) return false
    if (sought === '') return true
    const words = [
      instance.id,
      instance.name ?? '',
      ...instance.nodes,
      ...instance.nodes.map((id) => nodeNames.get(id) ?? ''),
    ]
    return words.some((word) => word.toLowerCase().includes(sought))
  })
}
