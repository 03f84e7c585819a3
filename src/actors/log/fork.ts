import type { Database } from '../../db/client.ts'
import { type ForkRow, forksMax, insertFork, readForks } from '../../db/queries/log/forks.ts'
import * as rows from '../../db/queries/log/log.ts'
import { Problem } from '../../errors.ts'
import { type Checkpoint, checkpointText, parseCheckpoint } from '../../protocol/log/checkpoint.ts'
import { forkHash } from '../../protocol/log/entry-facts.ts'
import { type ForkProof, isLostBy } from '../../protocol/log/fork-proof.ts'
import { logLeaf } from '../../protocol/log/log-entry.ts'
import { consistencyProof, inclusionProof, rootAt, sameHash, type TreeHash } from '../../protocol/log/merkle-log.ts'
import { parseNote } from '../../protocol/log/note.ts'
import { isEarlier, nextOrigin } from '../../protocol/log/origins.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'
import type { AuditContext, AuditTrail } from '../audit/audit-context.ts'
import { originOf, signedNote } from './log-names.ts'
import type { Sequencer } from './sequencer.ts'
import { appendLeaves, readSubtrees, rootThen } from './tree.ts'

export interface ForkPort {
  readonly db: Database
  readonly trail: AuditTrail
  readonly keys: readonly SigningKey[]
  readonly sequencer: Pick<Sequencer, 'fork' | 'goOn' | 'isLeft'>
}

export interface NamedFork {
  readonly origin: string
  readonly size: number
  /** What the log before had, and this one has not; null: fewer entries than here. */
  readonly lostSize: number
  readonly lostNote: string
}

/** The next entry of the log says that this checkpoint was lost, and under which name the log goes on. */
async function writeFork(
  tx: Database,
  state: rows.LogState,
  { origin, ...lost }: Omit<ForkRow, 'entryIndex'>,
  keys: readonly SigningKey[],
): Promise<number> {
  const hash = forkHash({ origin, size: state.size, root: state.root.toString('hex'), lostNote: lost.lostNote })
  const entry = { kind: 'fork', hash, subject: origin, entryIndex: state.size } as const
  await rows.insertLogEntries(tx, [entry])
  await insertFork(tx, { entryIndex: state.size, ...lost })
  const root = await appendLeaves(tx, state.size, [logLeaf(entry)])
  const size = state.size + 1
  await rows.saveLogState(tx, { ...state, origin, size, root: Buffer.from(root) })
  await rows.saveCheckpoint(tx, origin, size, signedNote(checkpointText({ origin, size, root }), origin, keys))
  return size
}

/**
 * The operator's step after a database was put back: the log goes on under another name, and its next entry commits to
 * the checkpoint that was lost. A reader who has seen the earlier log cannot be led to take this one for it. Refuses with
 * `invalid_state` where nothing was lost.
 */
export async function nameFork(port: ForkPort, audit: AuditContext): Promise<NamedFork> {
  const { db, trail, keys, sequencer } = port
  const lostNote = sequencer.fork()
  if (lostNote === null)
    throw new Problem('invalid_state', { detail: 'The log leads on from all that this gateway saw' })
  const lost = parseCheckpoint(parseNote(lostNote)?.text ?? '')
  const before = await rows.readLogState(db)
  const named = await db.transaction(async (tx) => {
    if (!(await rows.waitForSequencer(tx))) throw new Problem('invalid_state', { detail: 'The log is being written' })
    const state = await rows.readLogState(tx)
    if (state === null) throw new Problem('service_unavailable')
    // By another step while this one waited, or at another gateway before.
    const isNamed = state.origin !== before?.origin || (await sequencer.isLeft(tx))
    if (isNamed || sequencer.fork() !== lostNote)
      throw new Problem('invalid_state', { detail: 'The fork is named already, or it is another one now' })
    const origin = nextOrigin(state.origin, lost?.origin ?? state.origin)
    const size = await writeFork(tx, state, { origin, lostNote, witness: null, owner: null }, keys)
    await trail.record(tx, audit, { targetId: origin })
    return { origin, size }
  })
  sequencer.goOn()
  return { ...named, lostSize: lost?.size ?? 0, lostNote }
}

/** A witness, and the note that it has signed last, which a key of this log has signed. */
export interface SeenBy {
  readonly witness: string
  /** The customer whose agent it is; null: it is no agent. */
  readonly owner: string | null
  readonly note: string
  readonly checkpoint: Checkpoint
}

/** Whether this owner's agents have had half of the room that all others leave them: agents cost nothing, and the room is for all owners. */
function hasHadItsPart(forks: readonly ForkRow[], owner: string | null): boolean {
  const own = owner === null ? 0 : forks.filter((row) => row.owner === owner).length
  return 2 * own >= forksMax - (forks.length - own)
}

/**
 * Whether there is nothing to write: one entry is for each witness, whichever process it asks. No honest one shows a second checkpoint of a name, and the
 * room for such entries is for all of them.
 */
const isAnswered = (forks: readonly ForkRow[], { witness, owner, checkpoint }: SeenBy): boolean =>
  hasHadItsPart(forks, owner) ||
  forks.some(
    (row) =>
      isLostBy(checkpoint, row.lostNote) ||
      (row.witness === witness && !isEarlier(originOf(row.lostNote), checkpoint.origin)),
  )

/**
 * A witness has signed a checkpoint of an earlier name, which was lost with the others: an entry more says so, from which the
 * witness can go on. Does nothing where the log has one for it, or no room for its owner's, or where the log in the database is not the one that this gateway
 * knows: no operator has asked for this signature. Nor while another gateway is at its turn: the witness shows it in the next round again.
 */
export async function nameLost(
  { db, keys, sequencer }: Pick<ForkPort, 'db' | 'keys'> & { readonly sequencer: Pick<Sequencer, 'fork' | 'holds'> },
  seen: SeenBy,
): Promise<void> {
  // Where there is nothing to write, the sequencer's lock is left alone.
  if (sequencer.fork() !== null || isAnswered(await readForks(db), seen)) return
  const { note: lostNote, checkpoint, witness, owner } = seen
  await db.transaction(async (tx) => {
    if (!(await rows.lockSequencer(tx))) return
    const state = await rows.readLogState(tx)
    if (isAnswered(await readForks(tx), seen)) return
    if (state === null || !isEarlier(checkpoint.origin, state.origin) || !(await sequencer.holds(tx, state))) return
    await writeFork(tx, state, { origin: state.origin, lostNote, witness, owner }, keys)
  })
}

/** What a witness or a verifier needs that saw the log under an earlier name; null: the log has no entry that fits. */
export interface ShownFork {
  readonly fork: ForkProof
  /** From what was seen; none where it is itself what was lost. */
  readonly consistency: readonly TreeHash[]
}

async function proofOf(
  db: Database,
  { entryIndex: size, origin, lostNote: lost }: ForkRow,
  to: number,
): Promise<ForkProof> {
  const read = readSubtrees(db)
  const [root, proof] = [await rootAt(size, read), await inclusionProof(size, to, read)]
  return { origin, size, root: root.toHex(), lost, proof }
}

/** The forks of the log below its tree of this size, newest first. */
export async function provenForks(db: Database, size: number): Promise<readonly ForkProof[]> {
  const forks = (await readForks(db)).filter(({ entryIndex }) => entryIndex < size)
  const proven: ForkProof[] = []
  for (const row of forks) proven.push(await proofOf(db, row, size))
  return proven
}

export async function forkFor(db: Database, before: Checkpoint, now: Checkpoint): Promise<ShownFork | null> {
  const forks = (await readForks(db)).filter(({ entryIndex }) => entryIndex < now.size)
  const kept = before.size <= now.size && sameHash(await rootThen(db, before.size), before.root)
  const named = forks.find(({ origin }) => origin === now.origin)
  if (kept && named !== undefined) {
    const consistency = await consistencyProof(before.size, now.size, readSubtrees(db))
    return { fork: await proofOf(db, named, now.size), consistency }
  }
  const lost = forks.find(({ lostNote }) => isLostBy(before, lostNote))
  return lost === undefined ? null : { fork: await proofOf(db, lost, now.size), consistency: [] }
}
