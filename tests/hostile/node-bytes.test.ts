import { test } from 'bun:test'
import { fixture } from '../support/run/fixture.ts'
import { startHostileGateway } from './world/hostile-gateway.ts'
import { openNodeLane } from './world/node-lane.ts'
import { openPollLane } from './world/poll-lane.ts'
import { casesAsked, expectHarmless, msFromNow } from './world/run-hostile.ts'
import { openSoundLane } from './world/sound-lane.ts'

const gateway = await fixture(startHostileGateway())
const kinds = ['own', 'public', 'paid', 'own', 'public', 'paid'] as const
const lanes = await fixture(
  Promise.all([
    ...kinds.map((kind, at) => openNodeLane(gateway, kind, at)),
    openSoundLane(gateway, 0),
    openPollLane(gateway, 0),
    openPollLane(gateway, 1),
  ]),
)

test('whatever bytes nodes send, everybody hears their own answer or an error, and nothing is left', async () => {
  const untilMs = msFromNow(9_000)
  await expectHarmless(gateway, lanes, { seed: 1, casesMax: casesAsked(2_000), casesMin: 100, untilMs, restEvery: 700 })
})
