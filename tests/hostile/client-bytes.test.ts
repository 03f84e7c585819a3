import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type ClientLane, openClientLane } from './world/client-lane.ts'
import { type HostileGateway, startHostileGateway } from './world/hostile-gateway.ts'
import { expectHarmless } from './world/run-hostile.ts'

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
  const report = await expectHarmless(gateway, lanes, { seed: 1, casesMax: 2_000, untilMs, restEvery: 900 })
  expect(report.cases).toBeGreaterThan(100)
}, 180_000)
