import { describe, expect, test } from 'bun:test'
import { PoolRuntime } from '../../../src/actors/pool/nodes/pool-runtime.ts'
import { newId } from '../../../src/ids.ts'
import { noMatches } from '../../../src/machines/placement/cache-view.ts'
import { cheapest } from '../../../src/machines/placement/cost.ts'
import { LoadTimes, loadAwaited, loadSeen } from '../../../src/machines/placement/loads.ts'
import { newReading, workEnded, workPlaced } from '../../../src/machines/placement/reading.ts'
import type { RuntimeKind } from '../../../src/protocol/wire/nodes/node.ts'
import type { RuntimeModel, RuntimeStatus } from '../../../src/runtimes/runtime.ts'
import { nowMs, seeded } from '../../machines/rules/routes.ts'

const model = (id: string, loaded: boolean, change: Partial<RuntimeModel> = {}): RuntimeModel => ({
  id,
  contextLength: null,
  ready: true,
  loaded,
  ...change,
})

/** A runtime that says so of its models, and their profiles. */
function runtimeOf(
  models: readonly RuntimeModel[],
  { kind = 'ollama' as RuntimeKind, all = new LoadTimes(null) } = {},
) {
  const runtime = new PoolRuntime(newId('rt'), '', new LoadTimes(all))
  const rowOf = ({ id }: RuntimeModel) => ({
    profileId: newId('mp'),
    runtimeId: newId('rt'),
    upstreamModelId: id,
    createdAt: new Date(nowMs),
    knownAt: new Date(0),
    ttftMs: null,
    ttftAt: null,
    ttftCount: 0,
    tokensPerSecond: null,
    lastMeasuredAt: null,
    answered: [],
  })
  const profiles = models.map((one) => runtime.knowProfile(rowOf(one)))
  const hear = (now: readonly RuntimeModel[], more: Partial<RuntimeStatus> = {}, atMs = nowMs, isLate = false) =>
    runtime.onStatus(
      { kind, state: 'ready', models: now, slotsTotal: null, slotsFree: null, queueDepth: null, ...more },
      atMs,
      atMs,
      isLate,
    )
  hear(models)
  return { runtime, profiles, hear }
}

describe('§29 what a runtime says of its load and its memory', () => {
  test('§37: a call that has ended since another process polled is not one of others', () => {
    const models = [model('m', true)]
    const { profiles, hear } = runtimeOf(models, { kind: 'vllm' })
    const reading = profiles[0]?.load.reading ?? newReading('')
    const work = {
      atMs: nowMs,
      ownMs: 10,
      lagMs: 0,
      unreadUnits: 0,
      matchedBlocks: 0,
      atOnce: true,
      concurrency: 1,
      prompt: { units: 0, blocks: [], first: 1 },
      readMs: null,
    }
    workPlaced(reading, work, true)
    workPlaced(reading, work, true)
    for (const _ of [1, 2]) workEnded(reading, work, true, nowMs)
    hear(models, { running: 3, queueDepth: 0 }, nowMs, true)
    expect(reading.busyByOthers).toBe(1)
    // At the next report nothing of this process has run since.
    hear(models, { running: 3, queueDepth: 0 }, nowMs, true)
    expect(reading.busyByOthers).toBe(3)
  })

  test('requests that it works on and that are not ours are those of others; two reports of a queue tell its slots', () => {
    const models = [model('m', true)]
    const { profiles, hear } = runtimeOf(models, { kind: 'vllm' })
    const [profile] = profiles
    const reading = profile?.load.reading
    hear(models, { running: 5, queueDepth: 0 })
    expect([reading?.busyByOthers, reading?.concurrency.limit]).toEqual([5, null])
    hear(models, { running: 8, queueDepth: 2 })
    hear(models, { running: 8, queueDepth: 1 })
    expect([reading?.busyByOthers, reading?.queuedByOthers, reading?.concurrency.limit]).toEqual([8, 1, 8])
  })

  test('the model that gives way is the one whose users miss it least', () => {
    const models = [model('a', true), model('b', true), model('c', false, { file: { size_bytes: 7e9 } })]
    const { profiles, hear } = runtimeOf(models)
    const [a, b, c] = profiles.map(({ load }) => load.reading)
    if (a === undefined || b === undefined || c === undefined) throw new Error('three models')
    expect(c.sizeBytes).toBe(7e9)
    a.loadEwmaMs = 3_000
    b.loadEwmaMs = 3_000
    for (const [reading, everyMs] of [
      [a, 1_000],
      [b, 9_000],
    ] as const)
      for (let at = 10; at >= 0; at--) loadAwaited(reading, nowMs - at * everyMs)
    hear(models)
    expect([a.evictedWaitMs, b.evictedWaitMs, c.evictedWaitMs]).toEqual([0, 0, 4_000])
    hear([model('a', true), model('b', true), model('c', false, { evicts: false })])
    expect(c.evictedWaitMs).toBe(0)
  })

  test('a server that says it would throw out what it does not show counts for one call that waits', () => {
    const { profiles, hear } = runtimeOf([model('a', false, { evicts: true })], { kind: 'llama.cpp' })
    const reading = profiles[0]?.load.reading
    expect(reading?.evictedWaitMs).toBe(15_000)
    hear([model('a', true)])
    expect(reading?.evictedWaitMs).toBe(0)
  })
})

/** Four models and two nodes with room for two each: how often a model is loaded until each has its place. */
test('§29: models do not thrash on one node while a place of another is free', () => {
  const all = new LoadTimes(null)
  const ids = ['a', 'b', 'c', 'd']
  const loadedAt = [['a', 'b'], ['d']]
  const shown = (node: number) => ids.map((id) => model(id, loadedAt[node]?.includes(id) === true))
  const nodes = loadedAt.map((_, node) => runtimeOf(shown(node), { all }))
  // Only the first has loaded anything so far.
  nodes[0]?.profiles[2]?.load.reading.loadTimes.measured(3_000)
  const random = seeded(7)
  let loads = 0
  for (let call = 0; call < 300; call++) {
    const atMs = nowMs + call * 4_000
    const wanted = Math.floor(random() * ids.length)
    const routes = nodes.flatMap(({ profiles }) => {
      const profile = profiles[wanted]
      return profile === undefined
        ? []
        : [{ cache: { profileId: profile.profileId }, slotsTotal: null, load: profile.load }]
    })
    const prompt = { units: 2_000, blocks: [call], first: call * 7_919_777 }
    const { route } = cheapest(routes as [(typeof routes)[0]], prompt, noMatches, atMs)
    const node = routes.indexOf(route)
    const { reading } = route.load
    loadAwaited(reading, atMs)
    const here = loadedAt[node] ?? []
    if (reading.cold) {
      loads++
      if (here.length === 2) here.shift()
      loadSeen(reading, atMs + 3_000)
    } else here.splice(here.indexOf(ids[wanted] ?? ''), 1)
    here.push(ids[wanted] ?? '')
    for (const [at, { hear }] of nodes.entries()) hear(shown(at), {}, atMs + 3_500)
  }
  expect(loads).toBeLessThanOrEqual(4)
})
