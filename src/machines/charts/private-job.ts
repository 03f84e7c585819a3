import { assign, fromPromise, setup } from 'xstate'
import { attemptsMax, retryableFailures } from '../../protocol/wire/admin/command.ts'
import type { EnvelopeBody } from '../../protocol/wire/inference/job.ts'
import { nextJobDelayMs } from '../rules/retry-schedule.ts'

type Envelope = (typeof EnvelopeBody)['static']

/** A checked result. Its receipt is the node's and for this job. */
export interface JobResult {
  readonly encryptedResponse: Envelope
  readonly receiptHash: string
  /** `receiptText` of the receipt. */
  readonly receiptText: string
  /** Of the node, over the receipt's hash: it proves to others that the node said so. */
  readonly signature: string
  /** The usage is impossible for texts of these lengths (§5). */
  readonly held: boolean
}

/** The outcome of the `PUT` to the node. */
export type SubmitOutcome =
  | { readonly kind: 'accepted' }
  | { readonly kind: 'refused'; readonly code: string }
  | { readonly kind: 'unreachable' }

/** What waiting at the node came to. */
export type AttendOutcome =
  | { readonly kind: 'completed'; readonly result: JobResult }
  | { readonly kind: 'failed'; readonly code: string }
  /** The agent no longer knows the command. */
  | { readonly kind: 'lost' }
  | { readonly kind: 'unreachable' }

/** The row's next status. */
export type JobVerdict =
  | { readonly status: 'completed'; readonly result: JobResult }
  | { readonly status: 'failed'; readonly code: string }
  /** The job waits for its next attempt. */
  | { readonly status: 'queued'; readonly delayMs: number }
  /** Nothing is known, so a gateway continues the same attempt. */
  | { readonly status: 'released' }

export interface JobContext {
  readonly attempt: number
  readonly verdict: JobVerdict | null
}

const commandLost = 'command_lost'

/** What ends an attempt. */
type JobOutcome = Exclude<SubmitOutcome, { kind: 'accepted' }> | AttendOutcome

const codeOf = (outcome: JobOutcome): string => ('code' in outcome ? outcome.code : commandLost)

const notProvided = (name: string) => () => Promise.reject(new Error(`${name} is not provided`))

const machine = setup({
  types: {
    context: {} as JobContext,
    input: {} as Pick<JobContext, 'attempt'>,
    events: {} as { readonly type: 'claimed' },
    tags: {} as 'working',
  },
  actors: {
    submit: fromPromise<SubmitOutcome>(notProvided('submit')),
    /** Here and in `record`, false means that the lease is lost and another gateway has the row. */
    markRunning: fromPromise<boolean>(notProvided('markRunning')),
    attend: fromPromise<AttendOutcome>(notProvided('attend')),
    record: fromPromise<boolean, JobVerdict>(notProvided('record')),
  },
  guards: {
    accepted: (_, outcome: SubmitOutcome) => outcome.kind === 'accepted',
    answered: (_, outcome: JobOutcome) => outcome.kind === 'completed',
    unreachable: (_, outcome: JobOutcome) => outcome.kind === 'unreachable',
    /** Another attempt may mend it, and there is one. */
    mayTryAgain: ({ context: { attempt } }, outcome: JobOutcome) => {
      const code = codeOf(outcome)
      const retryable = code === commandLost || (retryableFailures as readonly string[]).includes(code)
      return retryable && attempt < attemptsMax && nextJobDelayMs(attempt) !== null
    },
    leaseHeld: (_, written: boolean) => written,
    leaseLost: (_, written: boolean) => !written,
    completed: ({ context }) => context.verdict?.status === 'completed',
    failed: ({ context }) => context.verdict?.status === 'failed',
    requeued: ({ context }) => context.verdict?.status === 'queued',
  },
  actions: {
    complete: assign({ verdict: (_, { result }: { readonly result: JobResult }) => ({ status: 'completed', result }) }),
    release: assign({ verdict: { status: 'released' } }),
    requeue: assign({
      verdict: ({ context }) => ({ status: 'queued', delayMs: nextJobDelayMs(context.attempt) ?? 0 }),
    }),
    fail: assign({ verdict: (_, outcome: JobOutcome) => ({ status: 'failed', code: codeOf(outcome) }) }),
  },
})

const outcomeOf = ({ event }: { readonly event: { readonly output: unknown } }) => event.output as never

/** Where an attempt leads that brought no result. */
const withoutResult = [
  { guard: { type: 'unreachable', params: outcomeOf }, target: 'recording', actions: 'release' },
  { guard: { type: 'mayTryAgain', params: outcomeOf }, target: 'recording', actions: 'requeue' },
  { target: 'recording', actions: { type: 'fail', params: outcomeOf } },
] as const

/**
 * What one gateway does with a job it has claimed. Resting states are the values of the row's `status`. The claim
 * writes `dispatched` before the node gets the job. A gateway that finds `dispatched` therefore submits the same
 * attempt again, which is idempotent at the node; a gateway that finds `running` only waits. The sweep writes `expired`
 * and an operator writes `cancelled`, both past the chart. The lease is then lost, which ends this actor.
 */
export const privateJobMachine = machine.createMachine({
  id: 'private-job',
  initial: 'queued',
  context: ({ input }) => ({ ...input, verdict: null }),
  states: {
    queued: {},
    dispatched: { on: { claimed: 'submitting' } },
    running: { on: { claimed: 'attending' } },
    submitting: {
      tags: 'working',
      invoke: {
        id: 'submit',
        src: 'submit',
        onDone: [
          { guard: { type: 'accepted', params: ({ event }) => event.output }, target: 'markingRunning' },
          ...withoutResult,
        ],
        onError: 'dispatched',
      },
    },
    markingRunning: {
      tags: 'working',
      invoke: {
        id: 'markRunning',
        src: 'markRunning',
        onDone: [
          { guard: { type: 'leaseHeld', params: ({ event }) => event.output }, target: 'attending' },
          { target: 'dispatched' },
        ],
        onError: 'dispatched',
      },
    },
    attending: {
      tags: 'working',
      invoke: {
        id: 'attend',
        src: 'attend',
        onDone: [
          {
            guard: { type: 'answered', params: outcomeOf },
            target: 'recording',
            actions: { type: 'complete', params: outcomeOf },
          },
          ...withoutResult,
        ],
        onError: 'running',
      },
    },
    recording: {
      tags: 'working',
      invoke: {
        id: 'record',
        src: 'record',
        input: ({ context }) => context.verdict ?? { status: 'released' },
        onDone: [
          { guard: { type: 'leaseLost', params: ({ event }) => event.output }, target: 'running' },
          { guard: 'completed', target: 'completed' },
          { guard: 'failed', target: 'failed' },
          { guard: 'requeued', target: 'queued' },
          { target: 'running' },
        ],
        onError: 'running',
      },
    },
    completed: {},
    failed: {},
    expired: {},
    cancelled: {},
  },
})
