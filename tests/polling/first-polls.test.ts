import { expect, test } from 'bun:test'
import { FirstPolls, firstPollsMax, placeMsMax } from '../../src/polling/first-polls.ts'
import type { Bounded, Probe } from '../../src/polling/node-watch.ts'
import { turn } from '../support/run/turn.ts'
import { VirtualClock } from '../support/run/virtual-clock.ts'

const bounded: Bounded = (work) => work(new AbortController().signal)
const answered = { kind: 'answered', reports: [] } as const

test('§8: of many nodes that come at once so many are asked, each in its turn, and the next when one has answered or failed', async () => {
  // On a clock that stands still no place is given up, however slow the machine is.
  const polls = new FirstPolls(new VirtualClock())
  const nodes = 3 * firstPollsMax
  const asked: number[] = []
  const ends: ((failed: boolean) => void)[] = []
  const probes = Array.from(
    { length: nodes },
    (_, at): Probe =>
      polls.inTurn(() => {
        asked.push(at)
        return new Promise((resolve, reject) =>
          ends.push((failed) => (failed ? reject(new Error('silent')) : resolve(answered))),
        )
      }),
  )
  const results = probes.map((probe) => probe(bounded).catch(() => 'failed' as const))
  await turn()
  expect(asked).toHaveLength(firstPollsMax)
  for (let ended = 0; ended < nodes; ended++) {
    ends[ended]?.(ended % 3 === 0)
    await turn()
    expect(asked.length).toBe(Math.min(nodes, firstPollsMax + ended + 1))
  }
  expect(asked).toEqual(Array.from({ length: nodes }, (_, at) => at))
  expect((await Promise.all(results)).filter((result) => result === 'failed')).toHaveLength(nodes / 3)
})

test('§8: nodes that say nothing keep no other node waiting for long', async () => {
  const clock = new VirtualClock()
  const polls = new FirstPolls(clock)
  for (let at = 0; at < 2 * firstPollsMax; at++) void polls.inTurn(() => new Promise(() => {}))(bounded)
  let result: unknown
  void polls
    .inTurn(async () => answered)(bounded)
    .then((answer) => {
      result = answer
    })
  await clock.pass(2 * placeMsMax - 1)
  expect(result).toBeUndefined()
  await clock.pass(1)
  expect(result).toEqual(answered)
})

test('§8: later polls wait for nobody', async () => {
  const polls = new FirstPolls()
  let asked = 0
  const known = polls.inTurn(async () => {
    asked++
    return answered
  })
  await known(bounded)
  for (let at = 0; at < firstPollsMax; at++) void polls.inTurn(() => new Promise(() => {}))(bounded)
  await turn()
  await known(bounded)
  expect(asked).toBe(2)
})
