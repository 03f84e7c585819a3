import { test } from 'bun:test'
import { fixture } from '../support/run/fixture.ts'
import { openFrameLane } from './world/frame-lane.ts'
import { startHostileGateway } from './world/hostile-gateway.ts'
import { casesAsked, expectHarmless, msFromNow } from './world/run-hostile.ts'

const gateway = await fixture(startHostileGateway())
const kinds = ['own', 'public', 'paid', 'own', 'public', 'paid'] as const
const lanes = await fixture(Promise.all(kinds.map((kind, at) => openFrameLane(gateway, kind, at))))

test('whatever frames nodes send, everybody hears their own answer or an error, and nothing is left', async () => {
  const untilMs = msFromNow(8_000)
  await expectHarmless(gateway, lanes, { seed: 1, casesMax: casesAsked(2_000), casesMin: 100, untilMs, restEvery: 700 })
})
