import { assign, fromPromise, setup } from 'xstate'
import { deliveryAttemptsMax, nextDeliveryDelayMs } from '../rules/retry-schedule.ts'

/** What one attempt came to. Codes are those of the wire (§11). */
export type DeliveryOutcome =
  | { readonly kind: 'delivered' }
  /** 410, or the receiver's word: no further attempt. */
  | { readonly kind: 'stopped'; readonly error: 'gone' | 'aborted_by_receiver' | 'blocked_address' }
  | { readonly kind: 'failed'; readonly error: string; readonly retryAfterMs: number | null }

/** The row's next status after the attempt. */
export type DeliveryVerdict =
  | { readonly status: 'delivered' }
  | { readonly status: 'disabled' | 'failed'; readonly error: string }
  | { readonly status: 'retry_scheduled'; readonly error: string; readonly delayMs: number }

export interface DeliveryContext {
  /** Started ones, this one included. */
  readonly attempts: number
  /** 0 to 1; drawn by who hydrates. */
  readonly random: number
  readonly verdict: DeliveryVerdict | null
}

/** The pure rule: one attempt's outcome and its number decide all. */
export function judgeDelivery(outcome: DeliveryOutcome, attempts: number, random: number): DeliveryVerdict {
  switch (outcome.kind) {
    case 'delivered':
      return { status: 'delivered' }
    case 'stopped':
      return { status: 'disabled', error: outcome.error }
    case 'failed': {
      const delayMs = nextDeliveryDelayMs(attempts, random, outcome.retryAfterMs)
      if (attempts >= deliveryAttemptsMax || delayMs === null) return { status: 'failed', error: outcome.error }
      return { status: 'retry_scheduled', error: outcome.error, delayMs }
    }
  }
}

const notProvided = (name: string) => () => Promise.reject(new Error(`${name} is not provided`))

/**
 * One delivery of one event. The resting states are the values of the row's `status`; the claim that writes `delivering`
 * comes before the event `claimed`. A row found in `delivering` is one whose gateway died: it is posted again.
 */
export const webhookDeliveryMachine = setup({
  types: {
    context: {} as DeliveryContext,
    input: {} as Pick<DeliveryContext, 'attempts' | 'random'>,
    events: {} as { readonly type: 'claimed' },
    tags: {} as 'working',
  },
  actors: {
    post: fromPromise<DeliveryOutcome>(notProvided('post')),
    /** Resolves to false if the lease was lost: another gateway now moves the row. */
    record: fromPromise<boolean, DeliveryVerdict>(notProvided('record')),
  },
  guards: {
    leaseLost: (_, written: boolean) => !written,
    delivered: ({ context }) => context.verdict?.status === 'delivered',
    disabled: ({ context }) => context.verdict?.status === 'disabled',
    failed: ({ context }) => context.verdict?.status === 'failed',
  },
}).createMachine({
  id: 'webhook-delivery',
  initial: 'pending',
  context: ({ input }) => ({ ...input, verdict: null }),
  states: {
    pending: { on: { claimed: 'posting' } },
    retry_scheduled: { on: { claimed: 'posting' } },
    delivering: { on: { claimed: 'posting' } },
    posting: {
      tags: 'working',
      invoke: {
        id: 'post',
        src: 'post',
        onDone: {
          target: 'recording',
          actions: assign({
            verdict: ({ context, event }) => judgeDelivery(event.output, context.attempts, context.random),
          }),
        },
        // A defect, not an outcome: the row keeps its lease and is claimed again when that has run out.
        onError: 'delivering',
      },
    },
    recording: {
      tags: 'working',
      invoke: {
        id: 'record',
        src: 'record',
        input: ({ context }) => context.verdict ?? { status: 'failed', error: 'unjudged' },
        onDone: [
          { guard: { type: 'leaseLost', params: ({ event }) => event.output }, target: 'delivering' },
          { guard: 'delivered', target: 'delivered' },
          { guard: 'disabled', target: 'disabled' },
          { guard: 'failed', target: 'failed' },
          { target: 'retry_scheduled' },
        ],
        onError: 'delivering',
      },
    },
    delivered: {},
    failed: {},
    disabled: {},
  },
})
