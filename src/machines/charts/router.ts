import { assign, setup } from 'xstate'
import type { NodeId } from '../../ids.ts'

export type RouterEvent =
  | { readonly type: 'node.added'; readonly nodeId: NodeId }
  | { readonly type: 'node.removed'; readonly nodeId: NodeId }
  /** The node answered its first poll, or failed it. */
  | { readonly type: 'node.probed'; readonly nodeId: NodeId }
  /** All rows of the first read were added. */
  | { readonly type: 'rows.read' }
  | { readonly type: 'stop.asked' }

export interface RouterContext {
  readonly probingMaxMs: number
  /** Added and not yet probed. */
  readonly unprobed: ReadonlySet<NodeId>
  readonly rowsRead: boolean
}

/** The pool of one gateway: when its start is done. Each node has a chart of its own. */
export const routerMachine = setup({
  types: {
    context: {} as RouterContext,
    input: {} as { readonly probingMaxMs: number },
    events: {} as RouterEvent,
  },
  delays: { probingBound: ({ context }) => context.probingMaxMs },
  guards: { allProbed: ({ context }) => context.rowsRead && context.unprobed.size === 0 },
  actions: {
    await: assign({
      unprobed: ({ context: { unprobed } }, { nodeId }: { readonly nodeId: NodeId }) => new Set(unprobed).add(nodeId),
    }),
    awaitNoMore: assign({
      unprobed: ({ context: { unprobed } }, { nodeId }: { readonly nodeId: NodeId }) =>
        new Set([...unprobed].filter((other) => other !== nodeId)),
    }),
    markRowsRead: assign({ rowsRead: true }),
  },
}).createMachine({
  id: 'router',
  initial: 'probing',
  context: ({ input }) => ({ ...input, unprobed: new Set(), rowsRead: false }),
  on: { 'stop.asked': '.stopping' },
  states: {
    /** Until each known node has answered or failed once: a cold start must not look like an empty pool. */
    probing: {
      on: {
        'node.added': { actions: { type: 'await', params: ({ event }) => event } },
        'node.removed': { actions: { type: 'awaitNoMore', params: ({ event }) => event } },
        'node.probed': { actions: { type: 'awaitNoMore', params: ({ event }) => event } },
        'rows.read': { actions: 'markRowsRead' },
      },
      always: { guard: 'allProbed', target: 'serving' },
      after: { probingBound: 'serving' },
    },
    serving: {},
    stopping: { type: 'final' },
  },
})
