import type { Database } from '../../db/client.ts'
import * as rows from '../../db/queries/log/log.ts'
import { Problem } from '../../errors.ts'
import { checkpointText, parseCheckpoint } from '../../protocol/log/checkpoint.ts'
import { forkHash } from '../../protocol/log/entry-facts.ts'
import { logLeaf } from '../../protocol/log/log-entry.ts'
import { parseNote } from '../../protocol/log/note.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'
import type { AuditContext, AuditTrail } from '../audit/audit-context.ts'
import { nextOrigin, signedNote } from './log-names.ts'
import type { Sequencer } from './sequencer.ts'
import { appendLeaves } from './tree.ts'

export interface ForkPort {
  readonly db: Database
  readonly trail: AuditTrail
  readonly keys: readonly SigningKey[]
  readonly sequencer: Pick<Sequencer, 'fork' | 'forget'>
}

export interface NamedFork {
  readonly origin: string
  readonly size: number
  /** What the log before had, and this one has not; null: fewer entries than here. */
  readonly lostSize: number
  readonly lostNote: string
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
  const named = await db.transaction(async (tx) => {
    if (!(await rows.lockSequencer(tx))) throw new Problem('invalid_state', { detail: 'The log is being written' })
    const state = await rows.readLogState(tx)
    if (state === null) throw new Problem('service_unavailable')
    const origin = nextOrigin(state.origin, lost?.origin ?? state.origin)
    const hash = forkHash({ origin, size: state.size, root: state.root.toString('hex'), lostNote })
    const entry = { kind: 'fork', hash, subject: origin, entryIndex: state.size } as const
    await rows.insertLogEntries(tx, [entry])
    const root = await appendLeaves(tx, state.size, [logLeaf(entry)])
    const size = state.size + 1
    await rows.saveLogState(tx, { ...state, origin, size, root: Buffer.from(root) })
    await rows.saveCheckpoint(tx, origin, size, signedNote(checkpointText({ origin, size, root }), origin, keys))
    await trail.record(tx, audit, { targetId: origin })
    return { origin, size }
  })
  sequencer.forget()
  return { ...named, lostSize: lost?.size ?? 0, lostNote }
}
