import { afterAll, beforeAll, describe, test } from 'bun:test'
import { type HostileGateway, startHostileGateway } from './world/hostile-gateway.ts'
import { openPathLane, type PathLane } from './world/path-lane.ts'
import { casesAsked, expectHarmless, msFromNow } from './world/run-hostile.ts'

/** With several processes there is a door for each of them besides. */
const asked = ['direct', 'processes'] as const

describe.each(asked)('%s', (way) => {
  let gateway: HostileGateway
  let lanes: readonly PathLane[]
  beforeAll(async () => {
    gateway = await startHostileGateway(way)
    lanes = await Promise.all([openPathLane(gateway, 0), openPathLane(gateway, 1)])
  })
  afterAll(async () => {
    for (const lane of lanes) lane.stop()
    await gateway.stop()
  })

  test('§1: no path that two programs may read differently reaches a route, wherever somebody listens', async () => {
    const untilMs = msFromNow(4_000)
    const bounds = { casesMax: casesAsked(3_000), casesMin: 300, untilMs, restEvery: 5_000 }
    await expectHarmless(gateway, lanes, { seed: 1, ...bounds })
  })
})
