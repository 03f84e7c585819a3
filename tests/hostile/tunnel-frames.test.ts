import { afterAll, beforeAll, test } from 'bun:test'
import { type FrameLane, openFrameLane } from './world/frame-lane.ts'
import { type HostileGateway, startHostileGateway } from './world/hostile-gateway.ts'
import { casesAsked, expectHarmless, msFromNow } from './world/run-hostile.ts'

let gateway: HostileGateway
let lanes: readonly FrameLane[]
beforeAll(async () => {
  gateway = await startHostileGateway()
  const kinds = ['own', 'public', 'paid', 'own', 'public', 'paid'] as const
  lanes = await Promise.all(kinds.map((kind, at) => openFrameLane(gateway, kind, at)))
})
afterAll(async () => {
  for (const lane of lanes) lane.stop()
  await gateway.stop()
})

test('whatever frames nodes send, everybody hears their own answer or an error, and nothing is left', async () => {
  const untilMs = msFromNow(8_000)
  await expectHarmless(gateway, lanes, { seed: 1, casesMax: casesAsked(2_000), casesMin: 100, untilMs, restEvery: 700 })
})
