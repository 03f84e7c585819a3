import { brand } from '../../brand.ts'
import { canonicalJson } from '../json/canonical-json.ts'
import { type LoggedEntry, loggedFacts } from '../money/logged.ts'
import { sha256 } from './merkle-log.ts'

/** `0x` and the hex SHA-256 of the JCS form (RFC 8785): what the log holds of facts that only their owners may read. */
export const factsHash = (facts: object): string => `0x${sha256(canonicalJson(facts)).toHex()}`

export const ledgerEntryHash = (entry: LoggedEntry): string => factsHash(loggedFacts(entry))

/** The end of one writer's chain of the audit. Its MAC cannot be guessed. */
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

/** Where a batch stands on the chain, once that is final. */
export const settledHash = (batch: {
  readonly batchId: string
  readonly txHash: string
  readonly blockNumber: string
  readonly blockHash: string
}): string =>
  factsHash({
    v: `${brand}-batch-settled-v1`,
    batch_id: batch.batchId,
    tx_hash: batch.txHash,
    block_number: batch.blockNumber,
    block_hash: batch.blockHash,
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

/** Until when receipts may enter the log without the mark of the process that issued them, after an upgrade (§36). */
export interface MarksFacts {
  /** Entries before this one, which is its own place. */
  readonly size: number
  /** The log's root then, hex. */
  readonly root: string
  /** RFC 3339 UTC, three fractional digits. */
  readonly unmarkedUntil: string
}

export const marksHash = ({ size, root, unmarkedUntil }: MarksFacts): string =>
  factsHash({ v: `${brand}-log-marks-v1`, size, root, unmarked_until: unmarkedUntil })

/** Where a node says that its earnings go, with its signature over it (§36). */
export const payeeHash = (statement: {
  readonly nodeId: string
  readonly payee: string
  /** RFC 3339 UTC, three fractional digits. */
  readonly signedAt: string
  readonly signature: string
}): string =>
  factsHash({
    v: `${brand}-payee-v1`,
    node_id: statement.nodeId,
    payee: statement.payee,
    signed_at: statement.signedAt,
    signature_ed25519: statement.signature,
  })
