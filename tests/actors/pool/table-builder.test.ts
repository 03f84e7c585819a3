import { expect, test } from 'bun:test'
import fc from 'fast-check'
import type { Catalogue, RoutedNode } from '../../../src/actors/pool/nodes/routing-table.ts'
import { TableBuilder } from '../../../src/actors/pool/table-builder.ts'

type Changing = { -readonly [K in keyof RoutedNode]: RoutedNode[K] }

const load = { inFlight: 0, ttftEwmaMs: null, tokensPerSecond: null, durationEwmaMs: null, ejectedUntilMs: 0 }

const nameOf = (model: number) => (model < 3 ? `model-${model}` : `model-${model}:latest`)

/** A node as the pool has it, with one model per number; only what a table reads of it. */
function nodeOf(index: number, models: readonly number[]): Changing {
  const profile = (model: number) => ({
    profileId: `mp_${index}_${model}`,
    upstreamModelId: nameOf(model),
    load: { ...load },
    ejection: {},
    knownAt: new Date(0),
    measuredAt: 0,
    modality: 'chat',
    firstToken: null,
    work: { reported: null, guessed: false },
    answered: [],
    model: { ready: true, contextLength: 8_192 },
  })
  const profiles = new Map(models.map((model) => [nameOf(model), profile(model)]))
  const row = {
    nodeId: `node_${index}`,
    name: `Node ${index}`,
    url: null,
    adminState: 'active',
    macs: null,
    wakeHours: null,
    customerId: `cus_${index % 3}`,
    visibility: 'private',
    nodeClass: 'gpu',
    serves: null,
  }
  const runtime = { runtimeId: `rt_${index}`, kind: 'vllm', slotsTotal: 4, profiles }
  return {
    row,
    state: 'ready',
    heldUntilMs: 0,
    identity: null,
    rest: null,
    runtimes: new Map([['', runtime]]),
  } as unknown as Changing
}

const catalogueWith = (context: number): Catalogue =>
  new Map([
    [
      'model-1',
      {
        modelId: 'model-1',
        names: ['model-1', 'one'],
        policyNames: ['model-1', 'one'],
        knownAt: new Date(0),
        contextLength: context,
        maxOutputLength: null,
        prices: null,
        serves: null,
      },
    ],
  ])

/** The same runtimes, as a poll finds them that meets another kind of server there. */
const asOther = (runtimes: RoutedNode['runtimes']): RoutedNode['runtimes'] =>
  new Map([...runtimes].map(([label, it]) => [label, { ...it, kind: it.kind === 'vllm' ? 'ollama' : 'vllm' }] as const))

const asleep = (profileId = '') => ({
  since: '2026-01-01T00:00:00.000Z',
  awaited: new Map([[profileId, 'chat' as const]]),
})

const step = fc.record({
  kind: fc.constantFrom('add', 'remove', 'state', 'sleep', 'measured', 'polled', 'kind', 'row', 'catalogue', 'nothing'),
  at: fc.nat(9),
  models: fc.uniqueArray(fc.nat(4), { minLength: 1, maxLength: 3 }),
})

test('§8: a table made of the last one is the table made anew, whatever has changed', () => {
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 40 }), (steps) => {
      const builder = new TableBuilder()
      const nodes = new Map<string, Changing>()
      let catalogue: Catalogue = new Map()
      for (const [version, { kind, at, models }] of steps.entries()) {
        const node = nodes.get(`node_${at}`)
        const profile = [...(node?.runtimes.values().next().value?.profiles.values() ?? [])][0]
        if (kind === 'add') nodes.set(`node_${at}`, nodeOf(at, models))
        else if (kind === 'remove') nodes.delete(`node_${at}`)
        else if (kind === 'catalogue') catalogue = catalogueWith(at)
        else if (kind === 'state' && node !== undefined) node.state = node.state === 'ready' ? 'stale' : 'ready'
        else if (kind === 'sleep' && node !== undefined)
          node.rest = node.rest === null ? asleep(profile?.profileId) : null
        else if (kind === 'row' && node !== undefined) node.row = { ...node.row, visibility: 'public' }
        else if (kind === 'kind' && node !== undefined) node.runtimes = asOther(node.runtimes)
        else if (kind === 'measured' && profile !== undefined) profile.measuredAt = version
        else if (kind === 'polled' && profile !== undefined)
          profile.model = { ...profile.model, ready: at % 2 === 0 } as never
        const built = builder.build(nodes, catalogue, version, 0)
        const anew = new TableBuilder().build(nodes, catalogue, version, 0)
        expect(built.routes).toEqual(anew.routes)
        expect(new Map([...built.byModel].sort())).toEqual(new Map([...anew.byModel].sort()))
        expect(new Map([...built.latest].sort())).toEqual(new Map([...anew.latest].sort()))
        expect(built.owners).toEqual(anew.owners)
      }
    }),
    { numRuns: 200 },
  )
})

test('§8: models that a change does not touch keep their very list', () => {
  const builder = new TableBuilder()
  const nodes = new Map(
    [nodeOf(1, [1]), nodeOf(2, [2]), nodeOf(3, [2])].map((node) => [node.row.nodeId as string, node]),
  )
  const catalogue: Catalogue = new Map()
  const before = builder.build(nodes, catalogue, 1, 0)
  const moved = nodes.get('node_1')
  if (moved !== undefined) moved.state = 'stale'
  const after = builder.build(nodes, catalogue, 2, 0)
  expect(after.byModel.get('model-2')).toBe(before.byModel.get('model-2') as never)
  expect(after.byModel.get('model-1')?.[0]?.ready).toBe(false)
  // What was published is never changed.
  expect(before.byModel.get('model-1')?.[0]?.ready).toBe(true)
})
