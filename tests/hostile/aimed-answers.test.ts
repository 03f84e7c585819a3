import { test } from 'bun:test'
import { fixture } from '../support/run/fixture.ts'
import { openAimedLane } from './world/aimed-lane.ts'
import { startHostileGateway } from './world/hostile-gateway.ts'
import { casesAsked, expectHarmless } from './world/run-hostile.ts'

const gateway = await fixture(startHostileGateway())
const lane = await fixture(openAimedLane(gateway, 0))
// Alone on its gateway: what the process computes meanwhile is its doing.
await lane.calibrate()

test('whatever a node aims at, nobody waits for it, and what it costs and makes written is bounded by its bytes', async () => {
  // By their number and not by a clock: a busy machine needs longer for the same.
  const cases = casesAsked(60)
  await expectHarmless(gateway, [lane], { seed: 1, casesMax: cases, casesMin: cases, restEvery: 30 })
})
