import type { Database } from '../../db/client.ts'
import { findCutoff } from '../../db/queries/log/cutoff.ts'
import * as rows from '../../db/queries/log/log.ts'
import { identityKeys } from '../../db/queries/log/witnesses.ts'
import type { Log } from '../../log.ts'
import { logProofText } from '../../protocol/log/checkpoint.ts'
import type { CutoffFacts } from '../../protocol/log/entry-facts.ts'
import type { ForkProof } from '../../protocol/log/fork-proof.ts'
import { type LogEntry, logEntryBytes, logLeaf } from '../../protocol/log/log-entry.ts'
import {
  consistencyProof,
  inclusionProof,
  rootAt,
  rootByInclusion,
  type TreeHash,
  treeHashBytes,
} from '../../protocol/log/merkle-log.ts'
import { type NoteKey, noteKeyText } from '../../protocol/log/note.ts'
import { entryBundle, type TileName, tileHashes, tileWidth } from '../../protocol/log/tiles.ts'
import { versionOf } from '../../protocol/receipts/receipt.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'
import { receiptMessage } from '../../protocol/signing/signatures.ts'
import { minuteMs } from '../../time.ts'
import { witnessesMax } from './cosigning.ts'
import { provenForks } from './fork.ts'
import { firstOrigin, isOwnNote, saysSo, signersOf } from './log-names.ts'
import { readSubtrees } from './tree.ts'
import { agentKey } from './witnesses.ts'

export interface LoggedEntry extends LogEntry {
  readonly index: number
  readonly size: number
  readonly proof: readonly TreeHash[]
  /** The checkpoint of `size`, with its cosignatures. */
  readonly note: string
  /** By the log's key, of a receipt that the gateway issued. */
  readonly signature: string | null
  /** Since when the log holds it; null: a version before that noted it wrote the entry. */
  readonly takenAt: Date | null
}

/** The entry behind which no receipt of a node may lack its signature, below the same checkpoint as a receipt (§31). */
export interface LoggedCutoff {
  readonly facts: CutoffFacts
  readonly proof: readonly TreeHash[]
}

/** What anybody may read of the log. */
export interface PublicLog {
  /** The name of the log now, and the keys that sign it, as verifiers are given them. */
  keys(): Promise<{ readonly origin: string; readonly keys: readonly string[] }>
  /** The newest checkpoint that a witness has cosigned, or the newest of all where none did lately; null: no entry yet. */
  checkpoint(): Promise<string | null>
  /** null: not in the tree. */
  tile(name: TileName): Promise<Uint8Array | null>
  /** null: not in the log (yet). */
  inclusion(hash: string): Promise<LoggedEntry | null>
  /** For an entry that is older; null: it is not. */
  cutoff(entry: LoggedEntry): Promise<LoggedCutoff | null>
  /** null: the log was never so large. `to` null: the newest checkpoint. */
  consistency(
    from: number,
    to: number | null,
  ): Promise<{ readonly size: number; readonly proof: readonly TreeHash[] } | null>
  /** The log's forks below the tree of this size, newest first. `size` null: of the newest checkpoint; null: it was never so large. */
  forks(size: number | null): Promise<{ readonly size: number; readonly forks: readonly ForkProof[] } | null>
  /** Keys of those that are asked to cosign, as verifiers are given them. */
  witnesses(): Promise<readonly ListedWitness[]>
}

/** `agent`: of a node of this gateway's pool, which its operator may own. */
export interface ListedWitness {
  readonly kind: 'agent' | 'other'
  /** `name+hash+base64`. */
  readonly key: string
}

const withLines = ({ note, cosignatures }: rows.CheckpointRow) => note + cosignatures.join('')

/** A checkpoint without a witness replaces a cosigned one that is older by this much. */
const cosignedLagMs = minuteMs

/** Of at least `sizeMin` entries. The newest cosigned one is the largest: where it is too small, so are all. */
function bestOf({ newest, cosigned }: rows.NewestCheckpoints, sizeMin: number): rows.CheckpointRow | null {
  if (newest === null || cosigned === null || cosigned.size < sizeMin) return newest
  return newest.createdAt.getTime() - cosigned.createdAt.getTime() > cosignedLagMs ? newest : cosigned
}

/**
 * Made when somebody asks for it (docs/decisions/0018). One that was stored, by a version that signed every receipt at once, stays.
 */
function signatureOf(hash: string, found: rows.EntryOfHash, [key]: Keys): string | null {
  if (found.issuer !== 'gateway') return null
  return found.signature ?? key.sign(receiptMessage(hash, versionOf(found)))
}

/** Nothing is signed, and nothing shown, that the log does not hold under a root that this gateway's key has signed (§36). */
function refused(log: Log): null {
  log.error('receipt_forged', { rows: 1 })
  return null
}

/** SVC_LOG_KEY, newest first. */
type Keys = readonly [SigningKey, ...SigningKey[]]

export interface PublicLogOptions {
  readonly db: Database
  readonly log: Log
  readonly keys: Keys
  /** Keys of the witnesses that the settings name. */
  readonly others?: readonly NoteKey[]
}

export function createPublicLog({ db, log, keys, others = [] }: PublicLogOptions): PublicLog {
  const read = readSubtrees(db)
  const bestFor = async (sizeMin: number) => bestOf(await rows.newestCheckpoints(db), sizeMin)
  return {
    keys: async () => {
      const origin = (await rows.readLogState(db))?.origin ?? firstOrigin(keys)
      return { origin, keys: signersOf(origin, keys).map(({ key }) => noteKeyText(key)) }
    },
    checkpoint: async () => {
      const best = await bestFor(0)
      return best === null ? null : withLines(best)
    },
    tile: async (name) => {
      const state = await rows.readLogState(db)
      const held = tileHashes(name, state?.size ?? 0)
      const count = name.partial ?? tileWidth
      if (held < count) return null
      if (name.kind === 'entries') {
        const from = name.index * tileWidth
        const entries = await rows.readLogEntries(db, from, from + count)
        return entries.length === count ? entryBundle(entries.map(logEntryBytes)) : null
      }
      const [tile] = await rows.readTiles(db, [name])
      return tile?.subarray(0, count * treeHashBytes) ?? null
    },
    inclusion: async (hash) => {
      // Side by side: a proof is two waits for the database, not six.
      const [found, newest] = await Promise.all([rows.logEntryOf(db, hash), rows.newestCheckpoints(db)])
      if (found === null) return null
      const { index, kind } = found
      const best = bestOf(newest, index + 1)
      if (best === null || best.size <= index) return null
      const proof = await inclusionProof(index, best.size, read)
      // By another key: the sequencer says so, and nothing is forged.
      if (!isOwnNote(best.note, best.origin, keys)) return null
      // A row that was changed when the log had it names a place that holds something else.
      const root = rootByInclusion(logLeaf({ kind, hash }), index, best.size, proof)
      if (root === null || !saysSo(best.note, { ...best, root })) return refused(log)
      return {
        kind,
        hash,
        index,
        size: best.size,
        proof,
        note: withLines(best),
        signature: signatureOf(hash, found, keys),
        takenAt: found.takenAt,
      }
    },
    cutoff: async ({ index, size }) => {
      const found = await findCutoff(db)
      if (found === null || index >= found.entryIndex || size <= found.entryIndex) return null
      const { entryIndex, unsigned, unsignedHash } = found
      const root = (await rootAt(entryIndex, read)).toHex()
      const proof = await inclusionProof(entryIndex, size, read)
      return { facts: { size: entryIndex, root, unsigned, unsignedHash }, proof }
    },
    consistency: async (from, to) => {
      const size = to ?? (await bestFor(from))?.size ?? 0
      const state = await rows.readLogState(db)
      if (from > size || size > (state?.size ?? 0)) return null
      return { size, proof: await consistencyProof(from, size, read) }
    },
    forks: async (to) => {
      const size = to ?? (await bestFor(0))?.size ?? 0
      if (size > ((await rows.readLogState(db))?.size ?? 0)) return null
      return { size, forks: await provenForks(db, size) }
    },
    witnesses: async () => {
      const agents = await identityKeys(db)
      return [
        ...others.map((key) => ({ kind: 'other' as const, key: noteKeyText(key) })),
        ...agents.map(({ identityKey }) => ({ kind: 'agent' as const, key: noteKeyText(agentKey(identityKey)) })),
      ].slice(0, witnessesMax)
    },
  }
}

export const proofTextOf = ({ index, proof, note }: LoggedEntry) => logProofText({ index, proof, note })
