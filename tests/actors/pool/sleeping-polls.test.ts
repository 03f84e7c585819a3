import { expect, test } from 'bun:test'
import { createActor } from 'xstate'
import { PoolNode, sleepersPollMs } from '../../../src/actors/pool/nodes/pool-node.ts'
import type { NodeRow } from '../../../src/db/queries/pool/pool.ts'
import { nodeMachine } from '../../../src/machines/charts/node.ts'
import { LoadTimes } from '../../../src/machines/placement/loads.ts'

const thresholds = { staleAfterMs: 15_000, offlineAfterMs: 45_000, holdDownMs: 300_000, drainTimeoutMs: 300_000 }

function sleeper(change: Partial<NodeRow> = {}): PoolNode {
  const row = { kind: 'runtime', url: 'http://10.0.0.5:8000', wakeMs: null, asleep: null, ...change } as NodeRow
  const actor = createActor(nodeMachine, { input: thresholds })
  const node = new PoolNode(row, actor, 0, new LoadTimes(null))
  actor.start()
  actor.send({ type: 'sleep.told', at: 0 })
  return node
}

test('§39: a sleeping node that nobody wakes is asked once a minute, since a poll may wake it', () => {
  const node = sleeper()
  expect(node.isLeftAlone(1_000)).toBe(false)
  expect(node.isLeftAlone(2_000)).toBe(false)
  node.actor.send({ type: 'connection.refused', at: 3_000 })
  expect(node.isLeftAlone(3_000)).toBe(true)
  expect(node.isLeftAlone(2_000 + sleepersPollMs - 1)).toBe(true)
  expect(node.isLeftAlone(2_000 + sleepersPollMs)).toBe(false)
  expect(node.isLeftAlone(3_000 + sleepersPollMs)).toBe(true)
  node.wake.begun(1)
  expect(node.isLeftAlone(3_000 + sleepersPollMs)).toBe(false)
  node.actor.stop()
})

test('§39: an agent that dials in is not left alone: nothing goes to its computer', () => {
  const node = sleeper({ kind: 'agent', url: null })
  node.actor.send({ type: 'connection.refused', at: 1 })
  expect([node.isLeftAlone(1), node.isLeftAlone(2)]).toEqual([false, false])
  node.actor.stop()
})
