import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { matchKey } from '../../../src/machines/mixture/strategies/match-key.ts'
import { strategies, strategyNames } from '../../../src/machines/mixture/strategies/registry.ts'
import type { Candidate, Candidates, SelectingStrategy } from '../../../src/machines/mixture/strategies/strategy.ts'
import { pooledWeight, vote } from '../../../src/machines/mixture/strategies/vote.ts'
import { topWeighted, weighted } from '../../../src/machines/mixture/strategies/weighted.ts'
import { candidates, type Said } from './messages.ts'

const winner = (strategy: SelectingStrategy, ...answers: readonly Said[]) =>
  strategy.select(candidates(...answers) as unknown as Candidates).index

test('§7: default quorum: half of the experts rounded up for vote, 1 otherwise', () => {
  const quorums = (name: keyof typeof strategies) => [1, 2, 3, 4, 5].map(strategies[name].quorumDefault)
  expect(quorums('vote')).toEqual([1, 1, 2, 2, 3])
  for (const name of strategyNames) if (name !== 'vote') expect([name, quorums(name)]).toEqual([name, [1, 1, 1, 1, 1]])
})

describe('§7, tie-breaks', () => {
  test('weighted: the highest weight, then the lowest index', () => {
    expect(winner(weighted, ['x', 1], ['y', 3], ['z', 2])).toBe(1)
    expect(winner(weighted, ['x', 2], ['y', 2], ['z', 1])).toBe(0)
  })

  test('vote: the highest pooled weight', () => {
    expect(winner(vote, ['x', 3], ['y', 2], ['Y.', 2])).toBe(1)
  })

  test('vote: pooled weights that tie: more members', () => {
    expect(winner(vote, ['x', 2], ['y', 1], ['y', 1])).toBe(1)
    // 0.1 + 0.2 is not 0.3 to a computer.
    expect(winner(vote, ['x', 0.3], ['y', 0.1], ['y', 0.2])).toBe(2)
  })

  test('vote: members that tie, too: the highest single weight', () => {
    expect(winner(vote, ['x', 2], ['x', 2], ['y', 1], ['y', 3])).toBe(3)
  })

  test('vote: a tie in all: the lowest index', () => {
    expect(winner(vote, ['x'], ['y'], ['y'], ['x'])).toBe(0)
    expect(winner(vote, ['x'], ['y'], ['z'])).toBe(0)
  })

  test('vote: of the winning answers the highest weight, then the lowest index', () => {
    expect(winner(vote, ['Y', 1], ['y', 2], ['y.', 2])).toBe(1)
  })
})

/** Few distinct answers, so that they meet; tenths, whose sums are not exact. */
const text = fc.constantFrom('Paris', 'paris.', 'London', 'The London', '42', '42.0', 'C', 'C++', 'yes')
const weight = fc.integer({ min: 1, max: 30 }).map((tenths) => tenths / 10)
const answers = fc.array(fc.tuple(text, weight), { minLength: 1, maxLength: 16 })
const asCandidates = (list: readonly (readonly [string, number])[]) => candidates(...list) as unknown as Candidates

/** Exact, in tenths. */
function tenthsByKey(list: Candidates): ReadonlyMap<string, { tenths: number; members: number; heaviest: number }> {
  const sums = new Map<string, { tenths: number; members: number; heaviest: number }>()
  for (const candidate of list) {
    const key = matchKey(candidate.message) ?? ''
    const { tenths, members, heaviest } = sums.get(key) ?? { tenths: 0, members: 0, heaviest: 0 }
    const own = Math.round(candidate.weight * 10)
    sums.set(key, { tenths: tenths + own, members: members + 1, heaviest: Math.max(heaviest, own) })
  }
  return sums
}
const rank = ({ tenths, members, heaviest }: { tenths: number; members: number; heaviest: number }) =>
  tenths * 1e6 + members * 1e3 + heaviest

const permuted = fc.tuple(answers, fc.infiniteStream(fc.nat())).map(([list, order]) => {
  const ranks = list.map(() => Number(order.next().value))
  return [list, list.map((_, at) => at).sort((a, b) => (ranks[a] ?? 0) - (ranks[b] ?? 0) || a - b)] as const
})

describe('properties', () => {
  test('the answer is one of the surviving answers, untouched', () => {
    fc.assert(
      fc.property(answers, (list) => {
        const given = asCandidates(list)
        for (const strategy of [vote, weighted]) {
          const chosen = strategy.select(given)
          expect(given[chosen.index]).toBe(chosen)
          expect(chosen.message.content).toBe(list[chosen.index]?.[0])
        }
      }),
    )
  })

  test('pooled weights are exact at 12 digits', () => {
    fc.assert(
      fc.property(fc.array(weight, { minLength: 1, maxLength: 16 }), (weights) => {
        const members = weights.map((own, index): Candidate => ({ index, weight: own, message: {} }))
        const tenths = weights.reduce((sum, own) => sum + Math.round(own * 10), 0)
        expect(pooledWeight(members)).toBe(tenths / 10)
      }),
    )
  })

  test('vote wins by pooled weight, members and single weight; only a tie in all three looks at the index', () => {
    fc.assert(
      fc.property(answers, (list) => {
        const given = asCandidates(list)
        const sums = tenthsByKey(given)
        const chosen = vote.select(given)
        const key = matchKey(chosen.message) ?? ''
        const best = Math.max(...[...sums.values()].map(rank))
        const top = [...sums].filter(([, sum]) => rank(sum) === best).map(([name]) => name)
        const first = given.find((candidate) => top.includes(matchKey(candidate.message) ?? ''))
        expect(key).toBe(matchKey(first?.message ?? {}) ?? '')
        const members = given.filter((candidate) => matchKey(candidate.message) === key)
        expect(chosen).toBe(topWeighted(members as unknown as Candidates))
      }),
    )
  })

  test('permuting the experts changes nothing but who wins a tie', () => {
    fc.assert(
      fc.property(permuted, ([list, order]) => {
        const given = asCandidates(list)
        const other = asCandidates(order.map((at) => list[at] ?? ['', 0]))
        const sums = tenthsByKey(given)
        const rankOf = (candidate: Candidate) =>
          rank(sums.get(matchKey(candidate.message) ?? '') ?? { tenths: 0, members: 0, heaviest: 0 })
        expect(rankOf(vote.select(other))).toBe(rankOf(vote.select(given)))
        expect(weighted.select(other).weight).toBe(weighted.select(given).weight)
        const tied = [...sums.values()].filter((sum) => rank(sum) === rankOf(vote.select(given))).length > 1
        if (!tied) expect(matchKey(vote.select(other).message)).toBe(matchKey(vote.select(given).message))
      }),
    )
  })
})
