import { assign, type SnapshotFrom, setup } from 'xstate'
import { backoffMs } from '../../backoff.ts'
import type { ModelServerState } from '../../protocol/wire/nodes/agent.ts'

/** All in ms. */
export interface ModelServerTimes {
  /** Until its health answers. */
  readonly startTimeoutMs: number
  /** How long it stays in memory without work; null: until its memory is needed. */
  readonly idleTtlMs: number | null
  /** Its owner has named the requests that send it to sleep and wake it. */
  readonly dozes: boolean
  /** How long the command may take to end before it is killed. */
  readonly stopGraceMs: number
  /** The pause after the first failure. Each further one doubles it, up to `backoffMaxMs`. */
  readonly backoffMs: number
}

/** A server that is longer on its way to sleep is ended, ms. */
export const fallingMaxMs = 60_000
export const backoffMaxMs = 300_000
/** After this time in memory a server has proved stable: the next failure counts as a first one, ms. */
export const steadyMs = 60_000
/** A timer that does not fire before the agent restarts, ms: about 24 days, the longest possible. */
const neverMs = 2_147_483_647

export type ModelServerEvent =
  /** A call waits for the model. */
  | { readonly type: 'call.began' }
  /** A waiting call was handed to the server. */
  | { readonly type: 'call.opened' }
  /** A call has ended, or its caller has left. `opened`: the server had it. */
  | { readonly type: 'call.ended'; readonly opened: boolean }
  | { readonly type: 'load.asked' }
  | { readonly type: 'unload.asked' }
  /** Its memory is needed for another model. */
  | { readonly type: 'evict.asked' }
  /** Another model has waited for long enough: no further call until this one's work is done. */
  | { readonly type: 'yield.asked' }
  | { readonly type: 'memory.given' }
  | { readonly type: 'health.answered' }
  /** It did what it was asked: it sleeps, or is awake and its health answers. */
  | { readonly type: 'order.done' }
  | { readonly type: 'order.failed' }
  /** No process of the command is left. */
  | { readonly type: 'command.exited' }
  /** The agent stops. */
  | { readonly type: 'end.asked' }

export interface ModelServerContext extends ModelServerTimes {
  readonly waiting: number
  readonly working: number
  /** An operator or a program asked for the model without having work for it. */
  readonly asked: boolean
  readonly ending: boolean
  /** The command is ended because it did not start in time. */
  readonly late: boolean
  /** In a row. */
  readonly failures: number
}

const notProvided = (name: string) => () => {
  throw new Error(`${name} is not provided`)
}

/** How long one that has failed rests before it is started again. */
export const failedPauseMs = ({
  backoffMs: firstMs,
  failures,
}: Pick<ModelServerContext, 'backoffMs' | 'failures'>): number => backoffMs({ firstMs, maxMs: backoffMaxMs }, failures)

const machine = setup({
  types: {
    context: {} as ModelServerContext,
    input: {} as ModelServerTimes,
    events: {} as ModelServerEvent,
    /** `asleep`: its process runs, and holds what its owner says that it keeps. */
    tags: {} as 'memory' | 'loading' | 'asleep',
  },
  delays: {
    startTimeout: ({ context }) => context.startTimeoutMs,
    idleTtl: ({ context }) => context.idleTtlMs ?? neverMs,
    fallingMax: fallingMaxMs,
    stopGrace: ({ context }) => context.stopGraceMs,
    steady: steadyMs,
    backoff: ({ context }) => failedPauseMs(context),
  },
  guards: {
    isWanted: ({ context }) => !context.ending && (context.waiting > 0 || context.asked),
    isUnwanted: ({ context }) => context.ending || (context.waiting === 0 && !context.asked),
    hasWork: ({ context }) => context.working > 0,
    hasNoWork: ({ context }) => context.working === 0,
    nobodyWaits: ({ context }) => context.waiting === 0,
    isEnding: ({ context }) => context.ending,
    mayDoze: ({ context }) => context.dozes && !context.ending,
    wasLate: ({ context }) => context.late,
  },
  actions: {
    startCommand: notProvided('startCommand'),
    sendToSleep: notProvided('sendToSleep'),
    wakeUp: notProvided('wakeUp'),
    terminateCommand: notProvided('terminateCommand'),
    killCommand: notProvided('killCommand'),
    countWaiting: assign({ waiting: ({ context }) => context.waiting + 1 }),
    countOpened: assign({
      waiting: ({ context }) => context.waiting - 1,
      working: ({ context }) => context.working + 1,
    }),
    countEnded: assign(({ context, event }) =>
      event.type === 'call.ended' && event.opened ? { working: context.working - 1 } : { waiting: context.waiting - 1 },
    ),
    noteAsked: assign({ asked: true }),
    forgetAsked: assign({ asked: false }),
    noteEnding: assign({ ending: true }),
    noteLate: assign({ late: true }),
    countFailure: assign({ failures: ({ context }) => context.failures + 1, late: false, asked: false }),
    forgetFailures: assign({ failures: 0 }),
  },
})

/**
 * One model server of an agent's `models.json` (§30). The first waiting call loads it. It is unloaded after a while
 * without work, when another model needs its memory, or on request. A server with work is never ended, but may be told
 * to accept no more calls. One whose owner has named requests for it sleeps instead of ending: its process keeps what the owner says,
 * and wakes sooner than it loads. `provide()` supplies the effects (start, sleep, wake, ask to end, kill) and the event that there is room.
 */
export const modelServerMachine = machine.createMachine({
  id: 'model-server',
  initial: 'stopped',
  context: ({ input }) => ({
    ...input,
    waiting: 0,
    working: 0,
    asked: false,
    ending: false,
    late: false,
    failures: 0,
  }),
  on: {
    'call.began': { actions: 'countWaiting' },
    'call.opened': { actions: 'countOpened' },
    'call.ended': { actions: 'countEnded' },
    'end.asked': { actions: 'noteEnding' },
  },
  states: {
    /** Not in memory, and no call waits for it. */
    stopped: {
      always: { guard: 'isWanted', target: 'queued' },
      on: { 'load.asked': { actions: 'noteAsked' } },
    },
    /** It waits until there is room for it. */
    queued: {
      tags: 'loading',
      always: { guard: 'isUnwanted', target: 'stopped' },
      on: {
        'memory.given': 'starting',
        // Also where a call waits already: its caller may leave.
        'load.asked': { actions: 'noteAsked' },
        'unload.asked': { actions: 'forgetAsked' },
      },
    },
    starting: {
      tags: ['loading', 'memory'],
      entry: 'startCommand',
      always: { guard: 'isEnding', target: 'stopping' },
      after: { startTimeout: { target: 'stopping', actions: 'noteLate' } },
      on: {
        'health.answered': 'ready',
        'command.exited': 'failed',
        'unload.asked': { guard: 'nobodyWaits', target: 'stopping', actions: 'forgetAsked' },
      },
    },
    ready: {
      tags: 'memory',
      initial: 'idle',
      entry: 'forgetAsked',
      always: { guard: 'isEnding', target: 'stopping' },
      after: { steady: { actions: 'forgetFailures' } },
      on: { 'command.exited': 'failed' },
      states: {
        idle: {
          always: { guard: 'hasWork', target: 'busy' },
          after: { idleTtl: '#model-server.leaving' },
          on: {
            'evict.asked': { guard: 'nobodyWaits', target: '#model-server.leaving' },
            'unload.asked': '#model-server.leaving',
          },
        },
        busy: {
          always: { guard: 'hasNoWork', target: 'idle' },
          on: { 'unload.asked': 'draining', 'yield.asked': 'draining' },
        },
        /** What runs may finish; who comes now waits until it is loaded again. */
        draining: {
          always: { guard: 'hasNoWork', target: '#model-server.leaving' },
          on: { 'load.asked': { actions: 'noteAsked' }, 'unload.asked': { actions: 'forgetAsked' } },
        },
      },
    },
    leaving: {
      tags: 'memory',
      always: [{ guard: 'mayDoze', target: 'falling' }, { target: 'stopping' }],
    },
    /** It was asked to sleep. One that would not is ended. */
    falling: {
      tags: 'memory',
      entry: 'sendToSleep',
      always: { guard: 'isEnding', target: 'stopping' },
      after: { fallingMax: 'stopping' },
      on: {
        'order.done': 'dozing',
        'order.failed': 'stopping',
        'command.exited': 'failed',
        'load.asked': { actions: 'noteAsked' },
        'unload.asked': { actions: 'forgetAsked' },
      },
    },
    /** Its process waits. Where the room that it keeps is needed, or it is unloaded once more, it ends. */
    dozing: {
      tags: 'asleep',
      always: [
        { guard: 'isEnding', target: 'stopping' },
        { guard: 'isWanted', target: 'recalled' },
      ],
      on: {
        'load.asked': { actions: 'noteAsked' },
        'evict.asked': 'stopping',
        'unload.asked': 'stopping',
        'command.exited': 'stopped',
      },
    },
    /** It sleeps until there is room for it. */
    recalled: {
      tags: ['loading', 'asleep'],
      always: [
        { guard: 'isEnding', target: 'stopping' },
        { guard: 'isUnwanted', target: 'dozing' },
      ],
      on: {
        'memory.given': 'waking',
        'load.asked': { actions: 'noteAsked' },
        'unload.asked': { actions: 'forgetAsked' },
        // Two that sleep may each need what the other one keeps.
        'evict.asked': 'stopping',
        'command.exited': 'queued',
      },
    },
    waking: {
      tags: ['loading', 'memory'],
      entry: 'wakeUp',
      always: { guard: 'isEnding', target: 'stopping' },
      after: { startTimeout: { target: 'stopping', actions: 'noteLate' } },
      on: {
        'order.done': 'ready',
        'order.failed': { target: 'stopping', actions: 'noteLate' },
        'command.exited': 'failed',
        'unload.asked': { guard: 'nobodyWaits', target: 'stopping', actions: 'forgetAsked' },
      },
    },
    /** Its memory counts until no process of the command is left. Asked for meanwhile, it is loaded again. */
    stopping: {
      tags: 'memory',
      entry: 'terminateCommand',
      after: { stopGrace: { actions: 'killCommand' } },
      on: {
        'command.exited': [{ guard: 'wasLate', target: 'failed' }, { target: 'stopped' }],
        'load.asked': { actions: 'noteAsked' },
        'unload.asked': { actions: 'forgetAsked' },
      },
    },
    /** The command ended by itself, or did not start in time: it gets a pause, unless an operator wants it at once. */
    failed: {
      entry: 'countFailure',
      always: { guard: 'isEnding', target: 'stopped' },
      after: { backoff: 'stopped' },
      on: { 'load.asked': { target: 'queued', actions: 'noteAsked' } },
    },
  },
})

export type ModelServerSnapshot = SnapshotFrom<typeof modelServerMachine>

export const modelServerStateOf = ({ value }: ModelServerSnapshot): ModelServerState =>
  // No actor is ever seen in `leaving`, which decides at once.
  typeof value === 'string' ? (value === 'leaving' ? 'stopping' : value) : `ready.${value.ready}`

/** True if a call that waits may be handed to the server. */
export const takesCalls = (state: ModelServerState): boolean => state === 'ready.idle' || state === 'ready.busy'
