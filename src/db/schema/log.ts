import { sql } from 'drizzle-orm'
import { bigint, boolean, index, integer, pgTable, primaryKey, text, uniqueIndex } from 'drizzle-orm/pg-core'
import type { LogEntryKind } from '../../protocol/log/log-entry.ts'
import { bytea, createdAt, instant } from '../columns.ts'

const place = () => bigint({ mode: 'number' })

/** The public log (§31): what was sequenced, for ever, from 0 without a gap; receipts stand in `log_receipts`. */
export const logEntries = pgTable(
  'log_entries',
  {
    entryIndex: place().primaryKey(),
    kind: text().$type<LogEntryKind>().notNull(),
    /** `0x` and 64 hex digits: all that the log tells a stranger. */
    hash: text().notNull(),
    /** What it is the hash of, for our own checks: a credit's id, a writer and its place, a batch's id, what a cutoff bounds. */
    subject: text(),
    /** Of a receipt that the gateway issued, where a version before this one signed it at once: the log key's signature over its hash. */
    signatureEd25519: text(),
    /** Of a part of the ledger: its entries with `fromSeq` < seq ≤ `toSeq`. */
    fromSeq: bigint({ mode: 'bigint' }),
    toSeq: bigint({ mode: 'bigint' }),
    createdAt: createdAt(),
  },
  (t) => [uniqueIndex().on(t.hash), index('log_entries_subject').on(t.kind, t.subject).where(sql`subject is not null`)],
)

/**
 * Receipts in the log, a row for each run of neighbours: those with `fromSeq` < seq ≤ `toSeq`, in the order of their seq, are the
 * entries from `firstIndex` on (docs/decisions/0018). Versions before this table wrote a row for each: those stay in `log_entries`.
 */
export const logReceipts = pgTable(
  'log_receipts',
  {
    firstIndex: place().primaryKey(),
    entries: integer().notNull(),
    fromSeq: bigint({ mode: 'bigint' }).notNull(),
    toSeq: bigint({ mode: 'bigint' }).notNull(),
    /** null: a version before this column wrote it. */
    takenAt: instant().default(sql`now()`),
  },
  (t) => [uniqueIndex().on(t.toSeq)],
)

/**
 * Receipts, and whole groups of them, that the log has gone past without an entry, because the gateway that wrote the log could not judge
 * their mark (§36). One that can takes them later.
 */
export const logWaiting = pgTable(
  'log_waiting',
  {
    /** Of the receipt, or of the last one of its group. */
    lastSeq: bigint({ mode: 'bigint' }).notNull(),
    grouped: boolean().notNull(),
    createdAt: createdAt(),
  },
  (t) => [primaryKey({ columns: [t.lastSeq, t.grouped] })],
)

/** Of each entry of the kind `fork`: the checkpoint that it names as lost, so that its proof can be shown (§36). */
export const logForks = pgTable('log_forks', {
  entryIndex: place().primaryKey(),
  /** The signed note. */
  lostNote: text().notNull(),
  /** For which witness it was written; null: an operator has named the fork. */
  witness: text(),
  /** The customer whose agent that witness was. */
  owner: text(),
})

/** Neighbouring hashes of the tree, 256 a row; only the last row of each level still grows. */
export const logTiles = pgTable(
  'log_tiles',
  { level: integer().notNull(), tileIndex: place().notNull(), hashes: bytea().notNull() },
  (t) => [primaryKey({ columns: [t.level, t.tileIndex] })],
)

/** One row: where the log stands, and up to where receipts and ledger are in it. */
export const logState = pgTable('log_state', {
  logId: integer().primaryKey(),
  origin: text().notNull(),
  size: place().notNull(),
  root: bytea().notNull(),
  receiptsTo: bigint({ mode: 'bigint' }).notNull(),
  ledgerTo: bigint({ mode: 'bigint' }).notNull(),
  headsAt: instant(),
  /** From when on a part of the ledger has a line for each group of charges: gateways of the version before know no such part. */
  groupsFrom: instant().notNull().default(sql`now() + interval '1 hour'`),
  updatedAt: createdAt(),
})

/** Signed notes, the newest ones; older roots follow from the tiles. */
export const logCheckpoints = pgTable(
  'log_checkpoints',
  { origin: text().notNull(), size: place().notNull(), note: text().notNull(), createdAt: createdAt() },
  (t) => [primaryKey({ columns: [t.origin, t.size] }), index().on(t.size)],
)

/** Lines of witnesses below a checkpoint. */
export const logCosignatures = pgTable(
  'log_cosignatures',
  {
    origin: text().notNull(),
    size: place().notNull(),
    witness: text().notNull(),
    line: text().notNull(),
    createdAt: createdAt(),
  },
  (t) => [primaryKey({ columns: [t.origin, t.size, t.witness] }), index().on(t.size)],
)
