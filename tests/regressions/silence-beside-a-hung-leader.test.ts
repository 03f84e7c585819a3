import { expect, test } from 'bun:test'
import { type AskLeader, type PolledPool, SharedPolls } from '../../src/actors/polls/shared-polls.ts'
import { sleep } from '../../src/clock.ts'
import type { NodeId } from '../../src/ids.ts'
import { createLog } from '../../src/log.ts'
import { createNodeWatch, type NodeWatch, type PollResult } from '../../src/polling/node-watch.ts'
import { VirtualClock } from '../support/run/virtual-clock.ts'

/**
 * Symptom: where the process that polls for its computer stood still, nodes that take more than 1.2 s for a poll counted as silent in the others, and
 * got no work from them until they had answered several polls.
 * Cause: after a third of the allowed silence the polls of all nodes were spread over 2 s, whenever each had been polled last: a poll of an interval before,
 * the third, the 2 s and two slow answers are more than the silence.
 * Fix: a node that would count as silent by then is asked sooner.
 */
const config = { SVC_POLL_INTERVAL_MS: 5_000, SVC_PROBE_TIMEOUT_MS: 2_000, SVC_STALE_AFTER_MS: 15_000 }
const nodeId = 'node_1' as NodeId
const answered: PollResult = { kind: 'answered', reports: [] }
const intervalMsMax = 1.1 * config.SVC_POLL_INTERVAL_MS

for (const answerMs of [100, 1_600, 1_990]) {
  test(`§37: a node that answers in ${answerMs} ms is not silent where the leading process stands still`, async () => {
    const clock = new VirtualClock()
    const leader = new SharedPolls({
      config,
      log: createLog('silent', () => {}),
      leads: true,
      ask: async () => null,
      clock,
    })
    const ending = new AbortController()
    let stands = false
    const ask: AskLeader = async (_leader, since, withinMs) => {
      if (stands) await sleep(withinMs, ending.signal, clock)
      const polls = stands ? null : leader.told(since)
      return polls === null ? null : { leader: 'leader', polls }
    }
    const follower = new SharedPolls({ config, log: createLog('silent', () => {}), leads: false, ask, clock })
    /** Of polls that were answered: when they went out, and when that was known here. */
    const known: { readonly askedMs: number; readonly atMs: number }[] = []
    const heard = (askedMs: number) => void known.push({ askedMs, atMs: clock.now() })
    let watch: NodeWatch | null = null
    const pool: PolledPool = {
      knows: () => true,
      take: (_id, _way, _result, askedMs) => {
        heard(askedMs)
        return true
      },
      poll: () => {},
      // The latest of all moments.
      resume: (withinMs) => watch?.resume(withinMs(nodeId)),
    }
    watch = createNodeWatch({
      probe: (bounded) =>
        bounded(async (signal) => {
          await sleep(answerMs, signal, clock)
          return answered
        }),
      intervalMs: config.SVC_POLL_INTERVAL_MS,
      timeoutMs: config.SVC_PROBE_TIMEOUT_MS,
      random: () => 1,
      isSpared: () => follower.spares(nodeId),
      onResult: async (_result, askedMs) => heard(askedMs),
      clock,
    })
    follower.start(pool)
    const polledByLeader = async () => {
      const askedMs = clock.now()
      await clock.pass(answerMs)
      leader.record(nodeId, 'way', answered, askedMs)
      await clock.pass(intervalMsMax - answerMs)
    }
    await polledByLeader()
    await polledByLeader()
    // Its next poll is under way, and has not been told.
    await clock.pass(answerMs - 1)
    stands = true
    await clock.pass(3 * config.SVC_STALE_AFTER_MS)
    watch.stop()
    ending.abort()
    follower.stop()
    const silences = known.slice(1).map(({ atMs }, at) => atMs - (known[at]?.askedMs ?? 0))
    expect(known.length).toBeGreaterThan(5)
    expect(Math.max(...silences)).toBeLessThanOrEqual(config.SVC_STALE_AFTER_MS)
  })
}
