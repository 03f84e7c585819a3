import { afterAll, beforeAll, expect, test } from 'bun:test'
import { expectRecovered, type Killed, killOne } from '../support/pools/process-kills.ts'
import { type ProcessPool, processLoad, startProcessPool } from '../support/pools/process-pool.ts'

const kills = 20
const replacements = 5

let pool: ProcessPool
beforeAll(async () => {
  pool = await startProcessPool()
}, 120_000)
afterAll(() => pool.stop())

test(`§33: kill -9 of one process, ${kills} times: only its own streams end, and the books balance`, async () => {
  const seen: Killed[] = []
  for (let round = 0; round < kills; round++) seen.push(await killOne(pool, round))
  console.table(seen)
  expect(seen.some(({ cut }) => cut > 0)).toBe(true)
  await expectRecovered(pool)
}, 1_200_000)

test(`§33: all processes are replaced under load ${replacements} times: no request fails`, async () => {
  const load = processLoad(pool)
  for (let round = 0; round < replacements; round++) await pool.server.replace?.()
  const answers = await load.stop()
  console.log(`${answers.length} requests during ${replacements} replacements`)
  expect(answers.filter(({ whole }) => !whole)).toEqual([])
  await expectRecovered(pool)
})
