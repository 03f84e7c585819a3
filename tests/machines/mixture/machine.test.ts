import { describe, expect, test } from 'bun:test'
import { createActor, fromCallback, fromPromise, SimulatedClock, type SnapshotFrom, toPromise } from 'xstate'
import { type AdjacencyMap, getAdjacencyMap, getShortestPaths, toDirectedGraph } from 'xstate/graph'
import { Problem } from '../../../src/errors.ts'
import { stateName } from '../../../src/machines/charts/state-name.ts'
import { subCallPlacement } from '../../../src/machines/mixture/check.ts'
import type { AdmitOutput, MixtureEvent, SettleInput, SubCallInput } from '../../../src/machines/mixture/context.ts'
import { mixtureMachine } from '../../../src/machines/mixture/machine.ts'
import { planExperts } from '../../../src/machines/mixture/plan.ts'
import { traceOf, usageOf } from '../../../src/machines/mixture/report.ts'
import { strategies } from '../../../src/machines/mixture/strategies/registry.ts'
import type { PlannedExpert, SubCallResult } from '../../../src/machines/mixture/types.ts'
import { said } from './messages.ts'
import { broken, call, mixtureInput, ok, own, synthesize, vote, wallMs } from './requests.ts'

const weighted = (...experts: readonly object[]) => ({ strategy: 'weighted', experts })

/** Answers each sub-call at once; absent: it hangs. */
type Answers = Readonly<Record<string, SubCallResult>>

interface Play {
  readonly mixture: unknown
  readonly answers?: Answers
  readonly admit?: () => Promise<AdmitOutput>
  readonly plan?: () => Promise<readonly PlannedExpert[]>
  readonly settle?: () => Promise<void>
}

/** The chart over effects of its own, under a clock that only the test moves. */
function play({ mixture, answers = {}, admit, plan, settle }: Play) {
  const asked: SubCallInput[] = []
  const stopped: string[] = []
  const settled: number[] = []
  const clock = new SimulatedClock()
  const input = mixtureInput(mixture)
  const machine = mixtureMachine.provide({
    actors: {
      admit: fromPromise(admit ?? (async () => null)),
      plan: fromPromise(
        plan ??
          (async ({ input: { accepted } }) => {
            const { request } = input
            const requests = accepted.config.experts.map(({ model }) => subCallPlacement(request, model))
            return planExperts(request.table, requests, () => {})
          }),
      ),
      runSubCall: fromCallback<MixtureEvent, SubCallInput>(({ input: order, sendBack }) => {
        asked.push(order)
        const index = order.role === 'expert' ? order.index : -1
        const { requestId, nodeId, runtimeId, runtimeKind } = call(order.model)
        sendBack({ type: 'subCall.dispatched', index, call: { requestId, nodeId, runtimeId, runtimeKind } })
        const result = answers[order.model]
        if (result !== undefined) sendBack({ type: 'subCall.settled', index, result })
        return () => void stopped.push(order.model)
      }),
      settle: fromPromise<void, SettleInput>(async ({ input: { tokens } }) => {
        settled.push(tokens)
        await settle?.()
      }),
    },
  })
  const actor = createActor(machine, { input, clock, id: input.requestId })
  const ended = toPromise(actor)
  actor.start()
  const state = () => stateName(actor.getSnapshot().value)
  const reached = (name: string) =>
    new Promise<void>((resolve) => {
      const look = () => state() === name && resolve()
      actor.subscribe(look)
      look()
    })
  return { actor, ended, reached, asked, stopped, settled, state, pass: (ms: number) => clock.increment(ms) }
}

const outcome = async (given: Play) => {
  const { ended, asked, settled } = play(given)
  const report = await ended
  const { end } = report
  return {
    end: end.kind === 'succeeded' ? end.choice.message.content : end.kind === 'failed' ? end.problem.code : end.kind,
    degraded: traceOf(report)?.degraded,
    statuses: traceOf(report)?.experts.map(({ role, status }) => `${role} ${status}`),
    asked: asked.map(({ role, model }) => `${role} ${model}`),
    settled,
  }
}

describe('specification, mixture outcome', () => {
  test('vote: the winner verbatim', async () => {
    const answers = { a: ok('a', 'x'), b: ok('b', 'y'), c: ok('c', 'Y.') }
    expect(await outcome({ mixture: vote('a', 'b', 'c'), answers })).toEqual({
      end: 'y',
      degraded: false,
      statuses: ['expert ok', 'expert ok', 'expert ok'],
      asked: ['expert a', 'expert b', 'expert c'],
      settled: [33],
    })
  })

  test('weighted: all run, the highest weight answers', async () => {
    const mixture = weighted({ model: 'a' }, { model: 'b', weight: 2 })
    const { end, asked } = await outcome({ mixture, answers: { a: ok('a'), b: ok('b') } })
    expect([end, asked]).toEqual(['says b', ['expert a', 'expert b']])
  })

  test('synthesize: the aggregator gets the surviving answers, without their thoughts, and answers', async () => {
    const answers = { a: ok('a', '<think>hm</think>one'), b: broken('b'), c: ok('c', 'three'), agg: ok('agg', 'all') }
    const game = play({ mixture: synthesize('a', 'b', 'c'), answers })
    const report = await game.ended
    const last = game.asked.at(-1)
    expect(last?.role === 'aggregator' && last.answers).toEqual(['one', 'three'])
    expect(report.end).toMatchObject({ kind: 'succeeded', choice: { message: said('all') }, call: call('agg') })
    expect(traceOf(report)).toMatchObject({ degraded: true, strategy: 'synthesize' })
    expect(usageOf([...report.experts, report.aggregator]).usage.total_tokens).toBe(33)
  })

  test('synthesize, the aggregator fails: the top-weighted surviving answer, degraded', async () => {
    const experts = [{ model: 'a', weight: 5 }, { model: 'b' }, { model: 'c', weight: 2 }]
    const mixture = { ...synthesize(), experts }
    const answers = { a: broken('a'), b: ok('b'), c: ok('c'), agg: broken('agg') }
    const { end, degraded, statuses } = await outcome({ mixture, answers })
    expect([end, degraded]).toEqual(['says c', true])
    expect(statuses).toEqual(['expert upstream_error', 'expert ok', 'expert ok', 'aggregator upstream_error'])
  })

  test('an answer that is none is a failed expert', async () => {
    const answers = { a: ok('a', '<think>only'), b: ok('b') }
    expect(await outcome({ mixture: vote('a', 'b'), answers })).toMatchObject({
      end: 'says b',
      statuses: ['expert upstream_error', 'expert ok'],
      // What it used counts all the same.
      settled: [22],
    })
  })

  test('fewer than the quorum: 503 with the trace, and what was used is settled', async () => {
    const game = play({ mixture: { ...vote('a', 'b'), min_experts: 2 }, answers: { a: ok('a'), b: broken('b') } })
    const { end } = await game.ended
    if (end.kind !== 'failed') throw new Error(end.kind)
    expect(end.problem.code).toBe('mixture_quorum_not_met')
    expect(end.problem.options.metadata).toMatchObject({
      mixture: { strategy: 'vote', experts: [{ status: 'ok' }, {}] },
    })
    expect(game.settled).toEqual([11])
  })

  test('experts without a machine are not asked; when no one is left, nobody is', async () => {
    const { asked, statuses } = await outcome({ mixture: vote('a', 'nobody'), answers: { a: ok('a') } })
    expect([asked, statuses]).toEqual([['expert a'], ['expert ok', 'expert no_node']])
    const none = await outcome({ mixture: vote('nobody') })
    expect([none.end, none.asked]).toEqual(['mixture_quorum_not_met', []])
  })

  /** Statuses that no machine has a part in: declined before a call, or broken within the gateway. */
  test.each(['billing_declined', 'error'] as const)('%s: a failed expert like any other', async (status) => {
    const failed: SubCallResult = { status, call: null }
    const game = play({ mixture: vote('a', 'b'), answers: { a: failed, b: ok('b') } })
    const report = await game.ended
    expect(report.end).toMatchObject({ kind: 'succeeded', choice: { message: said('says b') } })
    expect(traceOf(report)).toEqual({
      strategy: 'vote',
      degraded: true,
      experts: [
        { role: 'expert', model: 'a', status, node_id: '', usage: { total_tokens: 0 } },
        expect.objectContaining({ model: 'b', status: 'ok' }),
      ],
    })
    expect(game.settled).toEqual([11])
    const aggregated = await outcome({ mixture: synthesize('a'), answers: { a: ok('a'), agg: failed } })
    expect([aggregated.end, aggregated.degraded]).toEqual(['says a', true])
    expect(aggregated.statuses).toEqual(['expert ok', `aggregator ${status}`])
    const missed = await outcome({ mixture: { ...vote('a', 'b'), min_experts: 2 }, answers: { a: failed, b: ok('b') } })
    expect([missed.end, missed.settled]).toEqual(['mixture_quorum_not_met', [11]])
  })

  test('a refusal of the checks or of the limits: nothing is asked, nothing is settled', async () => {
    const refused = await outcome({ mixture: { strategy: 'debate' } })
    expect([refused.end, refused.asked, refused.settled]).toEqual(['mixture_strategy_reserved', [], []])
    const admit = async () => new Problem('daily_token_quota_exceeded')
    const over = await outcome({ mixture: vote('a'), admit })
    expect([over.end, over.asked, over.settled]).toEqual(['daily_token_quota_exceeded', [], []])
  })

  test('a defect of an effect: 500, what was taken is given back', async () => {
    const fail = () => Promise.reject(new Error('broken'))
    for (const play of [{ admit: fail }, { plan: fail }]) {
      const { end, settled } = await outcome({ mixture: vote('a'), ...play })
      expect([end, settled]).toEqual(['internal_error', [0]])
    }
    expect((await outcome({ mixture: vote('a'), answers: { a: ok('a') }, settle: fail })).end).toBe('internal_error')
  })
})

describe('§7, deadlines', () => {
  test('late experts are ended and failed, with the machine they hang on; the others answer', async () => {
    const game = play({ mixture: vote('a', 'b', 'c'), answers: { a: ok('a'), b: ok('b', 'says a') } })
    await game.reached('expertsRunning')
    game.pass(wallMs - 1_001)
    expect(game.state()).toBe('expertsRunning')
    game.pass(1)
    const report = await game.ended
    expect(game.stopped).toContain('c')
    expect(traceOf(report)?.experts[2]).toMatchObject({ status: 'upstream_error', node_id: 'node_c' })
  })

  test('synthesize: experts end at 65 %, the aggregator at the end of the clock', async () => {
    const game = play({ mixture: synthesize('a', 'b'), answers: { a: ok('a') } })
    await game.reached('expertsRunning')
    game.pass(wallMs * 0.65 - 1)
    expect(game.state()).toBe('expertsRunning')
    game.pass(1)
    expect(game.state()).toBe('combining.synthesizing')
    game.pass(wallMs * 0.35)
    const report = await game.ended
    expect(report.end).toMatchObject({ kind: 'succeeded', choice: { message: said('says a') } })
    expect(report.aggregator).toMatchObject({ status: 'upstream_error', call: { nodeId: 'node_agg' } })
    expect(game.stopped).toEqual(['a', 'b', 'agg'])
  })
})

describe('client abort and stop reach every state', () => {
  const never = () => new Promise<never>(() => {})
  const resting: readonly (readonly [string, Play])[] = [
    ['validating.admitting', { mixture: vote('a'), admit: never }],
    ['planning', { mixture: vote('a'), plan: never }],
    ['expertsRunning', { mixture: vote('a') }],
    ['combining.synthesizing', { mixture: synthesize('a'), answers: { a: ok('a') } }],
    ['settling', { mixture: vote('a'), answers: { a: ok('a') }, settle: never }],
  ]
  test.each(resting.map(([name, given]) => [name, given] as const))('%s', async (name, given) => {
    for (const type of ['client.gone', 'gateway.stopping', 'deadline.wall'] as const) {
      const game = play(given)
      await game.reached(name)
      game.actor.send({ type })
      // While it settles, the answer is there: only a client that left has no use for it.
      const { end } = await game.ended
      expect(game.settled).toHaveLength(1)
      expect(end.kind === 'succeeded' ? end.choice.message : end.kind).toEqual(
        type === 'client.gone'
          ? 'cancelled'
          : name === 'settling' || (name === 'combining.synthesizing' && type === 'deadline.wall')
            ? said('says a')
            : 'failed',
      )
      if (name === 'expertsRunning') expect(game.stopped).toEqual(['a'])
      if (name === 'combining.synthesizing') expect(game.stopped).toEqual(['a', 'agg'])
    }
  })
})

/** What may happen in any state: the ends of the effects by hand, as a traversal runs none of them. */
function events(models: readonly string[]): readonly MixtureEvent[] {
  const done = (id: string, output: unknown) => ({ type: `xstate.done.actor.${id}`, output }) as unknown as MixtureEvent
  const error = (id: string) => ({ type: `xstate.error.actor.${id}`, error: new Error(id) }) as unknown as MixtureEvent
  const placed = models.map((model): PlannedExpert => ({ kind: 'placed', route: own(model) }))
  const none = models.map((): PlannedExpert => ({ kind: 'no_node' }))
  const subCalls = [...models.entries(), [-1, 'agg'] as const].flatMap(([index, model]): readonly MixtureEvent[] => [
    { type: 'subCall.settled', index, result: ok(model) },
    { type: 'subCall.settled', index, result: broken(model) },
  ])
  return [
    done('admit', null),
    done('admit', new Problem('rate_limited')),
    error('admit'),
    done('plan', placed),
    done('plan', none),
    error('plan'),
    ...subCalls,
    done('settle', undefined),
    error('settle'),
    { type: 'deadline.experts' },
    { type: 'deadline.wall' },
    { type: 'client.gone' },
    { type: 'gateway.stopping' },
  ]
}

const terminal = ['succeeded', 'failed', 'cancelled']

describe('every path of the chart', () => {
  const cases = [vote('a', 'b'), weighted({ model: 'a' }, { model: 'b' }), synthesize('a', 'b'), { strategy: 'debate' }]
  const models = ['a', 'b']
  const options = (mixture: unknown) => ({
    input: mixtureInput(mixture),
    events: events(models),
    // An actor that has ended hears nothing more.
    stopWhen: ({ status }: { status: string }) => status === 'done',
    serializeState: (snapshot: SnapshotFrom<typeof mixtureMachine>) =>
      JSON.stringify([
        snapshot.value,
        snapshot.context.results.map((result) => result?.status ?? null),
        snapshot.context.end?.kind ?? null,
      ]),
  })

  test('§7: from wherever it stands, it ends', () => {
    const seen = new Set<string>()
    for (const mixture of cases) {
      const graph = options(mixture)
      const map: AdjacencyMap<SnapshotFrom<typeof mixtureMachine>, MixtureEvent> = getAdjacencyMap(
        mixtureMachine,
        graph,
      )
      const nodes = Object.entries(map).map(([id, { state, transitions }]) => ({
        id,
        name: stateName(state.value),
        next: Object.values<{ state: SnapshotFrom<typeof mixtureMachine> }>(transitions).map(({ state: to }) =>
          graph.serializeState(to),
        ),
      }))
      for (const { name } of nodes) seen.add(name)
      // Backwards from the ends: what is left over could stand for ever.
      const ending = new Set(nodes.filter(({ name }) => terminal.includes(name)).map(({ id }) => id))
      expect(ending.size).toBeGreaterThan(0)
      for (let grown = true; grown; ) {
        const more = nodes.filter(({ id, next }) => !ending.has(id) && next.some((to) => ending.has(to)))
        for (const { id } of more) ending.add(id)
        grown = more.length > 0
      }
      expect(nodes.filter(({ id }) => !ending.has(id)).map(({ name }) => name)).toEqual([])
    }
    expect([...seen].sort()).toEqual(
      ['validating.admitting', 'planning', 'expertsRunning', 'combining.synthesizing', 'settling', ...terminal].sort(),
    )
  })

  test('every end has shortest paths, each with what an end must have', () => {
    for (const mixture of cases) {
      const paths = getShortestPaths(mixtureMachine, options(mixture))
      const ends = paths.filter(({ state }) => terminal.includes(stateName(state.value)))
      for (const { state } of ends) {
        expect(state.status).toBe('done')
        expect(state.context.end?.kind as string).toBe(stateName(state.value))
      }
      const reached = new Set(ends.map(({ state }) => stateName(state.value)))
      expect([...reached].sort()).toEqual('experts' in (mixture as object) ? [...terminal].sort() : ['failed'])
    }
  })

  test('the working state of every strategy is part of the chart, and leads on', () => {
    const combining = toDirectedGraph(mixtureMachine).children.find(({ id }) => id === 'mixture.combining')
    const names = Object.values(strategies).map(({ state }) => `mixture.combining.${state}`)
    expect(combining?.children.map(({ id }) => id).sort()).toEqual(['mixture.combining.choosing', ...names].sort())
    const leads = (combining?.children ?? []).map(
      ({ stateNode, edges }) => edges.length + (stateNode.always?.length ?? 0),
    )
    expect(leads.filter((ways) => ways === 0)).toEqual([])
  })

  test('effects that nobody provided are said to be so', async () => {
    const actor = createActor(mixtureMachine, { input: mixtureInput(vote('a')) })
    const ended = toPromise(actor)
    actor.start()
    // The refusal of the first effect is a defect like any other, and so is that of the last.
    expect(await ended).toMatchObject({ end: { kind: 'failed', problem: { code: 'internal_error' } } })
  })
})
