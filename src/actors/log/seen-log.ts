import type { Database } from '../../db/client.ts'
import { checkpointAt, type LogState, readLogState } from '../../db/queries/log/log.ts'
import type { LogMemory } from '../../host/log-memory.ts'
import type { Log } from '../../log.ts'
import { type Checkpoint, parseCheckpoint } from '../../protocol/log/checkpoint.ts'
import { sameHash } from '../../protocol/log/merkle-log.ts'
import { parseNote } from '../../protocol/log/note.ts'
import { isEarlier, isFirst, lineageOf } from '../../protocol/log/origins.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'
import { firstOrigin, isOwnCheckpoint, isOwnNote, keysNamedIn, originOf, saysSo } from './log-names.ts'
import { rootThen } from './tree.ts'

/** The operator has made the fork known, here or at another gateway; an earlier name is that of a database put back. */
const isNamed = (origin: string, seen: string): boolean => origin !== seen && !isEarlier(origin, seen)

/** Whether the log in the database leads on from a checkpoint that was seen of it, or has another name by intention. */
export async function leadsOn(
  db: Database,
  state: Pick<LogState, 'origin' | 'size'>,
  seen: Checkpoint,
): Promise<boolean> {
  if (isNamed(state.origin, seen.origin)) return true
  if (seen.origin !== state.origin || seen.size > state.size) return false
  return sameHash(await rootThen(db, seen.size), seen.root)
}

/** As `isNamed`, of a log that a key of this gateway has signed: one that begins in place of it, under the name of another key, is no fork that was named. */
const isOwnNamed = (origin: string, seen: string): boolean =>
  isNamed(origin, seen) && (lineageOf(origin) === lineageOf(seen) || !isFirst(origin))

const checkpointOf = (note: string): Checkpoint | null => parseCheckpoint(parseNote(note)?.text ?? '')

interface SeenLogOptions {
  readonly log: Log
  /** SVC_LOG_KEY, newest first. */
  readonly keys: readonly SigningKey[]
  /** null: of a gateway without a data folder. */
  readonly memory: LogMemory | null
}

/** What a gateway has seen of its log, by which it knows whether the log in the database is still that one. */
export class SeenLog {
  /** `own`: a key of this gateway has signed it. */
  private seen: (Checkpoint & { readonly note: string; readonly own: boolean }) | null = null
  /** What `fork` returns, and the name of the log in the database when it was found. */
  private lost: { readonly note: string; readonly under: string } | null = null

  /** The newest checkpoint in the data folder. */
  private kept: string | null = null

  constructor(private readonly options: SeenLogOptions) {}

  /** The newest checkpoint that it has seen, signed; null: none. */
  note(): string | null {
    return this.seen?.note ?? null
  }

  /** The checkpoint that the log does not lead on from, or that no key of this gateway has signed; null: all is well. */
  fork(): string | null {
    return this.lost?.note ?? null
  }

  /** What the data folder has. */
  recall(): void {
    const { memory, keys } = this.options
    this.kept = memory?.read() ?? null
    if (this.kept !== null) this.remember(this.kept, isOwnNote(this.kept, originOf(this.kept), keys))
  }

  /** Has the data folder remember it, too. */
  keep(): void {
    const note = this.note()
    if (note !== null && note !== this.kept) this.options.memory?.write(note)
    this.kept = note
  }

  remember(note: string, own: boolean): void {
    const checkpoint = checkpointOf(note)
    if (checkpoint !== null) this.seen = { ...checkpoint, note, own }
  }

  /** After a named fork, or when what this gateway has seen may be back: the next look compares with that again. */
  goOn(): void {
    this.lost = null
  }

  /** `under`: the name that the log in the database has. Of several that were lost the one of the latest name counts: none is given twice. */
  exposed(shown: string, under: string): void {
    const note = this.seen !== null && isEarlier(originOf(shown), this.seen.origin) ? this.seen.note : shown
    if (this.lost === null) this.options.log.error('log_forked')
    if (this.lost === null || isEarlier(originOf(this.lost.note), originOf(note))) this.lost = { note, under }
  }

  /** Whether a key of this gateway has signed where the database says that the log stands, and it leads on from what was seen. */
  async holds(tx: Database, state: LogState): Promise<boolean> {
    const note = this.lost === null ? await this.ownNote(tx, state) : null
    if (note === null || !(await this.leadsOn(tx, state))) return false
    // Also of what another gateway has signed, above all under a later name: that one was never seen here.
    if (note !== '') this.remember(note, true)
    return true
  }

  /**
   * Whether a key of this gateway has signed where the log in the database stands, and the log has another name now than where `fork` was found, or leads on
   * from what `fork` returns: an operator has named the fork, here or at another gateway, or the log that this gateway has seen may be back.
   */
  async isLeft(db: Database): Promise<boolean> {
    const state = await readLogState(db)
    if (this.lost === null || state === null) return false
    const { note, under } = this.lost
    const origin = originOf(note) || under
    const isLater = isOwnNote(note, origin, this.options.keys) ? isOwnNamed : isNamed
    const lost = checkpointOf(note)
    const isBack = lost?.origin === state.origin && (await leadsOn(db, state, lost))
    if (!isBack && !isLater(state.origin, origin)) return false
    return this.isOwn(await storedAt(db, state), state)
  }

  /**
   * The checkpoint at which the database says that the log stands, if a key of this log has signed it: nothing is put behind what others wrote. Empty: the log
   * begins. null: no key has, which is a fork.
   */
  private async ownNote(tx: Database, state: LogState): Promise<string | null> {
    const { seen } = this
    if (state.size === 0 && this.mayBegin(state.origin)) return ''
    if (seen?.own === true && saysSo(seen.note, state)) return seen.note
    const stored = await storedAt(tx, state)
    if (this.isOwn(stored, state)) return stored
    const isPutBack = seen !== null && isEarlier(state.origin, seen.origin)
    if (saysSo(stored, state) && !isPutBack) this.signedByOthers(stored, state.origin)
    else this.exposed(seen?.note ?? stored, state.origin)
    return null
  }

  /**
   * Whether a log without entries begins here. One that goes on under another name begins with an entry that a key has signed. A gateway that has signed a
   * log loses it otherwise, though a newer key of its own gives the empty one its name.
   */
  private mayBegin(origin: string): boolean {
    return this.seen?.own !== true && this.options.keys.some((key) => firstOrigin([key]) === origin)
  }

  private isOwn(stored: string, state: LogState): boolean {
    return isOwnCheckpoint(stored, state, this.options.keys)
  }

  /** The log is whole, but SVC_LOG_KEY holds none of its keys: it was set without the one before, or someone else writes the database. */
  private signedByOthers(note: string, origin: string): void {
    if (this.lost === null) this.options.log.error('log_key_unknown', { signed_by: keysNamedIn(note, origin) })
    this.lost ??= { note, under: origin }
  }

  /** Whether the log in the database leads on from the checkpoint that this gateway saw last. */
  private async leadsOn(tx: Database, state: LogState): Promise<boolean> {
    const { seen } = this
    if (seen === null) return true
    const isOther = seen.own && isNamed(state.origin, seen.origin) && !isOwnNamed(state.origin, seen.origin)
    if (!isOther && (await leadsOn(tx, state, seen))) return true
    this.exposed(seen.note, state.origin)
    return false
  }
}

/** The newest checkpoint's note, as the database has it; empty: it has none. */
const storedAt = async (db: Database, { origin, size }: LogState): Promise<string> =>
  (await checkpointAt(db, origin, size)) ?? ''
