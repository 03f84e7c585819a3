/** Where the rows of a chart's instances are read, for those that rest and for what the chart itself does not say. */
export interface InstanceSource {
  readonly path: string
  /** Member of the answer that holds the rows, and of a row that holds the id of the chart's actor. */
  readonly list: string
  readonly id: string
  /** Member with the state; null where only the chart knows it. */
  readonly state: string | null
  /** States that are written past the chart: where the row says one, no transition tells it. */
  readonly pastChart?: readonly string[]
  /** Member with a name for people. */
  readonly name?: string
}

/** By machine: a line per chart. */
export const instanceSources: Readonly<Record<string, InstanceSource>> = {
  node: { path: '/v1/admin/nodes?limit=1000', list: 'nodes', id: 'node_id', state: 'state', name: 'name' },
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
}

const textOf = (row: Row, member: string | null | undefined): string | null => {
  const value = member == null ? undefined : row[member]
  return typeof value === 'string' && value !== '' ? value : null
}

export function rowsOf(answer: Row, source: InstanceSource): readonly Row[] {
  const rows = answer[source.list]
  return Array.isArray(rows) ? rows : []
}

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
    const rests = row === undefined ? null : textOf(row, source?.state)
    const state = rests !== null && source?.pastChart?.includes(rests) === true ? rests : to
    found.set(id, { id, state, at, name: row === undefined ? null : textOf(row, source?.name) })
  }
  for (const [id, row] of byId) {
    const state = textOf(row, source?.state)
    if (id === null || state === null || found.has(id)) continue
    found.set(id, { id, state, at: null, name: textOf(row, source?.name) })
  }
  return [...found.values()]
}
