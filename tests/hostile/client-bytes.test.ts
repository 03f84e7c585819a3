import { test } from 'bun:test'
import { fixture } from '../support/run/fixture.ts'
import { openClientLane } from './world/client-lane.ts'
import { openFormLane } from './world/form-lane.ts'
import { startHostileGateway } from './world/hostile-gateway.ts'
import { casesAsked, expectHarmless, msFromNow } from './world/run-hostile.ts'
import { openSealedLane } from './world/sealed-lane.ts'

const gateway = await fixture(startHostileGateway())
const places = [0, 1, 2]
const lanes = await fixture(
  Promise.all([
    ...places.map((at) => openClientLane(gateway, at)),
    ...places.map((at) => openFormLane(gateway, at)),
    ...[0, 1].map((at) => openSealedLane(gateway, at)),
  ]),
)

test('whatever bytes clients send, everybody hears their own answer or a refusal, and nothing is left', async () => {
  const untilMs = msFromNow(8_000)
  await expectHarmless(gateway, lanes, { seed: 1, casesMax: casesAsked(2_000), casesMin: 100, untilMs, restEvery: 900 })
})
