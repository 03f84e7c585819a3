import { checkBooks } from '../actors/log/books-check.ts'
import { leadsOn } from '../actors/log/seen-log.ts'
import { type Database, openDatabase } from '../db/client.ts'
import { readLogState } from '../db/queries/log/log.ts'
import { readBooks } from '../db/queries/money/ledger-proof.ts'
import { logMemory } from '../host/log-memory.ts'
import { failureName } from '../log.ts'
import { brokenRules, type RowFault } from '../machines/rules/books.ts'
import { type Checkpoint, parseCheckpoint } from '../protocol/log/checkpoint.ts'
import { parseNote } from '../protocol/log/note.ts'
import type { SigningKey } from '../protocol/signing/ed25519.ts'
import { OfflineError } from './storage.ts'

/** What `audit books` would say of the data that was restored. */
export interface RestoredBooks {
  readonly sound: boolean
  readonly receipts: number
  readonly logEntries: number
  /** Sums that do not agree. */
  readonly brokenRules: readonly string[]
  /** Rows that break a rule, and the log where it is not what it says; at most 1,000. */
  readonly faults: readonly RowFault[]
  /** Entries that the log had before, if the log in the data does not lead on from there; null: it does, or there was none. */
  readonly lostLogSize: number | null
}

const connectionsMax = 2

/** What a gateway of this folder has seen of its log; null: nothing. */
export const logSeenBy = (dataDir: string): Checkpoint | null =>
  parseCheckpoint(parseNote(logMemory(dataDir).read() ?? '')?.text ?? '')

async function lostSize(db: Database, seen: Checkpoint | null): Promise<number | null> {
  if (seen === null) return null
  const state = (await readLogState(db)) ?? { origin: seen.origin, size: 0 }
  return (await leadsOn(db, state, seen)) ? null : seen.size
}

/** `seen`: of the log before. Throws `OfflineError` where rows that were restored cannot be read: they are there. */
export async function checkRestored(
  url: string,
  keys: readonly SigningKey[],
  seen: Checkpoint | null,
): Promise<RestoredBooks> {
  const { db, close } = openDatabase({ url, connectionsMax })
  try {
    const broken = brokenRules(await readBooks(db))
    const { receipts, logEntries, faults } = await checkBooks({ db, keys, fork: () => null, logNeeded: false })
    const lostLogSize = await lostSize(db, seen)
    return {
      sound: broken.length + faults.length === 0,
      receipts,
      logEntries,
      brokenRules: broken,
      faults,
      lostLogSize,
    }
  } catch (error) {
    throw new OfflineError(
      `The backup is restored, but its books could not be checked (${failureName(error)}). Do not trust this data before \`audit books\` has ended with 0.`,
    )
  } finally {
    await close()
  }
}
