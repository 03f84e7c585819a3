import { afterAll, beforeAll, test } from 'bun:test'
import { openClientLane } from './world/client-lane.ts'
import { openFormLane } from './world/form-lane.ts'
import { type HostileGateway, startHostileGateway } from './world/hostile-gateway.ts'
import type { AnyLane } from './world/lanes.ts'
import { casesAsked, expectHarmless, msFromNow } from './world/run-hostile.ts'
import { openSealedLane } from './world/sealed-lane.ts'

let gateway: HostileGateway
let lanes: readonly AnyLane[]
beforeAll(async () => {
  gateway = await startHostileGateway()
  const places = [0, 1, 2]
  lanes = await Promise.all([
    ...places.map((at) => openClientLane(gateway, at)),
    ...places.map((at) => openFormLane(gateway, at)),
    ...[0, 1].map((at) => openSealedLane(gateway, at)),
  ])
})
afterAll(async () => {
  for (const lane of lanes) lane.stop()
  await gateway.stop()
})

test('whatever bytes clients send, everybody hears their own answer or a refusal, and nothing is left', async () => {
  const untilMs = msFromNow(8_000)
  await expectHarmless(gateway, lanes, { seed: 1, casesMax: casesAsked(2_000), casesMin: 100, untilMs, restEvery: 900 })
})
