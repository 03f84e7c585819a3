import { expect, test } from 'bun:test'
import { expectRecovered, type Killed, killOne } from '../support/pools/process-kills.ts'
import { isWhole, longStream, processLoad, startProcessPool } from '../support/pools/process-pool.ts'
import { fixture } from '../support/run/fixture.ts'

const kills = 3

const pool = await fixture(startProcessPool())

test('§33: all processes are replaced under load: no request fails, streams end whole', async () => {
  const { server } = pool
  const before = server.pids
  const load = processLoad(pool)
  const streams = Array.from({ length: 8 }, () => longStream(pool))
  await Promise.all(streams.map(({ begun }) => begun))
  await server.replace?.()
  expect(server.pids.filter((pid) => before.includes(pid))).toEqual([])
  expect(server.pids).toHaveLength(before.length)
  const answers = await load.stop()
  expect(answers.filter(({ whole }) => !whole)).toEqual([])
  expect(answers.length).toBeGreaterThan(100)
  expect((await Promise.all(streams.map(({ ended }) => ended))).filter((text) => !isWhole(text))).toEqual([])
  console.log(`${answers.length} requests while all processes were replaced, none failed`)
})

test(`§33: kill -9 of one process, ${kills} times: only its own streams end, and the books balance`, async () => {
  const seen: Killed[] = []
  for (let round = 0; round < kills; round++) seen.push(await killOne(pool, round))
  console.table(seen)
  expect(seen.some(({ cut }) => cut > 0)).toBe(true)
  expect(seen.some(({ spared }) => spared > 0)).toBe(true)
  await expectRecovered(pool)
})
