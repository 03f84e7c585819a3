import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type CollectedKind, collectedKinds } from '../support/pools/collected-kinds.ts'
import { type CollectedPool, startCollectedPool } from '../support/pools/collected-pool.ts'

/**
 * Counts, not times: what the collector finds alive of a request that has ended is there because something holds it. A busy
 * machine changes little, since a collection comes when so much was allocated, not after so long.
 */
const requests = Number(process.env.COLLECTOR_REQUESTS ?? 20_000)
/** Code is compiled, and the last requests fill their places. */
const warmUpRequests = Math.ceil(requests / 4)
/**
 * Alive at any collection, whatever is asked: the requests under way and what leads to them (seen: 65 to 157). It counts once for a
 * collection, not for a request: on a slow machine there are few requests between two of them.
 */
const underWayKb = 130
/** Of one request; with a `Set` in the place of one roster of the ticker it is 1.6 to 2.6. */
const visitedKbMax = 0.5
/** With 0.55 kB that Bun's objects tell of whether they live or not; with that `Set` it is 3.2 to 4.7. */
const grownKbMax = 1.25
/** What is kept of them on purpose as objects: each further look for a slot, and of a mixture its record, its decisions and its chart's steps. */
const keptKb: Partial<Record<CollectedKind, number>> = {
  'a wait for a slot': 1.5,
  'a mixture of three': 7,
}

const kinds = Object.keys(collectedKinds) as CollectedKind[]
const withinMs = 900_000

let pool: CollectedPool
beforeAll(async () => {
  pool = await startCollectedPool(kinds)
}, withinMs)
afterAll(async () => {
  await pool.stop()
})

test.each(kinds)(
  'decision 23: the collector promotes next to nothing of %s',
  async (kind) => {
    await pool.ask(kind, warmUpRequests)
    const work = await pool.collected(() => pool.ask(kind, requests))
    const { edens, fulls, visitedKb, grownKb } = work
    process.stderr.write(
      `${kind}: ${visitedKb.toFixed(2)} kB visited, heap grows by ${grownKb.toFixed(2)} kB a request; ${edens} edens, ${fulls} full\n`,
    )
    const kept = (keptKb[kind] ?? 0) + (underWayKb * edens) / work.requests
    expect(work.requests).toBeGreaterThan(requests / 2)
    expect(visitedKb).toBeLessThanOrEqual(visitedKbMax + kept)
    expect(grownKb).toBeLessThanOrEqual(grownKbMax + kept)
  },
  withinMs,
)
