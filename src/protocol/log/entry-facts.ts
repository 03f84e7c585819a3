import { brand } from '../../brand.ts'
import { canonicalJson } from '../json/canonical-json.ts'
import { sha256 } from './merkle-log.ts'

/** `0x` and the hex SHA-256 of the JCS form (RFC 8785): what the log holds of facts that only their owners may read. */
export const factsHash = (facts: object): string => `0x${sha256(canonicalJson(facts)).toHex()}`

/** A credit as its customer knows it. */
export const creditHash = (credit: {
  readonly entryId: string
  readonly customerId: string
  readonly amountWei: string
  readonly reason: string | null
  readonly createdAt: Date
}): string =>
  factsHash({
    v: `${brand}-credit-v1`,
    credit_id: credit.entryId,
    customer_id: credit.customerId,
    amount_wei: credit.amountWei,
    reason: credit.reason,
    created_at: credit.createdAt.toISOString(),
  })

/** A debit that was given back, as its customer knows it. */
export const refundHash = (refund: {
  readonly entryId: string
  readonly customerId: string
  readonly receiptHash: string
  readonly amountWei: string
  readonly createdAt: Date
}): string =>
  factsHash({
    v: `${brand}-refund-v1`,
    refund_id: refund.entryId,
    customer_id: refund.customerId,
    receipt_hash: refund.receiptHash,
    amount_wei: refund.amountWei,
    created_at: refund.createdAt.toISOString(),
  })

/** The end of one writer's chain of the audit. Its MAC is nobody's to guess. */
export const auditHeadHash = (head: {
  readonly writerId: string
  readonly ordinal: number
  readonly seq: number
  readonly mac: string
}): string =>
  factsHash({
    v: `${brand}-audit-head-v1`,
    writer_id: head.writerId,
    ordinal: head.ordinal,
    seq: head.seq,
    mac: head.mac,
  })

export const batchHash = (batch: {
  readonly batchId: string
  readonly merkleRoot: string
  readonly payoutCount: number
  readonly totalAmountWei: string
}): string =>
  factsHash({
    v: `${brand}-batch-v1`,
    batch_id: batch.batchId,
    merkle_root: batch.merkleRoot,
    payout_count: batch.payoutCount,
    total_amount_wei: batch.totalAmountWei,
  })

/** Two logs under one name: what was lost, and where the log goes on. */
export const forkHash = (fork: {
  readonly origin: string
  readonly size: number
  readonly root: string
  readonly lostNote: string
}): string =>
  factsHash({ v: `${brand}-log-fork-v1`, origin: fork.origin, size: fork.size, root: fork.root, lost: fork.lostNote })

/** The receipts that stand in the log without their node's signature, because they are from before nodes signed all (§31). */
export interface CutoffFacts {
  /** Entries before the cutoff, which is its own place. */
  readonly size: number
  /** The log's root then, hex. */
  readonly root: string
  readonly unsigned: number
  /** `0x` and the hex SHA-256 over their hashes in the order of their letters, a line feed behind each. */
  readonly unsignedHash: string
}

export const cutoffHash = ({ size, root, unsigned, unsignedHash }: CutoffFacts): string =>
  factsHash({ v: `${brand}-log-cutoff-v1`, size, root, unsigned, unsigned_hash: unsignedHash })
