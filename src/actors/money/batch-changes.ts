import type { BatchChanges, PayoutBatchRow } from '../../db/queries/money/payout-batches.ts'
import type { BatchFacts, BatchRecord } from '../../machines/charts/payout-batch.ts'

/** The status of payouts for each state of their batch. */
export const payoutStatus = {
  created: 'batched',
  submitting: 'submitting',
  submitted: 'submitted',
  completed: 'finalized',
} as const

const inNoBlock = { settlementBlockNumber: null, settlementBlockHash: null } as const

/** The fields of a batch whose transaction is not waited for any more. Its transactions say for which contract it was signed. */
const unsent = {
  status: 'created',
  txNonce: null,
  submittedTxHash: null,
  submittedAt: null,
  ...inNoBlock,
} as const

export interface BatchStep {
  readonly changes: BatchChanges
  /** The time until the batch is due again, ms. 0 means that its next step can follow at once. */
  readonly waitMs: number
}

interface StepContext {
  /** The facts that the chart knows and that were claimed. */
  readonly facts: BatchFacts
  readonly batch: PayoutBatchRow
  readonly now: Date
  readonly pollMs: number
}

type RecordOf<K extends BatchRecord['kind']> = Extract<BatchRecord, { kind: K }>

/** The change of the row for what the chart records. */
export function batchStep(record: BatchRecord, context: StepContext): BatchStep {
  const { facts, now, pollMs } = context
  switch (record.kind) {
    case 'signed':
      return { waitMs: 0, changes: signed(record, facts) }
    case 'sent':
      return { waitMs: 0, changes: sent(context) }
    case 'included':
      return { waitMs: pollMs, changes: { status: 'submitted', ...inBlock(record, context) } }
    case 'final':
      return {
        waitMs: 0,
        changes: { ...inBlock(record, context), status: 'completed', finalizedAt: now, completedAt: now },
      }
    case 'again':
      return { waitMs: 0, changes: { status: 'submitting', ...inNoBlock, lastError: record.code } }
    case 'dropped':
      return { waitMs: 0, changes: { ...unsent, lastError: record.code } }
    case 'reverted':
      return { waitMs: pollMs, changes: reverted(record.code, facts, false) }
    case 'held':
      return { waitMs: pollMs, changes: reverted(record.code, facts, true) }
    case 'postponed':
      return { waitMs: pollMs, changes: { lastError: record.code } }
  }
}

/** The new transaction has a higher fee and the same nonce, so earlier ones may still be included. */
function signed({ nonce, transaction }: RecordOf<'signed'>, facts: BatchFacts): BatchChanges {
  const kept = facts.txNonce === nonce ? facts.transactions : []
  return { status: 'submitting', txNonce: nonce, transactions: [...kept, transaction], lastError: null }
}

function sent({ facts, batch, now }: StepContext): BatchChanges {
  const submittedTxHash = facts.transactions.at(-1)?.hash ?? null
  return { status: 'submitted', submittedTxHash, submittedAt: batch.submittedAt ?? now, lastError: null }
}

const reverted = (lastError: string, facts: BatchFacts, held: boolean): BatchChanges => ({
  ...unsent,
  transactions: [],
  attempts: facts.attempts + 1,
  held,
  lastError,
})

function inBlock(record: RecordOf<'included' | 'final'>, { batch, now }: StepContext): BatchChanges {
  return {
    submittedTxHash: record.hash,
    submittedAt: batch.submittedAt ?? now,
    settlementBlockNumber: record.blockNumber,
    settlementBlockHash: record.blockHash,
    lastError: null,
  }
}
