import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type Grant, type Keeper, MemoryBudget, uncountedBytesMax } from '../../src/host/budget.ts'
import { CountedKeeper } from '../../src/host/counted-keeper.ts'

const MiB = 1024 * 1024
const budgetOf = (mebibytes: number, share: number) => new MemoryBudget(mebibytes * MiB, share * MiB)

/** Keeps what it is told to, and says when it was ended. */
class Kept extends CountedKeeper {
  ended = ''
  protected override endForMemory({ code }: { readonly code: string }): void {
    this.ended = code
  }
}

describe('§17: one account of memory', () => {
  test('what is small is not counted, and gets no grant', () => {
    const budget = budgetOf(16, 4)
    const kept = new Kept(budget, 'a')
    expect(kept.keeps(uncountedBytesMax)).toBe(true)
    expect([budget.bytes, kept.handOver(uncountedBytesMax)]).toEqual([0, null])
  })

  test('beyond a share the largest of the same customer ends, never another customer’s', () => {
    const budget = budgetOf(16, 4)
    const [large, small, others] = [new Kept(budget, 'a'), new Kept(budget, 'a'), new Kept(budget, 'b')]
    expect([large.keeps(2 * MiB), small.keeps(MiB), others.keeps(4 * MiB)]).toEqual([true, true, true])
    expect(small.keeps(1.5 * MiB)).toBe(true)
    const more = new Kept(budget, 'a')
    expect(more.keeps(MiB)).toBe(true)
    expect([large.ended, small.ended, others.ended]).toEqual(['rate_limited', '', ''])
    expect(budget.refusals.ended).toBe(1)
  })

  test('of equal ones the one that asks ends, so that those that were there first are served', () => {
    const budget = budgetOf(16, 4)
    const [first, second] = [new Kept(budget, 'a'), new Kept(budget, 'a')]
    expect([first.keeps(3 * MiB), second.keeps(3 * MiB)]).toEqual([true, false])
    expect([first.ended, second.ended]).toEqual(['', 'rate_limited'])
    expect(second.keeps(MiB)).toBe(false)
  })

  test('a new request of a full share is refused, and one of another customer is not', () => {
    const budget = budgetOf(16, 4)
    expect(new Kept(budget, 'a').keeps(4 * MiB)).toBe(true)
    expect([budget.admits('a'), budget.admits('b')]).toEqual([false, true])
    expect(budget.refusals).toEqual({ refused: 1, ended: 0 })
    const { code, status, options } = budget.refusal()
    expect([code, status]).toEqual(['rate_limited', 429])
    expect(options.headers).toEqual({
      'ratelimit-policy': `"memory";q=${4 * MiB};qu="content-bytes"`,
      ratelimit: '"memory";r=0;t=1',
    })
  })

  test('where several customers fill the account, one who keeps nothing is let in', () => {
    const budget = budgetOf(8, 4)
    expect([new Kept(budget, 'a').keeps(4 * MiB), new Kept(budget, 'b').keeps(3.9 * MiB)]).toEqual([true, true])
    expect([budget.admits('a'), budget.admits('b'), budget.admits('c')]).toEqual([false, false, true])
  })

  test('a complete answer on its way to its client is not ended; the one that asks is', () => {
    const budget = budgetOf(16, 4)
    const [sent, asks] = [new Kept(budget, 'a'), new Kept(budget, 'a')]
    expect(sent.keeps(3 * MiB)).toBe(true)
    const grant = sent.handOver(3 * MiB)
    expect(asks.keeps(2 * MiB)).toBe(false)
    grant?.close()
    grant?.close()
    expect(budget.bytes).toBe(0)
  })

  test('whatever is asked for, grown, ended and closed: the sums agree, no share is exceeded, and at the end nothing is kept', () => {
    const step = fc.record({
      customer: fc.nat(2),
      at: fc.nat(5),
      act: fc.constantFrom('hold', 'settle', 'close'),
      bytes: fc.nat(3 * MiB),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const budget = budgetOf(8, 3)
        const places = new Map<string, Grant>()
        const closed: Keeper = { outOfMemory: () => {} }
        for (const { customer, at, act, bytes } of steps) {
          const place = `${customer}:${at}`
          let grant = places.get(place)
          if (grant === undefined) {
            grant = budget.open(String(customer), closed)
            places.set(place, grant)
          }
          if (act === 'hold') {
            const held = grant.hold(bytes)
            if (held) expect(grant.bytes).toBeGreaterThanOrEqual(bytes)
            else places.delete(place)
          } else if (act === 'close') {
            grant.close()
            places.delete(place)
          } else if (grant.place !== -1) grant.settle(Math.min(bytes, grant.bytes))
          const sum = [...places.values()].reduce((total, { bytes: own }) => total + own, 0)
          expect(budget.bytes).toBe(sum)
          expect(budget.bytes).toBeLessThanOrEqual(8 * MiB)
        }
        for (const grant of places.values()) grant.close()
        expect(budget.bytes).toBe(0)
        for (const customer of ['0', '1', '2']) expect(budget.admits(customer)).toBe(true)
      }),
    )
  })
})
