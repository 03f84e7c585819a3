import { assign, type SnapshotFrom, setup } from 'xstate'
import type { NodeState } from '../rules/routing.ts'
import {
  failedPollsMax,
  fallingAsleepMs,
  flappingChanges,
  flappingWindowMs,
  goodPolls,
  type NodeContext,
  type NodeEvent,
  type NodeThresholds,
} from './node-events.ts'

function changed(context: NodeContext, at: number, fell: boolean): Partial<NodeContext> {
  const changes = [...context.changes.filter((time) => at - time < flappingWindowMs), at].slice(-flappingChanges)
  const heldUntilMs = changes.length >= flappingChanges ? at + context.holdDownMs : context.heldUntilMs
  return { changes, fell, heldUntilMs }
}

const machine = setup({
  types: {
    context: {} as NodeContext,
    input: {} as NodeThresholds,
    events: {} as NodeEvent,
    tags: {} as 'eligible' | 'callsLost',
  },
  delays: {
    silence: ({ context }) => Math.max(0, context.lastAnswerMs + context.staleAfterMs - context.nowMs),
    longSilence: ({ context }) => Math.max(0, context.lastAnswerMs + context.offlineAfterMs - context.nowMs),
    drainTimeout: ({ context }) => Math.max(0, context.drainDeadlineMs - context.nowMs),
  },
  guards: {
    aModelIsReady: ({ context }) => context.modelsReady > 0 && context.drain === 'none',
    noModelIsReady: ({ context }) => context.modelsReady === 0,
    drainIsAsked: ({ context }) => context.drain === 'asked',
    lastFailureAllowed: ({ context }) => context.pollsFailed + 1 >= failedPollsMax,
    steadyAfterStale: ({ context }) => context.dialled || context.pollsGood + 1 >= goodPolls.fromStale,
    sleeps: ({ event }) => event.type === 'poll.answered' && event.power === 'asleep',
    yields: ({ event }) => event.type === 'poll.answered' && event.power === 'yielding',
    /** It says so, or the waker has an answer from it, or it answers for longer than a computer takes to fall asleep. */
    isAwake: ({ context, event }) =>
      event.type === 'poll.answered' &&
      (event.power === 'awake' ||
        event.power === 'yielding' ||
        event.wanted === true ||
        event.at - context.asleepSinceMs >= fallingAsleepMs),
    steadyAfterOffline: ({ context }) => context.dialled || context.pollsGood + 1 >= goodPolls.fromOffline,
  },
  actions: {
    recordAnswer: assign(({ context, event }) =>
      event.type === 'poll.answered'
        ? {
            modelsReady: event.modelsReady,
            pollsGood: context.pollsGood + 1,
            pollsFailed: 0,
            lastAnswerMs: event.askedMs ?? event.at,
            dialled: false,
            nowMs: event.at,
          }
        : {},
    ),
    recordFailure: assign(({ context, event }) => ({
      pollsGood: 0,
      pollsFailed: context.pollsFailed + 1,
      // A tunnel that broke again proves nothing.
      dialled: event.type === 'connection.refused' ? false : context.dialled,
      nowMs: event.at,
    })),
    fallAsleep: assign(({ context, event }) => ({
      asleepSinceMs: event.at,
      modelsReady: 0,
      pollsFailed: 0,
      nowMs: Math.max(context.nowMs, event.at),
    })),
    recordSleeping: assign(({ event }) => ({ pollsFailed: 0, nowMs: event.at })),
    forgetModels: assign({ modelsReady: 0 }),
    startCounting: assign({ pollsGood: 0 }),
    seenElsewhere: assign(({ event }) => ({ dialled: true, lastAnswerMs: event.at, nowMs: event.at })),
    noteDialled: assign({ dialled: true }),
    markSilent: assign(({ context }) => ({ nowMs: context.lastAnswerMs + context.staleAfterMs })),
    fall: assign(({ context }) => changed(context, context.nowMs, true)),
    rise: assign(({ context }) => (context.fell ? changed(context, context.nowMs, false) : {})),
    askDrain: assign(({ context, event }) => ({
      drain: 'asked' as const,
      drainDeadlineMs: event.at + context.drainTimeoutMs,
      nowMs: Math.max(context.nowMs, event.at),
    })),
    endDrain: assign(({ context, event }) => ({
      drain: 'done' as const,
      nowMs: event.type === 'calls.drained' ? event.at : Math.max(context.nowMs, context.drainDeadlineMs),
    })),
    takeBackDrain: assign(({ event }) => ({ drain: 'none' as const, nowMs: event.at })),
  },
})

/**
 * One node as this gateway sees it (§8). Lives in memory only: each gateway learns the state by its own polls. The
 * operator's wish (`admin_state`) comes from the row as `drain.asked`, `resume.asked`, `revoke.asked`.
 */
export const nodeMachine = machine.createMachine({
  id: 'node',
  initial: 'enrolled',
  context: ({ input }) => ({
    ...input,
    modelsReady: 0,
    pollsGood: 0,
    pollsFailed: 0,
    lastAnswerMs: 0,
    asleepSinceMs: 0,
    dialled: false,
    nowMs: 0,
    drain: 'none',
    drainDeadlineMs: 0,
    changes: [],
    fell: false,
    heldUntilMs: 0,
  }),
  on: {
    'drain.asked': { actions: 'askDrain' },
    'resume.asked': { actions: 'takeBackDrain' },
    'revoke.asked': '.revoked',
    'sleep.told': { target: '.asleep', actions: 'fallAsleep' },
  },
  states: {
    /** The node is known and has never answered. */
    enrolled: {
      on: {
        'poll.answered': [
          { guard: 'sleeps', target: 'asleep', actions: 'fallAsleep' },
          { target: 'live', actions: 'recordAnswer' },
        ],
      },
    },
    /** The node answers but gets no work, because no model is ready or it was drained. */
    live: {
      always: [
        { guard: 'drainIsAsked', target: 'draining' },
        { guard: 'aModelIsReady', target: 'ready', actions: 'rise' },
      ],
      after: { silence: { target: 'stale', actions: 'markSilent' } },
      on: {
        'poll.answered': [
          { guard: 'sleeps', target: 'asleep', actions: 'fallAsleep' },
          { guard: 'yields', target: 'yielding', actions: 'recordAnswer' },
          { target: 'live', reenter: true, actions: 'recordAnswer' },
        ],
        'poll.failed': [
          { guard: 'lastFailureAllowed', actions: ['recordFailure', 'forgetModels'] },
          { actions: 'recordFailure' },
        ],
        'connection.refused': { target: 'stale', actions: 'recordFailure' },
      },
    },
    ready: {
      tags: 'eligible',
      always: [
        { guard: 'drainIsAsked', target: 'draining' },
        { guard: 'noModelIsReady', target: 'live', actions: 'fall' },
      ],
      after: { silence: { target: 'stale', actions: ['markSilent', 'fall'] } },
      on: {
        'poll.answered': [
          { guard: 'sleeps', target: 'asleep', actions: 'fallAsleep' },
          { guard: 'yields', target: 'yielding', actions: 'recordAnswer' },
          { target: 'ready', reenter: true, actions: 'recordAnswer' },
        ],
        'poll.failed': [
          { guard: 'lastFailureAllowed', target: 'live', actions: ['recordFailure', 'forgetModels', 'fall'] },
          { actions: 'recordFailure' },
        ],
        'connection.refused': { target: 'stale', actions: ['recordFailure', 'fall'] },
      },
    },
    /** The node finishes its work. The drain's own timer runs beside the one that each answer restarts. */
    draining: {
      initial: 'answering',
      after: { drainTimeout: { target: 'live', actions: 'endDrain' } },
      states: {
        answering: {
          after: { silence: { target: '#node.stale', actions: 'markSilent' } },
          on: {
            'poll.answered': [
              { guard: 'sleeps', target: '#node.asleep', actions: 'fallAsleep' },
              { target: 'answering', reenter: true, actions: 'recordAnswer' },
            ],
          },
        },
      },
      on: {
        'poll.failed': { actions: 'recordFailure' },
        'connection.refused': { target: 'stale', actions: 'recordFailure' },
        'calls.drained': { target: 'live', actions: 'endDrain' },
        'resume.asked': { target: 'live', actions: 'takeBackDrain' },
      },
    },
    /** Its owner needs the computer: what runs there ends in its own time, and nothing new comes (§39). */
    yielding: {
      after: { silence: { target: 'stale', actions: 'markSilent' } },
      on: {
        'poll.answered': [
          { guard: 'sleeps', target: 'asleep', actions: 'fallAsleep' },
          { guard: 'yields', target: 'yielding', reenter: true, actions: 'recordAnswer' },
          { target: 'live', actions: 'recordAnswer' },
        ],
        'poll.failed': { actions: 'recordFailure' },
        'connection.refused': { target: 'stale', actions: 'recordFailure' },
      },
    },
    /**
     * It said that it would sleep, or an operator did (§39). Its silence is no failure, and one answer is enough to come back.
     * What runs on it is given up once it is silent.
     */
    asleep: {
      initial: 'falling',
      on: {
        'tunnel.opened': { actions: 'noteDialled' },
        // Its next answer is enough; a node that this gateway cannot reach is away.
        'sleep.over': { target: 'stale', actions: 'seenElsewhere' },
      },
      states: {
        falling: {
          on: {
            'poll.answered': [
              { guard: 'sleeps', actions: 'recordSleeping' },
              { guard: 'isAwake', target: '#node.live', actions: 'recordAnswer' },
            ],
            'poll.failed': [{ guard: 'lastFailureAllowed', target: 'gone' }, { actions: 'recordFailure' }],
            'connection.refused': 'gone',
          },
        },
        gone: {
          tags: 'callsLost',
          on: {
            'poll.answered': [
              { guard: 'sleeps', actions: 'recordSleeping' },
              { target: '#node.live', actions: 'recordAnswer' },
            ],
          },
        },
      },
    },
    /** The node gets no new work and may finish its running work. */
    stale: {
      entry: 'startCounting',
      initial: 'silent',
      states: {
        silent: {
          after: { longSilence: '#node.offline' },
          on: {
            'poll.answered': [
              { guard: 'sleeps', target: '#node.asleep', actions: 'fallAsleep' },
              { guard: 'steadyAfterStale', target: '#node.live', actions: 'recordAnswer' },
              { target: 'silent', reenter: true, actions: 'recordAnswer' },
            ],
          },
        },
      },
      on: {
        'poll.failed': { actions: 'recordFailure' },
        'connection.refused': { actions: 'recordFailure' },
        'tunnel.opened': { actions: 'noteDialled' },
        'sleep.told': { target: '#node.asleep.gone', actions: 'fallAsleep' },
      },
    },
    /** The gateway has given up the node's running work. */
    offline: {
      tags: 'callsLost',
      entry: 'startCounting',
      on: {
        'poll.answered': [
          { guard: 'sleeps', target: 'asleep', actions: 'fallAsleep' },
          { guard: 'steadyAfterOffline', target: 'live', actions: 'recordAnswer' },
          { actions: 'recordAnswer' },
        ],
        'poll.failed': { actions: 'recordFailure' },
        'connection.refused': { actions: 'recordFailure' },
        'tunnel.opened': { actions: 'noteDialled' },
        'sleep.told': { target: '#node.asleep.gone', actions: 'fallAsleep' },
      },
    },
    revoked: { type: 'final', tags: 'callsLost' },
  },
})

export type NodeSnapshot = SnapshotFrom<typeof nodeMachine>

/** The state's name as the table and the admin routes show it. */
export function nodeStateOf(snapshot: NodeSnapshot): NodeState {
  return typeof snapshot.value === 'string' ? snapshot.value : (Object.keys(snapshot.value)[0] as NodeState)
}

/** True if the node may get new work. Placement judges a hold-down, because it knows whether another route is left. */
export function isEligible(snapshot: NodeSnapshot): boolean {
  return snapshot.hasTag('eligible')
}
