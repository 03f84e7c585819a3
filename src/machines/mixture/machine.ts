import { assign, enqueueActions, fromCallback, fromPromise, raise, setup } from 'xstate'
import type {
  AdmitInput,
  AdmitOutput,
  MixtureContext,
  MixtureEvent,
  MixtureInput,
  PlanInput,
  SettleInput,
  SubCallInput,
} from './context.ts'
import { usageOf } from './report.ts'
import * as step from './steps.ts'
import { strategies } from './strategies/registry.ts'
import type { Strategy } from './strategies/strategy.ts'
import type { MixtureReport, PlannedExpert } from './types.ts'

const notProvided = (effect: string) => (): never => {
  throw new Error(`${effect}: not provided`)
}
const expertId = (index: number) => `expert.${index}`

const mixture = setup({
  types: {
    context: {} as MixtureContext,
    input: {} as MixtureInput,
    events: {} as MixtureEvent,
    output: {} as MixtureReport,
  },
  actors: {
    /** Reserves the day's tokens and counts the request. */
    admit: fromPromise<AdmitOutput, AdmitInput>(notProvided('admit')),
    /** Finds a node for each expert. */
    plan: fromPromise<readonly PlannedExpert[], PlanInput>(notProvided('plan')),
    /** Calls one node and reports the result. It aborts the call when it is stopped. */
    runSubCall: fromCallback<MixtureEvent, SubCallInput>(notProvided('runSubCall')),
    /** Replaces the reservation by the actual use. */
    settle: fromPromise<void, SettleInput>(notProvided('settle')),
  },
  delays: {
    expertsBound: ({ context }) => context.deadlines.expertsMs,
    wallClock: ({ context }) => context.deadlines.wallMs,
  },
  guards: {
    admitted: (_, refusal: AdmitOutput) => refusal === null,
    refused: ({ context }) => context.end !== null,
    allSettled: ({ context }) => step.allSettled(context),
    quorumMissed: ({ context }) => step.quorumMissed(context),
    hasStrategy: ({ context }, { state }: { state: string }) => step.strategyOf(context).state === state,
    wasCancelled: ({ context }) => context.end?.kind === 'cancelled',
    wasAnswered: ({ context }) => context.end?.kind === 'succeeded',
  },
  actions: {
    check: assign(({ context }) => step.checked(context)),
    startExperts: enqueueActions(({ context, enqueue }) => {
      for (const [index, result] of context.results.entries()) {
        if (result !== null) continue
        enqueue.spawnChild('runSubCall', { id: expertId(index), input: step.expertInput(context, index) })
      }
    }),
    stopExperts: enqueueActions(({ context, enqueue }) => {
      for (const index of context.results.keys()) enqueue.stopChild(expertId(index))
    }),
    markDispatched: assign(({ context, event }) =>
      event.type === 'subCall.dispatched' ? step.dispatchedTo(context, event) : {},
    ),
    markSettled: assign(({ context, event }) =>
      event.type === 'subCall.settled' ? step.subCallSettled(context, event) : {},
    ),
    markLate: assign(({ context }) => step.expertsLate(context)),
    markAggregatorLate: assign(({ context }) => step.aggregatorLate(context)),
    missQuorum: assign(({ context }) => step.quorumFailure(context)),
    select: assign(({ context }) => step.selected(context)),
    concludeAggregation: assign(({ context }) => step.aggregated(context)),
    cancel: assign(({ context }) => step.cancelled(context)),
    runOut: assign(({ context }) => step.outOfTime(context)),
    stop: assign(({ context }) => step.stopped(context)),
    confess: assign(({ context }) => step.broken(context)),
  },
})

const concluded = [
  { guard: 'wasAnswered' as const, target: '#mixture.succeeded' },
  { guard: 'wasCancelled' as const, target: '#mixture.cancelled' },
  { target: '#mixture.failed' },
]

/** The strategy chooses the answer on entry. */
const selecting = mixture.createStateConfig({ entry: 'select', always: '#mixture.settling' })

const aggregating = mixture.createStateConfig({
  invoke: { id: 'aggregator', src: 'runSubCall', input: ({ context }) => step.aggregatorInput(context) },
  on: {
    'subCall.dispatched': { actions: 'markDispatched' },
    'subCall.settled': { target: '#mixture.settling', actions: ['markSettled', 'concludeAggregation'] },
    'deadline.wall': { target: '#mixture.settling', actions: ['markAggregatorLate', 'concludeAggregation'] },
  },
})

const known: readonly Strategy[] = Object.values(strategies)
const combiningStates = Object.fromEntries(
  known.map(({ kind, state }) => [state, kind === 'selecting' ? selecting : aggregating]),
)
const toStrategy = known.map(({ state }) => ({
  guard: { type: 'hasStrategy' as const, params: { state } },
  target: state,
}))

/**
 * One mixture during its request (§7). Nothing of it is stored: its context holds the experts' answers and ends with
 * it.
 */
export const mixtureMachine = mixture.createMachine({
  id: 'mixture',
  initial: 'validating',
  context: ({ input }) => ({
    ...input,
    config: null,
    accepted: null,
    planned: [],
    results: [],
    dispatched: new Map(),
    aggregator: null,
    end: null,
  }),
  output: ({ context }) => step.reportOf(context),
  after: {
    expertsBound: { actions: raise({ type: 'deadline.experts' }) },
    wallClock: { actions: raise({ type: 'deadline.wall' }) },
  },
  on: {
    'client.gone': { target: '.settling', actions: 'cancel' },
    'gateway.stopping': { target: '.settling', actions: 'stop' },
    'deadline.wall': { target: '.settling', actions: 'runOut' },
  },
  states: {
    validating: {
      initial: 'checking',
      states: {
        checking: { entry: 'check', always: [{ guard: 'refused', target: '#mixture.failed' }, 'admitting'] },
        admitting: {
          invoke: {
            id: 'admit',
            src: 'admit',
            input: ({ context }) => ({ requestId: context.requestId, tokens: step.acceptedOf(context).estimate }),
            onDone: [
              { guard: { type: 'admitted', params: ({ event }) => event.output }, target: '#mixture.planning' },
              {
                target: '#mixture.failed',
                actions: assign(({ event }) => (event.output === null ? {} : step.failed(event.output))),
              },
            ],
            onError: { target: '#mixture.settling', actions: 'confess' },
          },
        },
      },
    },
    planning: {
      invoke: {
        id: 'plan',
        src: 'plan',
        input: ({ context }) => ({ requestId: context.requestId, accepted: step.acceptedOf(context) }),
        onDone: { target: 'expertsRunning', actions: assign(({ event }) => step.planMade(event.output)) },
        onError: { target: 'settling', actions: 'confess' },
      },
    },
    expertsRunning: {
      entry: 'startExperts',
      exit: 'stopExperts',
      always: { guard: 'allSettled', target: 'quorumCheck' },
      on: {
        'subCall.dispatched': { actions: 'markDispatched' },
        'subCall.settled': { actions: 'markSettled' },
        'deadline.experts': { target: 'quorumCheck', actions: 'markLate' },
        'deadline.wall': { target: 'quorumCheck', actions: 'markLate' },
      },
    },
    quorumCheck: {
      always: [{ guard: 'quorumMissed', target: 'settling', actions: 'missQuorum' }, 'combining'],
    },
    combining: { initial: 'choosing', states: { choosing: { always: toStrategy }, ...combiningStates } },
    settling: {
      invoke: {
        id: 'settle',
        src: 'settle',
        input: ({ context }) => ({
          requestId: context.requestId,
          tokens: usageOf([...context.results, context.aggregator]).usage.total_tokens,
        }),
        onDone: concluded,
        onError: { target: 'failed', actions: 'confess' },
      },
      on: {
        'client.gone': { target: 'cancelled', actions: 'cancel' },
        'gateway.stopping': concluded,
        'deadline.wall': concluded,
      },
    },
    succeeded: { type: 'final' },
    failed: { type: 'final' },
    cancelled: { type: 'final' },
  },
})
