import { expect, test } from 'bun:test'
import { createActor, SimulatedClock } from 'xstate'
import { getShortestPaths } from 'xstate/graph'
import { routerMachine } from '../../../src/machines/charts/router.ts'

const thresholds = { staleAfterMs: 15_000, offlineAfterMs: 45_000, holdDownMs: 300_000, drainTimeoutMs: 300_000 }
const input = { thresholds, probingMaxMs: 6_000 }

function start() {
  const clock = new SimulatedClock()
  const actor = createActor(routerMachine, { input, clock }).start()
  return { actor, clock, state: () => actor.getSnapshot().value }
}

test('probing until each node of the first rows has been asked, then serving', () => {
  const { actor, state } = start()
  actor.send({ type: 'node.added', nodeId: 'node_a' })
  actor.send({ type: 'node.added', nodeId: 'node_b' })
  actor.send({ type: 'node.probed', nodeId: 'node_a' })
  actor.send({ type: 'rows.read' })
  expect(state()).toBe('probing')
  actor.send({ type: 'node.probed', nodeId: 'node_b' })
  expect(state()).toBe('serving')
})

test('no rows: serving at once; before they were read: not', () => {
  const { actor, state } = start()
  expect(state()).toBe('probing')
  actor.send({ type: 'rows.read' })
  expect(state()).toBe('serving')
})

test('a node that hangs delays the start by a bound', () => {
  const { actor, clock, state } = start()
  actor.send({ type: 'node.added', nodeId: 'node_a' })
  actor.send({ type: 'rows.read' })
  clock.increment(5_999)
  expect(state()).toBe('probing')
  clock.increment(1)
  expect(state()).toBe('serving')
})

test('a child per node; a removed one is stopped and no longer waited for', () => {
  const { actor, state } = start()
  actor.send({ type: 'node.added', nodeId: 'node_a' })
  actor.send({ type: 'rows.read' })
  const child = actor.getSnapshot().context.nodes.get('node_a')
  expect(child?.getSnapshot().value).toBe('enrolled')
  actor.send({ type: 'node.removed', nodeId: 'node_a' })
  expect(child?.getSnapshot().status).toBe('stopped')
  expect(actor.getSnapshot().context.nodes.size).toBe(0)
  expect(state()).toBe('serving')
})

test('a revoked node ends its own chart and leaves the pool alive', () => {
  const { actor } = start()
  actor.send({ type: 'node.added', nodeId: 'node_a' })
  actor.getSnapshot().context.nodes.get('node_a')?.send({ type: 'revoke.asked', at: 1 })
  actor.send({ type: 'node.removed', nodeId: 'node_a' })
  actor.send({ type: 'node.added', nodeId: 'node_b' })
  expect([...actor.getSnapshot().context.nodes.keys()]).toEqual(['node_b'])
})

test('every state is reachable', () => {
  const events = [{ type: 'rows.read' }, { type: 'stop.asked' }] as const
  const paths = getShortestPaths(routerMachine, { input, events: [...events], limit: 1_000 })
  expect(new Set(paths.map((path) => path.state.value as string))).toEqual(new Set(['probing', 'serving', 'stopping']))
})
