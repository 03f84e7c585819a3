import { afterAll, beforeAll, test } from 'bun:test'
import { type AimedLane, openAimedLane } from './world/aimed-lane.ts'
import { type HostileGateway, startHostileGateway } from './world/hostile-gateway.ts'
import { casesAsked, expectHarmless } from './world/run-hostile.ts'

let gateway: HostileGateway
let lane: AimedLane
beforeAll(async () => {
  gateway = await startHostileGateway()
  lane = await openAimedLane(gateway, 0)
  // Alone on its gateway: what the process computes meanwhile is its doing.
  await lane.calibrate()
})
afterAll(async () => {
  lane.stop()
  await gateway.stop()
})

test('whatever a node aims at, nobody waits for it, and what it costs and makes written is bounded by its bytes', async () => {
  // By their number and not by a clock: a busy machine needs longer for the same.
  const cases = casesAsked(60)
  await expectHarmless(gateway, [lane], { seed: 1, casesMax: cases, casesMin: cases, restEvery: 30 })
})
