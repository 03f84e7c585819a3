import { expect, test } from 'bun:test'
import { Registry } from 'prom-client'
import { registerPlaces } from '../../src/actors/telemetry/placement-metrics.ts'
import { loadAwaited, loadSeen, noteMemory } from '../../src/machines/placement/loads.ts'
import { newReading } from '../../src/machines/placement/reading.ts'

/** The first token was dated a millisecond before its call began, the counter went down, and every scrape was a 500. */
test('§18: a load that took no time at all counts as one of 0 s, and the metrics are there', async () => {
  const reading = newReading('profile_1')
  noteMemory(reading, false, null, 1_000)
  loadAwaited(reading, 1_000)
  loadSeen(reading, 999)
  expect(reading).toMatchObject({ loads: 1, loadMsSum: 0, loadEwmaMs: 0 })
  const registry = new Registry()
  const { loads, unloads, loadMsSum } = reading
  registerPlaces(registry, () => [
    { model: 'm', node: 'attic', loads, unloads, loadS: loadMsSum / 1_000, cacheEvictions: 0 },
  ])
  expect(await registry.metrics()).toContain('svc_model_load_seconds_total{model="m",node="attic"} 0')
})
