import { describe, expect, test } from 'bun:test'
import { planMemory } from '../../../src/machines/plan/memory-plan.ts'
import { wantedReplicas } from '../../../src/machines/plan/problem.ts'
import { sentenceOf } from '../../../src/machines/plan/sentences.ts'
import { seeded } from '../rules/routes.ts'
import { bestWorth, chosenIn, type HostSpec, type ModelSpec, problemOf, worthOf } from './problems.ts'

const sentences = (problem: ReturnType<typeof problemOf>) =>
  planMemory(problem).moves.map((move) => sentenceOf(problem, move))
const chosen = (problem: ReturnType<typeof problemOf>) => chosenIn(problem, planMemory(problem).chosen)

function randomProblem(seed: number, models: number, hosts: number) {
  const random = seeded(seed)
  const some = (least: number, most: number) => least + random() * (most - least)
  const of = (count: number, letter: string) => Array.from({ length: count }, (_, at) => `${letter}${at}`)
  const model = (): ModelSpec => ({
    calls: random() < 0.2 ? 0 : some(0, 20),
    mb: Math.floor(some(300, 1_200)),
    loadMs: some(2_000, 22_000),
    slots: random() < 0.5 ? null : 1 + Math.floor(some(0, 4)),
    durationMs: some(1_000, 9_000),
  })
  const host = (): HostSpec => ({ memory: Math.floor(some(1_200, 2_400)), has: [`m${Math.floor(some(0, models))}`] })
  return problemOf(
    Object.fromEntries(of(models, 'm').map((name) => [name, model()])),
    Object.fromEntries(of(hosts, 'h').map((name) => [name, host()])),
  )
}

describe('§37 which model belongs where', () => {
  test('§37: a small fleet gets the best plan that there is', () => {
    for (let seed = 1; seed <= 25; seed++) {
      const problem = randomProblem(seed, 4, 3)
      const plan = planMemory(problem)
      expect(plan.exact).toBe(true)
      expect(worthOf(problem, plan.chosen)).toBeCloseTo(bestWorth(problem), 3)
    }
  })

  test('§37: twelve nodes and 24 models, and far more of both: what is planned fits, and is never worth less than what is there', () => {
    for (const [models, hosts] of [
      [24, 12],
      [60, 40],
    ] as const) {
      const problem = randomProblem(models, models, hosts)
      const { chosen: planned, exact } = planMemory(problem)
      const now = Uint8Array.from(problem.places, ({ holds }) => Number(holds !== 'away'))
      expect(worthOf(problem, planned)).toBeGreaterThanOrEqual(worthOf(problem, now) ?? Number.NaN)
      if (hosts > 12) expect(exact).toBe(false)
    }
  })

  test('§37: a load that does not pay within ten minutes is left alone', () => {
    const loads = (calls: number) =>
      planMemory(problemOf({ a: { calls }, b: { calls: 0 } }, { rack: { memory: 1_000, has: ['b'] } })).moves.length
    // One call in ten minutes waits as long as the load takes.
    expect([loads(0.09), loads(0.11)]).toEqual([0, 1])
  })

  test('§37: among equals what is in memory stays, and so does what nobody asks for while there is room', () => {
    const models = { a: { calls: 5 }, b: { calls: 5 }, c: { calls: 5 }, d: { calls: 0 } }
    expect(sentences(problemOf(models, { one: { memory: 2_000, has: ['a', 'b'] } }))).toEqual([])
    const roomy = planMemory(problemOf(models, { one: { memory: 4_000, has: ['a', 'b', 'd'] } }))
    expect(roomy.moves.map(({ unload }) => unload)).toEqual([[]])
  })

  test('§37: never against a pin, nor against a load that is under way', () => {
    const models = { a: { calls: 20 }, b: { calls: 0 } }
    for (const spec of [{ has: ['b'], pins: ['b'] }, { loading: ['b'] }]) {
      expect(sentences(problemOf(models, { rack: { memory: 1_000, ...spec } }))).toEqual([])
    }
    expect(sentences(problemOf(models, { rack: { memory: 1_000, pins: ['b'] } }))).toEqual([
      'Load b on rack: its node pins it.',
    ])
  })

  test('§37: of one group one model at a time, also where memory is left', () => {
    const models = { a: { calls: 9, group: 'gpu' }, b: { calls: 5, group: 'gpu' }, c: { calls: 1 } }
    expect(chosen(problemOf(models, { rack: { memory: 9_000 } }))).toEqual(['rack: a', 'rack: c'])
    const problem = problemOf(models, { rack: { memory: 9_000, has: ['b', 'c'] } })
    expect(sentences({ ...problem })).toEqual([
      'Load a on rack: it has 9 calls a minute, and no node has it in memory. b leaves memory for it, and had 300 calls in the last hour.',
    ])
  })

  test('§37: a model that one server cannot serve gets another, and an idle one none', () => {
    const models = { a: { calls: 60, slots: 4, durationMs: 6_000 }, b: { calls: 0.01 } }
    const problem = problemOf(models, { one: { memory: 1_000, has: ['a'] }, two: { memory: 1_000, has: ['b'] } })
    expect(problem.models.map(wantedReplicas)).toEqual([3, 1])
    expect(sentences(problem)).toEqual([
      'Load a on two, too: 6 of its calls are under way at a time, and its one server takes 4. b leaves memory for it, and had 0.6 calls in the last hour.',
    ])
  })

  test('§37: slots that nobody tells ask for one server, and a server whose memory is not planned counts as one', () => {
    expect(problemOf({ a: { calls: 600 } }, {}).models.map(wantedReplicas)).toEqual([1])
    expect(sentences(problemOf({ a: { calls: 60, fixed: 1 } }, { rack: { memory: 1_000 } }))).toEqual([])
  })

  test('§37: a server that tells no budget holds as many models as were seen there at once', () => {
    const models = { a: { calls: 5 }, b: { calls: 4 }, c: { calls: 3 } }
    expect(chosen(problemOf(models, { ollama: { memory: null, modelsMax: 2 } }))).toEqual(['ollama: a', 'ollama: b'])
  })

  test('§37: each move says why', () => {
    const only = (model: string, host: string) => host === 'rack-2' || model !== 'qwen3-32b'
    const hosts = { 'rack-1': { memory: 1_000 }, 'rack-2': { memory: 1_000, has: ['gemma'] } }
    const why = (hour: ModelSpec['hour'], calls = 2) =>
      sentences(problemOf({ 'qwen3-32b': { calls, hour: hour ?? {} }, gemma: { calls: 0 } }, hosts, only))[0]
    const leaves = 'gemma leaves memory for it, and had no calls in the last hour.'
    expect(why({ calls: 120, waited: 49, waitMs: 49 * 6_000 })).toBe(
      `Load qwen3-32b on rack-2: 41 % of its calls waited 6 s for a load in the last hour. ${leaves}`,
    )
    expect(why({ turnedAway: 3 })).toBe(
      `Load qwen3-32b on rack-2: 3 requests found no room for it in the last hour. ${leaves}`,
    )
    expect(why({ calls: 0, pastPerS: 2 / 60 })).toBe(
      `Load qwen3-32b on rack-2: it has about 120 calls in this hour on other days. ${leaves}`,
    )
    expect(why({})).toBe(`Load qwen3-32b on rack-2: it has 2 calls a minute, and no node has it in memory. ${leaves}`)
  })
})
