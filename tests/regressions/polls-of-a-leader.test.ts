import { expect, test } from 'bun:test'
import { type AskLeader, type PolledPool, SharedPolls } from '../../src/actors/polls/shared-polls.ts'
import type { NodeId } from '../../src/ids.ts'
import { createLog } from '../../src/log.ts'
import type { PollResult } from '../../src/polling/node-watch.ts'
import { VirtualClock } from '../support/run/virtual-clock.ts'

/**
 * Symptom: beside a process that polls for its computer, a node that had failed one poll got no more work from the others when any further node was
 * added: two failed polls in a row say that its models are not ready. When that process died, the one in its place polled no node for an interval.
 * Cause: for a new node all polls were told again, and each counted as another one. What the former leader had told spared the nodes their polls.
 * Fix: a poll has its leader's number, and counts once. A process that leads spares no node.
 */
const config = { SVC_POLL_INTERVAL_MS: 5_000, SVC_PROBE_TIMEOUT_MS: 2_000, SVC_STALE_AFTER_MS: 15_000 }
const log = createLog('silent', () => {})
const way = 'way'
const timeout: PollResult = { kind: 'failed', code: 'timeout' }
const [one, other] = ['node_1' as NodeId, 'node_2' as NodeId]

/** A leading process and one that follows it; what the second takes over. */
function played() {
  const clock = new VirtualClock()
  const taken: NodeId[] = []
  const pool: PolledPool = {
    knows: () => true,
    take: (nodeId) => {
      taken.push(nodeId)
      return true
    },
    poll: () => {},
    resume: () => {},
  }
  const nobody: AskLeader = async () => null
  const leader = new SharedPolls({ config, log, leads: true, ask: nobody, clock })
  const state = { answers: true }
  const ask: AskLeader = async (_leader, since) => {
    const polls = state.answers ? leader.told(since) : null
    return polls === null ? null : { leader: 'leader', polls }
  }
  const follower = new SharedPolls({ config, log, leads: false, ask, clock })
  follower.start(pool)
  return { clock, leader, follower, taken, state, [Symbol.dispose]: () => follower.stop() }
}

test('§37: a poll that is told again for a further node, or after a silence, counts once', async () => {
  using process = played()
  const { clock, leader, follower, taken, state } = process
  leader.record(one, way, timeout, clock.now())
  follower.expects(one)
  await clock.pass(1_000)
  leader.record(other, way, timeout, clock.now())
  follower.expects(other)
  await clock.pass(1_000)
  expect(taken).toEqual([one, other])
  state.answers = false
  await clock.pass(1_000)
  state.answers = true
  await clock.pass(1_000)
  expect(taken).toEqual([one, other])
  leader.record(one, way, timeout, clock.now())
  await clock.pass(1_000)
  expect([taken, follower.spares(one), follower.spares(other)]).toEqual([[one, other, one], true, true])
})

test('§37: a process that begins to lead spares no node, whatever it was told before', async () => {
  using process = played()
  const { clock, leader, follower } = process
  leader.record(one, way, timeout, clock.now())
  follower.expects(one)
  await clock.pass(1_000)
  expect(follower.spares(one)).toBe(true)
  follower.lead()
  expect(follower.spares(one)).toBe(false)
})
