import { type ActorRefFrom, assign, enqueueActions, setup, stopChild } from 'xstate'
import type { NodeId } from '../../ids.ts'
import { type NodeThresholds, nodeMachine } from './node.ts'

export type RouterEvent =
  | { readonly type: 'node.added'; readonly nodeId: NodeId }
  | { readonly type: 'node.removed'; readonly nodeId: NodeId }
  /** The node answered its first poll, or failed it. */
  | { readonly type: 'node.probed'; readonly nodeId: NodeId }
  /** All rows of the first read were added. */
  | { readonly type: 'rows.read' }
  | { readonly type: 'stop.asked' }

export interface RouterContext {
  readonly thresholds: NodeThresholds
  readonly probingMaxMs: number
  readonly nodes: ReadonlyMap<NodeId, ActorRefFrom<typeof nodeMachine>>
  /** Added and not yet probed. */
  readonly unprobed: ReadonlySet<NodeId>
  readonly rowsRead: boolean
}

const without = <T>(set: ReadonlySet<T>, item: T): ReadonlySet<T> => new Set([...set].filter((other) => other !== item))

/** The pool: a child per node, spawned because their number is known only at run time. */
export const routerMachine = setup({
  types: {
    context: {} as RouterContext,
    input: {} as { readonly thresholds: NodeThresholds; readonly probingMaxMs: number },
    events: {} as RouterEvent,
  },
  actors: { node: nodeMachine },
  delays: { probingBound: ({ context }) => context.probingMaxMs },
  guards: { allProbed: ({ context }) => context.rowsRead && context.unprobed.size === 0 },
  actions: {
    addNode: assign(({ context, event, spawn }) => {
      if (event.type !== 'node.added' || context.nodes.has(event.nodeId)) return {}
      const child = spawn('node', { id: event.nodeId, input: context.thresholds })
      return {
        nodes: new Map(context.nodes).set(event.nodeId, child),
        unprobed: new Set(context.unprobed).add(event.nodeId),
      }
    }),
    removeNode: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== 'node.removed') return
      const nodes = new Map(context.nodes)
      nodes.delete(event.nodeId)
      enqueue(stopChild(event.nodeId))
      enqueue.assign({ nodes, unprobed: without(context.unprobed, event.nodeId) })
    }),
    markProbed: assign(({ context, event }) =>
      event.type === 'node.probed' ? { unprobed: without(context.unprobed, event.nodeId) } : {},
    ),
    markRowsRead: assign({ rowsRead: true }),
  },
}).createMachine({
  id: 'router',
  initial: 'probing',
  context: ({ input }) => ({ ...input, nodes: new Map(), unprobed: new Set(), rowsRead: false }),
  on: {
    'node.added': { actions: 'addNode' },
    'node.removed': { actions: 'removeNode' },
    'node.probed': { actions: 'markProbed' },
    'rows.read': { actions: 'markRowsRead' },
    'stop.asked': '.stopping',
  },
  states: {
    /** Until each known node has answered or failed once: a cold start must not look like an empty pool. */
    probing: {
      always: { guard: 'allProbed', target: 'serving' },
      after: { probingBound: 'serving' },
    },
    serving: {},
    stopping: { type: 'final' },
  },
})
