import { expect, test } from 'bun:test'
import { PlacedCalls } from '../../../src/actors/placement/placed-calls.ts'
import { PoolRuntime } from '../../../src/actors/pool/nodes/pool-runtime.ts'
import { cacheOf, catalogueOf } from '../../../src/actors/pool/nodes/routing-table.ts'
import type { ProfileId } from '../../../src/ids.ts'
import { blockUnits } from '../../../src/machines/placement/blocks.ts'
import { costOf, fleetOf, workOf } from '../../../src/machines/placement/cost.ts'
import { LoadTimes } from '../../../src/machines/placement/loads.ts'
import { idleStatus, type RuntimeModel } from '../../../src/runtimes/runtime.ts'
import { nowMs, route } from '../../machines/rules/routes.ts'

/** A server with a base model, an adapter over it, and an adapter over a model that it does not list. */
function server() {
  const runtime = new PoolRuntime('rt_1', '', new LoadTimes(null))
  const ids = ['base', 'adapter', 'orphan']
  for (const id of ids) {
    const row = {
      profileId: `mp_${id}` as ProfileId,
      runtimeId: 'rt_1' as const,
      upstreamModelId: id,
      knownAt: new Date(0),
    }
    runtime.knowProfile({
      ...row,
      answered: [],
      ttftMs: null,
      ttftAt: null,
      ttftCount: 0,
      tokensPerSecond: null,
      lastMeasuredAt: null,
      createdAt: new Date(0),
    })
  }
  const model = (id: string, adapts?: string): RuntimeModel => ({
    ...{ id, contextLength: null, ready: true, loaded: true },
    ...(adapts === undefined ? {} : { adapts }),
  })
  const models = [model('base'), model('adapter', 'base'), model('orphan', 'elsewhere')]
  runtime.onStatus({ ...idleStatus('vllm', 'down'), state: 'ready', models }, nowMs)
  return runtime
}

test('§37: an adapter has its prompts in the cache of the model that it adapts, where its server has that', () => {
  const { profiles, loadedMax } = server()
  const caches = [...profiles.values()].map((profile) => cacheOf(profile, catalogueOf([])).profileId)
  expect(caches).toEqual(['mp_base', 'mp_base', 'mp_orphan'])
  expect(loadedMax).toBe(1)
})

test('§37: prompts of an adapter push out those of its base, in a cache that holds both', () => {
  const told: string[] = []
  const placed = new PlacedCalls((profileId) => told.push(profileId))
  const base = route('base', { modelId: 'base' })
  const adapter = route('adapter', { modelId: 'adapter', cache: base.cache })
  const view = placed.caches.of('base')
  // Twice what is told is believed: room for 8 blocks.
  view.reported('mp_base', blockUnits)
  const send = (to: typeof base, first: number) => {
    const blocks = Array.from({ length: 5 }, (_, at) => first * 100 + at)
    const prompt = { units: 5 * blockUnits, blocks, first }
    const matched = placed.caches.match(to.cache.modelId, prompt).unitsOf(to.cache.profileId)
    const work = workOf(to, costOf(to, fleetOf([to]), prompt.units, matched, nowMs), prompt, nowMs)
    placed.begun(to, { work, timed: true })
    return matched / blockUnits
  }
  expect([send(base, 1), send(base, 1)]).toEqual([0, 5])
  expect([send(adapter, 2), send(adapter, 2)]).toEqual([0, 5])
  expect(send(base, 1)).toBeLessThan(5)
  expect(told).toContain('mp_adapter')
})
