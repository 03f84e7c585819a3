import { afterEach, describe, expect, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import {
  type AskLeader,
  firstNewsMsMax,
  type LeadersAnswer,
  type PolledPool,
  SharedPolls,
} from '../../../src/actors/polls/shared-polls.ts'
import type { NodeId } from '../../../src/ids.ts'
import { createLog } from '../../../src/log.ts'
import type { PollResult } from '../../../src/polling/node-watch.ts'
import { Polls, pollsSentMax } from '../../../src/protocol/wire/admin/processes.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'

const config = { SVC_POLL_INTERVAL_MS: 5_000, SVC_PROBE_TIMEOUT_MS: 2_000, SVC_STALE_AFTER_MS: 15_000 }
const patienceMs = 5_000
const way = 'way'
const refused: PollResult = { kind: 'failed', code: 'refused' }
const timeout: PollResult = { kind: 'failed', code: 'timeout' }
const idAt = (at: number) => `node_${at}` as NodeId

interface Taken {
  readonly nodeId: NodeId
  readonly result: PollResult
  readonly askedMs: number
}

/** A process with its pool, which writes down what it is told. */
class PlayedProcess implements PolledPool {
  readonly taken: Taken[] = []
  readonly polled: NodeId[] = []
  readonly resumed: number[] = []
  private readonly lines: string[] = []
  private readonly log = createLog('info', (text) => void this.lines.push(text))
  readonly polls: SharedPolls

  constructor(
    clock: VirtualClock,
    leads: boolean,
    ask: AskLeader,
    private readonly ways: (nodeId: NodeId) => string | null = () => way,
  ) {
    this.polls = new SharedPolls({ config, log: this.log, leads, ask, clock })
  }

  knows(nodeId: NodeId): boolean {
    return this.ways(nodeId) !== null
  }
  take(nodeId: NodeId, theirs: string, result: PollResult, askedMs: number): boolean {
    if (this.ways(nodeId) !== theirs) return false
    this.taken.push({ nodeId, result, askedMs })
    return true
  }
  logged(): string {
    this.log.flush()
    return this.lines.join('')
  }
  poll(nodeId: NodeId): void {
    this.polled.push(nodeId)
  }
  resume(withinMs: (nodeId: NodeId) => number): void {
    this.resumed.push(withinMs(idAt(1)))
  }
}

const nobody: AskLeader = async () => null
const playing: SharedPolls[] = []
afterEach(() => {
  for (const polls of playing.splice(0)) polls.stop()
})

/** Two processes of one computer, over JSON. `answers`: false while the leader stands still. */
function played({ ways }: { readonly ways?: (nodeId: NodeId) => string | null } = {}) {
  const clock = new VirtualClock()
  const leader = new PlayedProcess(clock, true, nobody)
  const state = { answers: true, asked: 0, sent: [] as Polls[] }
  const ask: AskLeader = async (_leader, since) => {
    state.asked++
    const told = state.answers ? leader.polls.told(since) : null
    if (told === null) return null
    const polls: unknown = JSON.parse(JSON.stringify(told))
    if (!Value.Check(Polls, polls)) throw new Error('not as the schema says')
    state.sent.push(polls)
    return { leader: 'leader', polls }
  }
  const follower = new PlayedProcess(clock, false, ask, ways)
  playing.push(leader.polls, follower.polls)
  leader.polls.start(leader)
  return { clock, leader: leader.polls, leaderPool: leader, follower, state }
}

const second = 1_000

describe('§37: a process takes over what the leading one polls', () => {
  test('each result once, and no later than a second after it; what is the same is not sent again', async () => {
    const { clock, leader, follower, state } = played()
    follower.polls.start(follower)
    expect(follower.polls.expects(idAt(1))).toBe(true)
    leader.record(idAt(1), way, refused, clock.now())
    await clock.pass(second)
    await clock.pass(second)
    expect(follower.taken).toEqual([{ nodeId: idAt(1), result: refused, askedMs: 0 }])
    expect([follower.polls.spares(idAt(1)), follower.polls.spares(idAt(2))]).toEqual([true, false])
    leader.record(idAt(1), way, refused, clock.now())
    await clock.pass(second)
    leader.record(idAt(1), way, timeout, clock.now())
    await clock.pass(second)
    expect(follower.taken.map(({ result }) => result)).toEqual([refused, refused, timeout])
    const texts = state.sent.flatMap(({ polls }) => polls.map(({ result }) => result !== undefined))
    expect(texts).toEqual([true, false, true])
    expect(follower.polled).toEqual([])
  })

  test('nothing counts as newer than it is', async () => {
    const { clock, leader, follower } = played()
    follower.polls.start(follower)
    await clock.pass(second)
    leader.record(idAt(1), way, refused, clock.now() - 0.4)
    const askedMs = clock.now() - 0.4
    await clock.pass(300)
    follower.polls.expects(idAt(1))
    await clock.pass(second)
    expect(follower.taken.length).toBeGreaterThan(0)
    for (const taken of follower.taken) expect(taken.askedMs).toBeLessThanOrEqual(askedMs)
    for (const taken of follower.taken) expect(taken.askedMs).toBeGreaterThan(askedMs - 1.1)
  })

  test('what the leader has not polled for long is polled from here', async () => {
    const { clock, leader, follower } = played()
    leader.record(idAt(1), way, refused, clock.now())
    await clock.pass(12 * second)
    follower.polls.start(follower)
    follower.polls.expects(idAt(1))
    await clock.pass(second)
    expect([follower.taken, follower.polled]).toEqual([[], [idAt(1)]])
    expect(follower.polls.spares(idAt(1))).toBe(false)
    leader.record(idAt(1), way, refused, clock.now())
    await clock.pass(second)
    expect(follower.polls.spares(idAt(1))).toBe(true)
    await clock.pass(12 * second)
    expect(follower.polls.spares(idAt(1))).toBe(false)
  })

  test('of thousands of nodes, in answers of a bounded length without a pause between', async () => {
    const { clock, leader, follower, state } = played()
    const count = 2 * pollsSentMax + 1
    for (let at = 0; at < count; at++) leader.record(idAt(at), way, refused, clock.now())
    follower.polls.start(follower)
    for (let at = 0; at < count; at++) follower.polls.expects(idAt(at))
    await clock.pass(100)
    expect(follower.taken.map(({ nodeId }) => nodeId)).toEqual(Array.from({ length: count }, (_, at) => idAt(at)))
    expect(state.sent.map(({ polls }) => polls.length)).toEqual([0, pollsSentMax, pollsSentMax, 1])
  })

  test('a node that is new waits for all answers of the leader, and for each at most 250 ms', async () => {
    const { clock, leader } = played()
    const count = 2 * pollsSentMax + 1
    for (let at = 0; at < count; at++) leader.record(idAt(at), way, refused, clock.now())
    const last = idAt(count - 1)
    for (const [answerMs, polled, heard] of [
      [firstNewsMsMax - 1, [], true],
      [firstNewsMsMax + 1, [last], false],
    ] as const) {
      const ask: AskLeader = async (_leader, since) => {
        await new Promise<void>((resolve) => clock.after(answerMs, resolve))
        const polls = leader.told(since)
        return polls === null ? null : { leader: 'leader', polls }
      }
      const fresh = new PlayedProcess(clock, false, ask)
      playing.push(fresh.polls)
      fresh.polls.start(fresh)
      fresh.polls.expects(last)
      await clock.pass(5 * answerMs)
      expect(fresh.polled).toEqual([...polled])
      expect(fresh.taken.some(({ nodeId }) => nodeId === last)).toBe(heard)
    }
  })

  test('not of another address: such a node is polled from here until both have read the same row', async () => {
    let now: string | null = 'moved'
    const { clock, leader, follower } = played({ ways: () => now })
    leader.record(idAt(1), way, refused, clock.now())
    follower.polls.start(follower)
    follower.polls.expects(idAt(1))
    await clock.pass(second)
    expect([follower.taken, follower.polled, follower.polls.spares(idAt(1))]).toEqual([[], [idAt(1)], false])
    now = way
    follower.polls.expects(idAt(1))
    await clock.pass(second)
    expect(follower.polls.spares(idAt(1))).toBe(true)
  })

  test('of a node that is not known here yet everything is told when it is', async () => {
    let known = false
    const { clock, leader, follower } = played({ ways: () => (known ? way : null) })
    follower.polls.start(follower)
    await clock.pass(second)
    for (const _ of [1, 2, 3]) {
      leader.record(idAt(1), way, refused, clock.now())
      await clock.pass(second)
    }
    expect(follower.taken).toEqual([])
    known = true
    follower.polls.expects(idAt(1))
    await clock.pass(second)
    expect([follower.taken.map(({ result }) => result), follower.polled]).toEqual([[refused], []])
  })

  test('what it does not understand of one node leaves the others as they are', async () => {
    const { clock, leader, follower } = played()
    const odd = { kind: 'answered', reports: [{ label: '', status: { kind: 'newer' } }] } as unknown as PollResult
    leader.record(idAt(1), way, { ...odd, reports: [] } as PollResult, clock.now())
    leader.record(idAt(2), way, { kind: 'failed', code: 'newer' } as unknown as PollResult, clock.now())
    leader.record(idAt(3), way, { kind: 'failed', code: 'exhausted' }, clock.now())
    follower.polls.start(follower)
    for (const at of [1, 2, 3]) follower.polls.expects(idAt(at))
    await clock.pass(second)
    expect(follower.taken.map(({ nodeId }) => nodeId)).toEqual([idAt(1)])
    expect(follower.polled).toEqual([idAt(2), idAt(3)])
    expect([1, 2, 3].map((at) => follower.polls.spares(idAt(at)))).toEqual([true, false, false])
  })
})

describe('§37: without an answer of the leader a process polls by itself', () => {
  test('after a third of the silence that a node is allowed, until the leader answers again', async () => {
    const { clock, leader, follower, state } = played()
    follower.polls.start(follower)
    follower.polls.expects(idAt(1))
    leader.record(idAt(1), way, refused, clock.now())
    await clock.pass(second)
    state.answers = false
    await clock.pass(patienceMs - 2 * second)
    expect([follower.polls.spares(idAt(1)), follower.resumed]).toEqual([true, []])
    await clock.pass(2 * second)
    expect([follower.polls.spares(idAt(1)), follower.resumed]).toEqual([false, [2_000]])
    expect(follower.logged()).toContain('polls_leader_silent')
    state.answers = true
    leader.record(idAt(1), way, refused, clock.now())
    await clock.pass(second)
    expect(follower.polls.spares(idAt(1))).toBe(true)
    expect(follower.logged()).toContain('polls_leader_answers')
  })

  test('a start does not wait for one that does not answer', async () => {
    const clock = new VirtualClock()
    const never: AskLeader = () => new Promise<LeadersAnswer | null>(() => {})
    const alone = new PlayedProcess(clock, false, never)
    playing.push(alone.polls)
    alone.polls.start(alone)
    expect(alone.polls.expects(idAt(1))).toBe(true)
    await clock.pass(firstNewsMsMax - 1)
    expect(alone.polled).toEqual([])
    await clock.pass(1)
    expect(alone.polled).toEqual([idAt(1)])
  })

  test('one of an earlier version has no such route: each node is polled at once', async () => {
    const clock = new VirtualClock()
    const beside = new PlayedProcess(clock, false, nobody)
    playing.push(beside.polls)
    beside.polls.start(beside)
    beside.polls.expects(idAt(1))
    await clock.pass(0)
    await clock.pass(1)
    expect(beside.polled).toEqual([idAt(1)])
    expect(beside.polls.expects(idAt(2))).toBe(false)
  })
})

describe('§37: who leads', () => {
  test('a process that is to lead polls all nodes itself, and tells the others', async () => {
    const { clock, follower } = played()
    follower.polls.start(follower)
    expect(follower.polls.told(0)).toBeNull()
    follower.polls.expects(idAt(1))
    follower.polls.lead()
    expect([follower.polled, follower.resumed]).toEqual([[idAt(1)], [2_000]])
    follower.polls.record(idAt(1), way, refused, clock.now())
    expect(follower.polls.told(0)?.polls).toHaveLength(1)
  })

  // Thousands would be asked at once.
  test('one that takes the place of a process that has stood still for long asks none in haste: it has polled them itself', async () => {
    const { clock, leader, follower, state } = played()
    follower.polls.start(follower)
    leader.record(idAt(1), way, refused, clock.now())
    await clock.pass(second)
    state.answers = false
    await clock.pass(4 * config.SVC_STALE_AFTER_MS)
    follower.resumed.length = 0
    follower.polls.lead()
    expect(follower.resumed).toEqual([2_000])
  })

  test('one that no longer leads tells nothing, follows the other, and forgets what it had polled', async () => {
    const clock = new VirtualClock()
    const processes: PlayedProcess[] = []
    const ask: AskLeader = async (name, since) => {
      for (const [at, { polls }] of processes.entries()) {
        const told = name === null || name === String(at) ? polls.told(since) : null
        if (told !== null) return { leader: String(at), polls: told }
      }
      return null
    }
    const [old, fresh] = [new PlayedProcess(clock, true, ask), new PlayedProcess(clock, false, ask)]
    processes.push(old, fresh)
    playing.push(old.polls, fresh.polls)
    for (const process of processes) process.polls.start(process)
    old.polls.record(idAt(1), way, refused, clock.now())
    await clock.pass(second)
    // For a moment both do.
    fresh.polls.lead()
    fresh.polls.record(idAt(1), way, timeout, clock.now())
    expect([old.polls.told(0), fresh.polls.told(0)].map((told) => told?.polls.length)).toEqual([1, 1])
    old.polls.follow()
    expect(old.polls.told(0)).toBeNull()
    await clock.pass(2 * second)
    expect(old.taken.map(({ result }) => result)).toEqual([timeout])
    expect(old.polls.spares(idAt(1))).toBe(true)
    fresh.polls.follow()
    expect(fresh.polls.told(0)).toBeNull()
  })

  test('a node that is gone is told no more', () => {
    const { leader, clock } = played()
    leader.record(idAt(1), way, refused, clock.now())
    leader.forget(idAt(1))
    expect(leader.told(0)?.polls).toEqual([])
  })
})
