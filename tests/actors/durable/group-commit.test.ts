import { expect, test } from 'bun:test'
import { GroupCommit } from '../../../src/actors/durable/group-commit.ts'
import { waitLimitMs } from '../../support/run/limits.ts'

interface Commit {
  readonly requests: readonly number[]
  /** Answers all of the group. */
  end(): void
}

/** Commits that end when the test says so, by a clock that it turns on. */
function openCommits(gather?: { readonly msMax: number; readonly moreCome: (waiting: number) => boolean }) {
  const commits: Commit[] = []
  const began: (() => void)[] = []
  let nowMs = 0
  const group = new GroupCommit<number, number>({
    groupMax: 4,
    waitingMax: 100,
    commitWaitMs: waitLimitMs,
    now: () => nowMs,
    ...(gather === undefined ? {} : { gather }),
    commit: (requests) =>
      new Promise((resolve) => {
        commits.push({ requests, end: () => resolve(requests) })
        began.shift()?.()
      }),
  })
  const next = () => new Promise<void>((resolve) => began.push(resolve))
  const takes = (ms: number) => {
    nowMs += ms
  }
  return { group, commits, next, takes }
}

/** A commit that takes long: what wrongly gathers behind it is not sent in the same turn, ms. */
const longMs = 10_000
const shortMs = 50
/** One turn of the event loop and all that it resolves. */
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

test('§13: what comes in one turn is one commit, what comes meanwhile is the next, and none is larger than its bound', async () => {
  const { group, commits, next } = openCommits()
  const first = next()
  const answers = [1, 2, 3].map((request) => group.add(request))
  await first
  const second = next()
  answers.push(...[4, 5, 6, 7, 8].map((request) => group.add(request)))
  await turn()
  expect(commits.map(({ requests }) => requests)).toEqual([[1, 2, 3]])
  commits[0]?.end()
  await second
  const third = next()
  commits[1]?.end()
  await third
  commits[2]?.end()
  expect(await Promise.all(answers)).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
  expect(commits.map(({ requests }) => requests)).toEqual([[1, 2, 3], [4, 5, 6, 7], [8]])
  expect(group.counts()).toEqual({ groups: 3, requests: 8, waiting: 0 })
})

test('§13: behind a commit of several the next one gathers', async () => {
  const { group, commits, next, takes } = openCommits({ msMax: 10_000, moreCome: () => true })
  const first = next()
  const answers = [1, 2].map((request) => group.add(request))
  await first
  takes(shortMs)
  commits[0]?.end()
  expect(await Promise.all(answers)).toEqual([1, 2])
  const second = next()
  const later = [group.add(3)]
  // Without it the commit would have begun by then.
  for (let microtask = 0; microtask < 10; microtask++) await Promise.resolve()
  expect(commits).toHaveLength(1)
  later.push(group.add(4))
  await second
  expect(commits[1]?.requests).toEqual([3, 4])
  commits[1]?.end()
  expect(await Promise.all(later)).toEqual([3, 4])
})

test('§13: who commits alone never waits for company, and a full group gathers no longer', async () => {
  const { group, commits, next, takes } = openCommits({ msMax: 10_000, moreCome: () => true })
  for (const request of [1, 2]) {
    const began = next()
    const answer = group.add(request)
    await began
    takes(longMs)
    commits.at(-1)?.end()
    expect(await answer).toBe(request)
    const again = group.add(request + 10)
    await turn()
    expect(commits.at(-1)?.requests).toEqual([request + 10])
    commits.at(-1)?.end()
    await again
  }
  const pair = next()
  const two = [group.add(21), group.add(22)]
  await pair
  two.push(...[31, 32, 33, 34].map((request) => group.add(request)))
  takes(longMs)
  commits.at(-1)?.end()
  await turn()
  expect(commits.at(-1)?.requests).toEqual([31, 32, 33, 34])
  commits.at(-1)?.end()
  expect(await Promise.all(two)).toEqual([21, 22, 31, 32, 33, 34])
})

/** Commits that fail with this code where a group has a negative number; `seen`: the groups. */
function failingCommits(code: string) {
  const seen: (readonly number[])[] = []
  const group = new GroupCommit<number, number>({
    groupMax: 8,
    waitingMax: 100,
    commitWaitMs: waitLimitMs,
    commit: async (requests) => {
      seen.push(requests)
      if (requests.some((request) => request < 0)) throw Object.assign(new Error('refused'), { code })
      return requests
    },
  })
  const add = (...requests: readonly number[]) => Promise.allSettled(requests.map((request) => group.add(request)))
  return { seen, add, group }
}

test('§13: one that the database will never take fails alone: the others are committed one by one', async () => {
  const { seen, add, group } = failingCommits('23514')
  const outcomes = await add(1, -2, 3)
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(seen).toEqual([[1, -2, 3], [1], [-2], [3]])
  expect(group.counts()).toEqual({ groups: 2, requests: 2, waiting: 0 })
  expect((await add(4, 5)).map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled'])
})

test('§13: of a commit that failed for another reason nobody knows what became of it: all hear so, and none is sent again', async () => {
  const { seen, add } = failingCommits('57P01')
  expect((await add(1, -2, 3)).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
  expect(seen).toEqual([[1, -2, 3]])
})

test('§13: where nobody else is on the way, nobody is waited for', async () => {
  let onTheWay = 0
  const { group, commits, next, takes } = openCommits({ msMax: 10_000, moreCome: (waiting) => onTheWay > waiting })
  const first = next()
  const answers = [1, 2].map((request) => group.add(request))
  await first
  takes(longMs)
  commits[0]?.end()
  await Promise.all(answers)
  onTheWay = 2
  answers.push(group.add(3), group.add(4))
  await turn()
  expect(commits[1]?.requests).toEqual([3, 4])
  commits[1]?.end()
  expect(await Promise.all(answers)).toEqual([1, 2, 3, 4])
})

test('§13: a commit that PostgreSQL has taken back for a deadlock is made anew, at most three times within five seconds', async () => {
  let nowMs = 0
  /** How many commits of one group there were, when each fails so often, after so long; and how it ended. */
  const made = async (failures: number, eachMs: number) => {
    let commits = 0
    const group = new GroupCommit<number, number>({
      groupMax: 8,
      waitingMax: 100,
      commitWaitMs: waitLimitMs,
      now: () => nowMs,
      commit: async (requests) => {
        nowMs += eachMs
        if (++commits <= failures) throw Object.assign(new Error('deadlock detected'), { code: '40P01' })
        return requests
      },
    })
    const ends = await Promise.allSettled([1, 2].map((request) => group.add(request)))
    return [commits, ...ends.map(({ status }) => status)]
  }
  expect(await made(2, 1_000)).toEqual([3, 'fulfilled', 'fulfilled'])
  expect(await made(3, 1_000)).toEqual([3, 'rejected', 'rejected'])
  expect(await made(1, 6_000)).toEqual([1, 'rejected', 'rejected'])
})
