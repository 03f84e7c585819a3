import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { HistoryWorld, histories } from '../support/money/histories.ts'

/** In all; `PENSTOCK_HISTORIES` for more. */
const wanted = Number(process.env.PENSTOCK_HISTORIES ?? 2_000)
/** On one database. Each look at the books reads all of them: with 400, a history takes half as long again. */
const each = 100
/** Played at once: they wait for the same looks and the same new gateways. */
const atOnce = Number(process.env.PENSTOCK_HISTORIES_AT_ONCE ?? 20)
const several = fc.array(histories, { minLength: atOnce, maxLength: atOnce })
const hourMs = 3_600_000

test(
  `§13: ${wanted} histories of charges, aborts, refunds, expiries, batches and kills: the books balance at every moment`,
  async () => {
    const sums: Record<string, number> = {}
    for (let done = 0; done < wanted; done += each) {
      const world = await HistoryWorld.open()
      try {
        await fc.assert(
          fc.asyncProperty(several, (played) => world.play(...played)),
          { numRuns: Math.ceil(Math.min(each, wanted - done) / atOnce), endOnFailure: true },
        )
      } finally {
        await world.close()
      }
      for (const [name, count] of Object.entries(world.seen)) sums[name] = (sums[name] ?? 0) + count
    }
    console.table(sums)
    expect(sums.kills).toBeGreaterThan(0)
  },
  24 * hourMs,
)
