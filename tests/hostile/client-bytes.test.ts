import { afterAll, beforeAll, test } from 'bun:test'
import { type ClientLane, openClientLane } from './world/client-lane.ts'
import { type HostileGateway, startHostileGateway } from './world/hostile-gateway.ts'
import { casesAsked, expectHarmless } from './world/run-hostile.ts'

let gateway: HostileGateway
let lanes: readonly ClientLane[]
beforeAll(async () => {
  gateway = await startHostileGateway()
  lanes = await Promise.all([0, 1, 2].map((at) => openClientLane(gateway, at)))
}, 60_000)
afterAll(async () => {
  for (const lane of lanes) lane.stop()
  await gateway.stop()
})

test('whatever bytes clients send, everybody hears their own answer or a refusal, and nothing is left', async () => {
  const untilMs = performance.now() + 12_000
  await expectHarmless(gateway, lanes, { seed: 1, casesMax: casesAsked(2_000), casesMin: 100, untilMs, restEvery: 900 })
}, 180_000)
