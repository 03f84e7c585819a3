import type { FirstToken, Node } from '../../protocol/wire/admin/admin.ts'
import type { LiveNode } from '../../protocol/wire/admin/inspect.ts'
import { ago, amount, count, duration, nothing } from './format.ts'

export type NodeModel = Node['runtimes'][number]['models'][number]

/** Combines a row with the last live data. A node that the gateway no longer watches has only its row. */
export function merged(row: Node, live: LiveNode | undefined): Node {
  return row.admin_state === 'revoked' || live === undefined ? row : { ...row, ...live }
}

export const modelsOf = (node: Node): readonly NodeModel[] => node.runtimes.flatMap(({ models }) => models)

/**
 * The slots of runtimes that answer chats, since others serve no request of the pool. null if one of them does not
 * say.
 */
export function slotsOf(node: Node): number | null {
  const totals = node.runtimes.filter(({ models }) => models.length > 0).map(({ slots_total }) => slots_total)
  return totals.length === 0 || totals.includes(null)
    ? null
    : totals.reduce<number>((sum, slots) => sum + (slots ?? 0), 0)
}

/** Calls under way, and how many of the slots that ready nodes tell of they take; null: none tells. */
export function occupancyOf(nodes: readonly Node[]): {
  inFlight: number
  slots: { taken: number; all: number } | null
} {
  const telling = nodes.filter((node) => node.state === 'ready' && slotsOf(node) !== null)
  const taken = telling.reduce((sum, node) => sum + node.in_flight, 0)
  const all = telling.reduce((sum, node) => sum + (slotsOf(node) ?? 0), 0)
  return {
    inFlight: nodes.reduce((sum, node) => sum + node.in_flight, 0),
    slots: telling.length === 0 ? null : { taken, all },
  }
}

/** The last that was measured there, of whichever model, and how many there were of all. null: none was. */
export function firstTokenOf(node: Node): FirstToken | null {
  const measured = modelsOf(node).flatMap(({ first_token: first }) => first ?? [])
  const [last] = measured.toSorted((a, b) => Date.parse(b.at) - Date.parse(a.at))
  return last === undefined ? null : { ...last, of: measured.reduce((sum, { of }) => sum + of, 0) }
}

/** Of its fastest model. */
export const speedOf = (node: Node): number | null =>
  modelsOf(node).reduce<number | null>(
    (best, { tokens_per_second: rate }) => (rate === null ? best : Math.max(best ?? 0, rate)),
    null,
  )

/** What the name of a state leaves open; null: nothing. A node whose drain is over is live, and so is one without a ready model. */
export function stateWords({ state, state_says: says, admin_state: wish }: Node): string | null {
  if (says != null) return says
  if (wish === 'draining' && state !== 'draining') return 'drained'
  return state === 'live' ? 'no model ready' : null
}

/** How old a measurement is, and of how many it is the last. */
export const measuredWords = ({ at, of }: FirstToken, nowMs: number): string =>
  `${ago(at, nowMs)}, last of ${count(of)}`

/** Whether a model is in memory, and how much of it; nothing where neither is told. */
export function memoryOf(
  { loaded, loading_since: since, memory_mb: mb, resident_mb: resident = null }: NodeModel,
  nowMs: number,
): string {
  const measured = resident === null ? '' : ` (${amount(resident)} MB measured)`
  const size = mb === null ? '' : `${amount(mb)} MB${measured}`
  if (since !== null) return `loading for ${duration(Math.max(0, nowMs - Date.parse(since)))}`
  if (loaded === null) return size === '' ? nothing : size
  if (!loaded) return 'cold'
  return size === '' ? 'loaded' : `loaded, ${size}`
}

export const ejectedModels = (node: Node, nowMs: number): readonly NodeModel[] =>
  modelsOf(node).filter(({ ejected_until }) => ejected_until !== null && Date.parse(ejected_until) > nowMs)

export const stateTones: Readonly<Record<Node['state'], string>> = {
  ready: 'good',
  live: 'info',
  enrolled: 'plain',
  draining: 'warn',
  yielding: 'info',
  asleep: 'plain',
  stale: 'warn',
  offline: 'bad',
  revoked: 'plain',
}

const order: readonly Node['state'][] = [
  'offline',
  'stale',
  'draining',
  'enrolled',
  'live',
  'yielding',
  'ready',
  'asleep',
  'revoked',
]

/** Sorts nodes with problems first. */
export const byNeed = (a: Node, b: Node): number =>
  order.indexOf(a.state) - order.indexOf(b.state) || a.name.localeCompare(b.name)
