import { assign, setup } from 'xstate'

export type RouterEvent =
  | { readonly type: 'node.added' }
  /** A node was removed before it was probed. */
  | { readonly type: 'node.removed' }
  /** A node answered its first poll, or failed it. */
  | { readonly type: 'node.probed' }
  /** All rows of the first read were added. */
  | { readonly type: 'rows.read' }
  | { readonly type: 'stop.asked' }

export interface RouterContext {
  readonly probingMaxMs: number
  /** How many nodes were added and are not yet probed. Who sends the events knows which: a set would be copied for each of thousands. */
  readonly unprobed: number
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
  guards: { allProbed: ({ context }) => context.rowsRead && context.unprobed === 0 },
  actions: {
    await: assign({ unprobed: ({ context }) => context.unprobed + 1 }),
    awaitNoMore: assign({ unprobed: ({ context }) => context.unprobed - 1 }),
    markRowsRead: assign({ rowsRead: true }),
  },
}).createMachine({
  id: 'router',
  initial: 'probing',
  context: ({ input }) => ({ ...input, unprobed: 0, rowsRead: false }),
  on: { 'stop.asked': '.stopping' },
  states: {
    /** Until each known node has answered or failed once: a cold start must not look like an empty pool. */
    probing: {
      on: {
        'node.added': { actions: 'await' },
        'node.removed': { actions: 'awaitNoMore' },
        'node.probed': { actions: 'awaitNoMore' },
        'rows.read': { actions: 'markRowsRead' },
      },
      always: { guard: 'allProbed', target: 'serving' },
      after: { probingBound: 'serving' },
    },
    serving: {},
    stopping: { type: 'final' },
  },
})
