import { describe, expect, test } from 'bun:test'
import { type PlanFacts, problemOf } from '../../../src/actors/planning/plan-facts.ts'
import type { ModelView, NodeView, RuntimeView } from '../../../src/actors/pool/views/node-view.ts'
import type { CustomerId } from '../../../src/ids.ts'
import { planMemory } from '../../../src/machines/plan/memory-plan.ts'
import type { Demands } from '../../../src/protocol/wire/admin/memory-plan.ts'
import { route, table } from '../../machines/rules/routes.ts'

const placing: ModelView['placing'] = {
  served: true,
  anotherNameOf: null,
  needsMb: { memory: 40 },
  group: null,
  pinned: false,
  loadMs: 5_000,
  durationMs: 2_000,
  slots: 4,
  lastUsedMs: 0,
}
const model = (modelId: string, change: Partial<ModelView> = {}, more: Partial<ModelView['placing']> = {}) =>
  ({
    modelId,
    upstreamModelId: modelId,
    ready: true,
    loaded: false,
    loadingSinceMs: null,
    placing: { ...placing, ...more },
    ...change,
  }) as ModelView
const runtime = (
  kind: RuntimeView['kind'],
  models: readonly ModelView[],
  memory: Partial<RuntimeView['memory']> = {},
) =>
  ({
    runtimeId: `rt_${models[0]?.modelId}`,
    kind,
    models,
    memory: { budgetsMb: { memory: 80 }, loadedMax: 0, ...memory },
  }) as unknown as RuntimeView
const node = (name: string, runtimes: readonly RuntimeView[], state: NodeView['state'] = 'ready') =>
  ({ nodeId: `node_${name}`, state, runtimes }) as unknown as NodeView

const demand = (owner: string, name: string, calls: number): Demands['models'][number] => ({
  owner,
  model: name,
  calls,
  waited: 0,
  waitMs: 0,
  turnedAway: 0,
  decayed: calls,
  recent: 0,
})
const minute = 60_000
const demands = (...models: Demands['models']): Demands => ({ decayed_ms: 10 * minute, recent_ms: 1, models })

function factsOf(nodes: readonly NodeView[], change: Partial<PlanFacts> = {}): PlanFacts {
  const owners = new Map(nodes.map(({ nodeId }) => [nodeId as string, 'me' as CustomerId]))
  const { byModel } = table(route('r', { modelId: 'a', modelNames: ['a', 'alias'] }))
  return { nodes, table: { owners, byModel }, nodeName: (id) => id, demands: [], past: null, ...change }
}

describe('§37 what the plan is told of the pool', () => {
  test('the servers of one agent share its memory, any other server has its own, and a node that is away has none', () => {
    const { hosts, places } = problemOf(
      factsOf([
        node('agent', [runtime('vllm', [model('a')]), runtime('llama.cpp', [model('b')])]),
        node('ollama', [
          runtime('ollama', [model('a', {}, { served: false, needsMb: null })], { budgetsMb: null, loadedMax: 2 }),
        ]),
        node('gone', [runtime('vllm', [model('c')])], 'stale'),
      ]),
    )
    expect(hosts.map(({ nodeId, budgetsMb, modelsMax }) => [nodeId, budgetsMb, modelsMax])).toEqual([
      ['node_agent', { memory: 80 }, 0],
      ['node_ollama', null, 2],
    ])
    expect(places.map(({ host, upstreamModelId, memoryMb }) => [host, upstreamModelId, memoryMb])).toEqual([
      [0, 'a', { memory: 40 }],
      [1, 'a', {}],
      [0, 'b', { memory: 40 }],
    ])
  })

  test('a server that cannot be told is a copy whose memory nobody plans', () => {
    const always = model('a', { loaded: null }, { served: false, needsMb: null })
    const problem = problemOf(factsOf([node('big', [runtime('vllm', [always], { budgetsMb: null })])]))
    expect([problem.hosts, problem.places]).toEqual([[], []])
    expect(problem.models).toMatchObject([{ modelId: 'a', fixed: 1 }])
  })

  test('the demand of all processes adds up, that of a profile is of its server, and that of another owner stays apart', () => {
    const profile = model('a:hot', {}, { anotherNameOf: 'a' })
    const nodes = [node('agent', [runtime('vllm', [profile, model('a')])])]
    const told = [demands(demand('me', 'a', 60)), demands(demand('me', 'a:hot', 30), demand('other', 'a', 999))]
    const { models, places } = problemOf(factsOf(nodes, { demands: told }))
    expect(places.map(({ upstreamModelId }) => upstreamModelId)).toEqual(['a'])
    expect(models.map(({ modelId, demand: { calls } }) => [modelId, calls])).toEqual([['a', 90]])
    expect((models[0]?.demand.perS ?? 0) * 60).toBeCloseTo(9)
  })

  test('what this hour had on other days counts half, by whatever name clients asked for it', () => {
    const nodes = [node('agent', [runtime('vllm', [model('a')]), runtime('vllm', [model('b')])])]
    const past = new Map([
      ['alias', 0.1],
      ['a', 0.1],
      ['nobody-has-it', 9],
    ])
    const problem = problemOf(factsOf(nodes, { past }))
    expect(problem.models.map(({ modelId, demand: { perS } }) => [modelId, perS])).toEqual([
      ['a', 0.1],
      ['b', 0],
    ])
    expect(planMemory(problem).moves.map(({ load }) => problem.places[load]?.upstreamModelId)).toEqual(['a'])
  })
})
