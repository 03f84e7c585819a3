import type { Node } from '../../protocol/wire/admin/admin.ts'
import { slotsOf } from './node-facts.ts'

/** How many more requests of a model the nodes can serve that tell their slots. */
export interface RoomLeft {
  readonly model: string
  readonly free: number
  readonly slots: number
  /** Ready nodes that have the model and tell their slots; `silent`: that do not tell them. */
  readonly nodes: number
  readonly silent: number
}

/** By model, least free first. Models of one node share its slots, so that the sum over models is not that of the pool. */
export function roomLeft(nodes: readonly Node[]): readonly RoomLeft[] {
  const byModel = new Map<string, RoomLeft>()
  for (const node of nodes.filter(({ state }) => state === 'ready')) {
    const slots = slotsOf(node)
    const ready = node.runtimes.flatMap(({ models }) => models.flatMap((each) => (each.ready ? [each.model] : [])))
    for (const model of new Set(ready)) {
      const { free = 0, slots: all = 0, nodes: telling = 0, silent = 0 } = byModel.get(model) ?? {}
      byModel.set(model, {
        model,
        free: free + Math.max(0, (slots ?? 0) - node.in_flight),
        slots: all + (slots ?? 0),
        nodes: telling + (slots === null ? 0 : 1),
        silent: silent + (slots === null ? 1 : 0),
      })
    }
  }
  const share = ({ free, slots, silent }: RoomLeft) => (slots === 0 ? 2 : silent > 0 ? 1 + free / slots : free / slots)
  return [...byModel.values()].toSorted((a, b) => share(a) - share(b) || a.model.localeCompare(b.model))
}
