import { expect, test } from 'bun:test'
import { collectorWork, readCollections } from '../support/gateways/collector-log.ts'
import { startCollectedPool } from '../support/pools/collected-pool.ts'
import { scoped } from '../support/run/fixture.ts'

/** With a `Set` in the place of one roster it is 1.6 and more. The heavy test has all kinds, and more requests. */
const visitedKbMax = 0.8
const requests = 4_000
const kinds = ['a whole answer', 'a stream'] as const

test('decision 23: the collector promotes next to nothing of whole answers and streams', async () => {
  await using pool = await scoped(startCollectedPool(kinds))
  for (const kind of kinds) await pool.ask(kind, requests / 4)
  const work = await pool.collected(async () => {
    for (const kind of kinds) await pool.ask(kind, requests / 2)
  })
  expect(work.edens).toBeGreaterThan(0)
  expect(work.visitedKb).toBeLessThanOrEqual(visitedKbMax)
})

const eden = (visitedKb: number, heapKb: number) =>
  `[GC<0x1>: START M 9000kb => EdenCollection, a=0kb hf=0.000 v=0kb (C:0) o=1 i#1:N<Cs>Pbc v=${visitedKb}kb (C:0) i#2:P<Sh> => ${heapKb}kb, p=1.0ms (max 2.0), cycle 1.0ms END]\nGC END!\n`
const request = '{"ts":"t","level":"info","event":"request","status":200}\n'

test('the log of the collector is read past lines of our own, which stand in the midst of its own', () => {
  const cut = eden(30, 150).indexOf(' v=30')
  const second = eden(30, 150).slice(0, cut) + request + eden(30, 150).slice(cut)
  const collections = readCollections(eden(9, 100) + request + second + request)
  expect(collections).toEqual([
    { kind: 'eden', visitedKb: 9, heapKb: 100, requests: 0 },
    { kind: 'eden', visitedKb: 30, heapKb: 150, requests: 2 },
  ])
  expect(collectorWork(collections)).toEqual({ edens: 1, fulls: 0, requests: 2, visitedKb: 15, grownKb: 25 })
})
