import { assign, fromPromise, setup } from 'xstate'
import { batchesAttemptsMax } from '../rules/payout-batching.ts'

/** A transaction as it was signed; kept in the row before it is sent. */
export interface SignedTransaction {
  readonly hash: string
  readonly raw: string
}

/** The columns that the chart works with. */
export interface BatchFacts {
  readonly batchId: string
  readonly merkleRoot: string
  readonly totalAmountWei: bigint
  readonly payoutCount: number
  readonly txNonce: number | null
  readonly transactions: readonly SignedTransaction[]
  readonly settlementBlockHash: string | null
  /** How often its transaction has reverted. */
  readonly attempts: number
  /** Fences late writers. */
  readonly leaseId: string
}

/** The code that says why nothing moved. It is never the text of an RPC. */
export interface Unavailable {
  readonly kind: 'unavailable'
  readonly code: string
}

export interface Inclusion {
  readonly hash: string
  readonly blockNumber: string
  readonly blockHash: string
}

export type SignResult =
  | { readonly kind: 'signed'; readonly nonce: number; readonly transaction: SignedTransaction }
  /** The contract already has this root, because an earlier transaction of the batch was included. */
  | ({ readonly kind: 'settled' } & Inclusion)
  /** The contract would refuse it. */
  | { readonly kind: 'reverted'; readonly code: string }
  | Unavailable

export type SendResult =
  | { readonly kind: 'sent' }
  /** The nonce was used, by this transaction or by another one. */
  | { readonly kind: 'spent' }
  /** No block accepts the transaction at today's fee. */
  | { readonly kind: 'underpriced' }
  /** No transaction is signed: an earlier one settled the batch, and a reorganisation removed it. */
  | { readonly kind: 'unsigned' }
  | Unavailable

export type LookResult =
  | ({ readonly kind: 'included' } & Inclusion)
  | ({ readonly kind: 'final' } & Inclusion)
  /** The transaction is known and not yet included. */
  | { readonly kind: 'pending' }
  /** The transaction is known, and no block accepts it at today's fee. */
  | { readonly kind: 'underpriced' }
  /** The transaction is unknown and its nonce is free, so it can be sent again. */
  | { readonly kind: 'unknown' }
  /** The block of the transaction no longer exists. */
  | { readonly kind: 'reorged' }
  /** Another transaction used the nonce, or the nonce can never be reached. */
  | { readonly kind: 'dropped'; readonly code: string }
  | { readonly kind: 'reverted'; readonly code: string }
  | Unavailable

export type BatchRecord =
  | { readonly kind: 'signed'; readonly nonce: number; readonly transaction: SignedTransaction }
  | { readonly kind: 'sent' }
  | ({ readonly kind: 'included' } & Inclusion)
  | ({ readonly kind: 'final' } & Inclusion)
  | { readonly kind: 'again'; readonly code: string }
  | { readonly kind: 'dropped'; readonly code: string }
  | { readonly kind: 'reverted'; readonly code: string }
  /** Reverted too often: it waits for an operator. */
  | { readonly kind: 'held'; readonly code: string }
  | { readonly kind: 'postponed'; readonly code: string | null }

/** Nothing is written under a lease that was lost, nor with a nonce that another batch took meanwhile. */
export type WriteResult = 'written' | 'lease_lost' | 'nonce_taken'

type Resting = 'created' | 'submitting' | 'submitted' | 'completed'

export interface BatchContext extends BatchFacts {
  /** The state from which the chart came. A write under a lost lease leaves it there. */
  readonly restsIn: Resting
  readonly record: BatchRecord
}

const notProvided = <O, I>() =>
  fromPromise<O, I>(() => Promise.reject(new Error('not provided: the actor gives this chart its effects')))

interface RecordInput {
  readonly facts: BatchFacts
  readonly record: BatchRecord
}

/** The fields to write for a result. Pure, so that the chart only decides the next state. */
export function recordOf(result: SignResult | SendResult | LookResult): BatchRecord {
  switch (result.kind) {
    case 'signed':
    case 'included':
    case 'final':
    case 'dropped':
    case 'reverted':
      return result
    case 'settled':
      return { ...result, kind: 'included' }
    case 'sent':
    // The transaction itself probably used the nonce, if a crash followed the sending. Otherwise the look at the
    // blockchain shows it.
    case 'spent':
      return { kind: 'sent' }
    case 'unknown':
      return { kind: 'again', code: 'unknown_to_the_chain' }
    case 'reorged':
      return { kind: 'again', code: 'reorganised' }
    case 'pending':
    case 'underpriced':
    case 'unsigned':
      return { kind: 'postponed', code: null }
    case 'unavailable':
      return { kind: 'postponed', code: result.code }
  }
}

/** The resting state that a write makes true; null: the one it came from. */
export const leadsTo: Readonly<Record<BatchRecord['kind'], Resting | null>> = {
  signed: 'submitting',
  again: 'submitting',
  sent: 'submitted',
  included: 'submitted',
  final: 'completed',
  dropped: 'created',
  reverted: 'created',
  held: 'created',
  postponed: null,
}

const goesTo =
  (state: Resting) =>
  ({ context }: { readonly context: BatchContext }) =>
    (leadsTo[context.record.kind] ?? context.restsIn) === state

const machine = setup({
  types: {
    context: {} as BatchContext,
    input: {} as BatchContext,
    events: {} as { readonly type: 'claimed' },
    tags: {} as 'working',
  },
  actors: {
    sign: notProvided<SignResult, BatchFacts>(),
    send: notProvided<SendResult, BatchFacts>(),
    look: notProvided<LookResult, BatchFacts>(),
    write: notProvided<WriteResult, RecordInput>(),
  },
  guards: {
    leadsToCreated: goesTo('created'),
    leadsToSubmitting: goesTo('submitting'),
    leadsToSubmitted: goesTo('submitted'),
    leadsToCompleted: goesTo('completed'),
    needsNewFee: (_, result: LookResult) => result.kind === 'underpriced',
    needsSigning: (_, result: SendResult) => result.kind === 'underpriced' || result.kind === 'unsigned',
    revertedTooOften: ({ context }, result: SignResult | LookResult) =>
      result.kind === 'reverted' && context.attempts + 1 >= batchesAttemptsMax,
    leaseLost: (_, result: WriteResult) => result === 'lease_lost',
    nonceTaken: (_, result: WriteResult) => result === 'nonce_taken',
    cameFromSubmitting: ({ context }) => context.restsIn === 'submitting',
    cameFromSubmitted: ({ context }) => context.restsIn === 'submitted',
  },
  actions: {
    hold: assign({ record: (_, { code }: { readonly code: string }) => ({ kind: 'held', code }) }),
    postpone: assign({ record: { kind: 'postponed', code: 'nonce_taken' } }),
  },
})

const resultOf = ({ event }: { readonly event: { readonly output: unknown } }) => event.output as never

const revertedTooOften = [
  {
    guard: { type: 'revertedTooOften', params: resultOf },
    target: 'recording',
    actions: { type: 'hold', params: resultOf },
  },
] as const

/**
 * A payout batch on its way to the chain (§14). Resting states are values of the row's status column. The signed
 * transaction is in the row before it is sent, and `submitting` sends that one. After a crash the same transaction is
 * sent again, and the contract accepts a batch once.
 */
export const payoutBatchMachine = machine.createMachine({
  id: 'payout-batch',
  initial: 'created',
  context: ({ input }) => input,
  states: {
    created: { on: { claimed: 'signing' } },
    /** Also signs again with the same nonce and a higher fee, if no block accepts the first transaction. */
    signing: {
      tags: 'working',
      invoke: {
        id: 'sign',
        src: 'sign',
        input: ({ context }) => context,
        onDone: [
          ...revertedTooOften,
          { target: 'recording', actions: assign({ record: ({ event }) => recordOf(event.output) }) },
        ],
      },
    },
    submitting: { on: { claimed: 'sending' } },
    sending: {
      tags: 'working',
      invoke: {
        id: 'send',
        src: 'send',
        input: ({ context }) => context,
        onDone: [
          {
            guard: { type: 'needsSigning', params: ({ event }) => event.output },
            target: 'signing',
          },
          { target: 'recording', actions: assign({ record: ({ event }) => recordOf(event.output) }) },
        ],
      },
    },
    submitted: { on: { claimed: 'looking' } },
    looking: {
      tags: 'working',
      invoke: {
        id: 'look',
        src: 'look',
        input: ({ context }) => context,
        onDone: [
          { guard: { type: 'needsNewFee', params: ({ event }) => event.output }, target: 'signing' },
          ...revertedTooOften,
          { target: 'recording', actions: assign({ record: ({ event }) => recordOf(event.output) }) },
        ],
      },
    },
    /** Writes one transaction, then enters the state that it stored; if the lease was lost, it enters none. */
    recording: {
      tags: 'working',
      invoke: {
        id: 'write',
        src: 'write',
        input: ({ context }) => ({ facts: context, record: context.record }),
        onDone: [
          { guard: { type: 'leaseLost', params: ({ event }) => event.output }, target: 'fencedOff' },
          {
            guard: { type: 'nonceTaken', params: ({ event }) => event.output },
            target: 'recording',
            reenter: true,
            actions: 'postpone',
          },
          { guard: 'leadsToSubmitting', target: 'submitting' },
          { guard: 'leadsToSubmitted', target: 'submitted' },
          { guard: 'leadsToCompleted', target: 'completed' },
          { guard: 'leadsToCreated', target: 'created' },
        ],
      },
    },
    fencedOff: {
      tags: 'working',
      always: [
        { guard: 'cameFromSubmitting', target: 'submitting' },
        { guard: 'cameFromSubmitted', target: 'submitted' },
        { target: 'created' },
      ],
    },
    completed: { type: 'final' },
  },
})

export const restingStates: readonly Resting[] = ['created', 'submitting', 'submitted', 'completed']
