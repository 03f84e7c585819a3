import { afterAll, beforeAll, describe, test } from 'bun:test'
import { openFrameLane } from './world/frame-lane.ts'
import { type HostileGateway, startHostileGateway } from './world/hostile-gateway.ts'
import type { AnyLane } from './world/lanes.ts'
import { openNodeLane } from './world/node-lane.ts'
import { openPollLane } from './world/poll-lane.ts'
import { casesAsked, expectHarmless, msFromNow } from './world/run-hostile.ts'
import { ways, waysAsked } from './world/ways.ts'

/** `node-bytes.test.ts` has the direct one. */
const others = waysAsked(ways.filter((way) => way !== 'direct'))

describe.each(others)('%s', (way) => {
  let gateway: HostileGateway
  let lanes: readonly AnyLane[]
  beforeAll(async () => {
    gateway = await startHostileGateway(way)
    const kinds = ['own', 'public', 'paid', 'paid'] as const
    lanes = await Promise.all([
      ...kinds.map((kind, at) => openNodeLane(gateway, kind, at)),
      openPollLane(gateway, 0),
      openFrameLane(gateway, 'own', 0),
      openFrameLane(gateway, 'public', 1),
    ])
  })
  afterAll(async () => {
    for (const lane of lanes) lane.stop()
    await gateway.stop()
  })

  test('whatever nodes send, everybody hears their own answer or an error, and nothing is left', async () => {
    const untilMs = msFromNow(1_000)
    await expectHarmless(gateway, lanes, { seed: 1, casesMax: casesAsked(150), casesMin: 30, untilMs, restEvery: 200 })
  })
})
