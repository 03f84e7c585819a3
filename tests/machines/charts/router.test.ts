import { expect, test } from 'bun:test'
import { createActor, SimulatedClock } from 'xstate'
import { getShortestPaths } from 'xstate/graph'
import { routerMachine } from '../../../src/machines/charts/router.ts'

const input = { probingMaxMs: 6_000 }

function start() {
  const clock = new SimulatedClock()
  const actor = createActor(routerMachine, { input, clock }).start()
  return { actor, clock, state: () => actor.getSnapshot().value }
}

test('probing until each node of the first rows has been asked, then serving', () => {
  const { actor, state } = start()
  actor.send({ type: 'node.added' })
  actor.send({ type: 'node.added' })
  actor.send({ type: 'node.probed' })
  actor.send({ type: 'rows.read' })
  expect(state()).toBe('probing')
  actor.send({ type: 'node.probed' })
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
  actor.send({ type: 'node.added' })
  actor.send({ type: 'rows.read' })
  clock.increment(5_999)
  expect(state()).toBe('probing')
  clock.increment(1)
  expect(state()).toBe('serving')
})

test('a node that is removed before it was asked is no longer waited for', () => {
  const { actor, state } = start()
  actor.send({ type: 'node.added' })
  actor.send({ type: 'rows.read' })
  expect(state()).toBe('probing')
  actor.send({ type: 'node.removed' })
  expect(state()).toBe('serving')
})

test('a node that comes later does not take the pool back to probing', () => {
  const { actor, state } = start()
  actor.send({ type: 'rows.read' })
  actor.send({ type: 'node.added' })
  expect(state()).toBe('serving')
})

test('every state is reachable', () => {
  const events = [{ type: 'rows.read' }, { type: 'stop.asked' }] as const
  const paths = getShortestPaths(routerMachine, { input, events: [...events], limit: 1_000 })
  expect(new Set(paths.map((path) => path.state.value as string))).toEqual(new Set(['probing', 'serving', 'stopping']))
})
