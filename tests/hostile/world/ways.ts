/**
 * How a customer's request gets to a hostile node, and its answer back. `direct`: by HTTP. `tunnel`: the node is a model server
 * behind an agent as it is shipped, which has dialled in. `peer`: the same, and the agent has dialled in at another gateway of
 * the same database than the one that is asked. `processes`: a gateway of two processes, whose nodes are reached by HTTP and by
 * tunnels that either process holds.
 */
export const ways = ['direct', 'tunnel', 'peer', 'processes'] as const
export type Way = (typeof ways)[number]

/** Those of them that are to run; `HOSTILE_WAY` names one. */
export const waysAsked = (among: readonly Way[]): readonly Way[] => {
  const { HOSTILE_WAY } = process.env
  return among.filter((way) => HOSTILE_WAY === undefined || way === HOSTILE_WAY)
}

/** How a model server is reached: by itself, or by the agent beside it. */
export type Connection = 'http' | 'agent'

export function connectionOf(way: Way, nodesBefore: number): Connection {
  if (way === 'direct') return 'http'
  return way === 'processes' && nodesBefore % 2 === 0 ? 'http' : 'agent'
}
