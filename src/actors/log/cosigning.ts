import { headers } from '../../brand.ts'
import { type Clock, systemClock } from '../../clock.ts'
import type { Database } from '../../db/client.ts'
import * as rows from '../../db/queries/log/log.ts'
import { loop } from '../../host/loop.ts'
import { failureName, type Log } from '../../log.ts'
import { type Checkpoint, parseCheckpoint } from '../../protocol/log/checkpoint.ts'
import { forkHeader } from '../../protocol/log/fork-proof.ts'
import { consistencyProof, isConsistent } from '../../protocol/log/merkle-log.ts'
import {
  checkNote,
  type NoteKey,
  noteKeyText,
  parseNote,
  parseSignatureLine,
  signatureLine,
} from '../../protocol/log/note.ts'
import { isEarlier } from '../../protocol/log/origins.ts'
import { witnessRequestText } from '../../protocol/log/witnessing.ts'
import { decodeBase64 } from '../../protocol/signing/base64.ts'
import { type SigningKey, verifyEd25519 } from '../../protocol/signing/ed25519.ts'
import { forkFor, nameLost, type ShownFork } from './fork.ts'
import { signersOf } from './log-names.ts'
import type { Sequencer } from './sequencer.ts'
import { readSubtrees } from './tree.ts'

/** What a witness answered, whichever way it was asked. */
export interface WitnessReply {
  readonly status: number
  readonly text: string
  /** Base64 of the checkpoint that it signed before; null where it does not say. */
  readonly seen: string | null
}

export interface AskedWitness {
  readonly key: NoteKey
  /** The customer whose agent it is; absent: one of SVC_LOG_WITNESSES. */
  readonly owner?: string
  /** null: not reached. Never rejects for what can be expected. */
  ask(body: string, extra: Readonly<Record<string, string>>, signal: AbortSignal): Promise<WitnessReply | null>
}

export interface CosigningOptions {
  readonly db: Database
  readonly log: Log
  readonly keys: readonly SigningKey[]
  readonly sequencer: Pick<Sequencer, 'exposed' | 'fork' | 'holds'>
  /** Those that can be reached now. */
  readonly witnesses: () => Promise<readonly AskedWitness[]>
  /** SVC_LOG_COSIGN_MS. */
  readonly everyMs: number
  readonly clock?: Clock
}

/** Has witnesses sign the newest checkpoint, beside everything else (C2SP `tlog-witness`). */
export interface Cosigning {
  start(): void
  stop(): Promise<void>
  /** One round; resolves with how many signed. */
  round(): Promise<number>
}

/** A checkpoint that a key of this log has signed. */
interface Seen {
  readonly note: string
  readonly checkpoint: Checkpoint
}

const witnessesAtOnce = 8
/** Of those so many begin with witnesses that have not signed soon when they were asked last: however many others there are, each has its turn. */
const otherWitnessesAtOnce = 2
/** A witness has signed soon that took no longer for it, ms. */
const soonMs = 2_000
/** Witnesses that one round asks, and that are listed. */
export const witnessesMax = 256
const answerMs = 10_000
/** So late in a round no witness is asked any more, ms: the next round has a newer checkpoint. */
const askingMsMax = 10_000
/** Witnesses of which something is remembered: of more, all is forgotten. */
const rememberedMax = 100_000

/** What is remembered of a witness. */
interface Remembered {
  /** What it has signed last; a wrong one is put right by its answer. */
  size: number
  /** It signed within `soonMs` when it was asked last. */
  signsSoon: boolean
  /** `clock.now()` when it was asked last. */
  askedMs: number
}
const unknown: Readonly<Remembered> = { size: 0, signsSoon: false, askedMs: -1 }

interface Due {
  readonly witness: AskedWitness
  readonly known: Remembered
}

/**
 * Takes the next witness of a round; with `others` one that did not sign soon, where there is one. Those that sign soon come first, since one that does not
 * answer must not keep them from a checkpoint that is still the newest. Of both kinds those come first that were asked longest ago.
 */
function turnsOf(due: readonly Due[]) {
  const inTurn = due.toSorted((a, b) => a.known.askedMs - b.known.askedMs)
  const { soon = [], later = [] } = Object.groupBy(inTurn, ({ known }) => (known.signsSoon ? 'soon' : 'later'))
  let left = witnessesMax
  return (others: boolean): Due | undefined => {
    if (left-- <= 0) return undefined
    return others ? (later.shift() ?? soon.shift()) : (soon.shift() ?? later.shift())
  }
}

export function createCosigning(options: CosigningOptions): Cosigning {
  const { db, log, keys, sequencer, witnesses, everyMs, clock = systemClock } = options
  /** By the witness's key. */
  const remembered = new Map<string, Remembered>()
  const stopping = new AbortController()

  const of = ({ key }: AskedWitness): Remembered => {
    const name = noteKeyText(key)
    const known = remembered.get(name) ?? { ...unknown }
    if (remembered.size >= rememberedMax && !remembered.has(name)) remembered.clear()
    remembered.set(name, known)
    return known
  }

  /** The checkpoint that a witness shows, if a key of this log has signed it. */
  const ownSeen = (seen: string | null): Seen | null => {
    const bytes = seen === null ? null : decodeBase64(seen)
    const text = bytes === null ? '' : new TextDecoder().decode(bytes)
    const note = parseNote(text)
    const checkpoint = note === null ? null : parseCheckpoint(note.text)
    if (note === null || checkpoint === null) return null
    const own = signersOf(checkpoint.origin, keys).map(({ key }) => key)
    return (checkNote(note, own, verifyEd25519)?.length ?? 0) === 0 ? null : { note: text, checkpoint }
  }

  /**
   * The checkpoint in the answer is ours, and this log may not lead on from it. The log as it stands after the answer:
   * another process may have gone on, and may have had that signed, since the question.
   */
  const lookAt = async (seen: Seen | null) => {
    const now = await rows.readLogState(db)
    if (seen === null || now === null) return
    const { note, checkpoint: before } = seen
    if (isEarlier(now.origin, before.origin)) return sequencer.exposed(note)
    if (before.origin !== now.origin) return
    const proof = before.size <= now.size ? await consistencyProof(before.size, now.size, readSubtrees(db)) : []
    if (before.size > now.size || !isConsistent(before, now, proof)) sequencer.exposed(note)
  }

  const askOnce = async (
    witness: AskedWitness,
    { size, note, origin }: rows.CheckpointRow,
    oldSize: number,
    shown: ShownFork | null = null,
  ) => {
    const grown = async () => (oldSize > size ? [] : consistencyProof(oldSize, size, readSubtrees(db)))
    const proof = shown === null ? await grown() : shown.consistency
    const logKeys = signersOf(origin, keys).map(({ key }) => noteKeyText(key))
    const signal = AbortSignal.any([stopping.signal, AbortSignal.timeout(answerMs)])
    const extra = {
      [headers.logKeys]: logKeys.join(' '),
      ...(shown === null ? {} : { [headers.logFork]: forkHeader(shown.fork) }),
    }
    return witness.ask(witnessRequestText({ oldSize, proof, note }), extra, signal)
  }

  /** Once more, as the witness's first answer needs it; null: nothing can be said that it would sign. */
  const askAgain = async (witness: AskedWitness, checkpoint: rows.CheckpointRow, size: number, seen: Seen | null) => {
    const now = parseCheckpoint(parseNote(checkpoint.note)?.text ?? '')
    if (seen !== null && now !== null && isEarlier(seen.checkpoint.origin, now.origin)) {
      const shown = await forkFor(db, seen.checkpoint, now)
      if (shown === null)
        await nameLost({ db, keys, sequencer }, { ...seen, witness: witness.key.name, owner: witness.owner ?? null })
      return shown === null ? null : askOnce(witness, checkpoint, size, shown)
    }
    // It has signed a later name: this log was put back, however far it has grown since.
    const isPutBack = seen !== null && now !== null && isEarlier(now.origin, seen.checkpoint.origin)
    if (size <= checkpoint.size && !isPutBack) return askOnce(witness, checkpoint, size)
    await lookAt(seen)
    return null
  }

  const cosignedBy = async (
    witness: AskedWitness,
    known: Remembered,
    checkpoint: rows.CheckpointRow,
  ): Promise<boolean> => {
    let reply = await askOnce(witness, checkpoint, known.size)
    if (reply?.status === 409) {
      const size = Number(reply.text.trim())
      if (!Number.isSafeInteger(size) || size < 0) return false
      known.size = size
      reply = await askAgain(witness, checkpoint, size, ownSeen(reply.seen))
    }
    if (reply?.status === 422) await lookAt(ownSeen(reply.seen))
    if (reply?.status !== 200) return false
    const text = parseNote(checkpoint.note)?.text ?? ''
    const signatures = reply.text.split('\n').map(parseSignatureLine)
    for (const signature of signatures) {
      if (signature === null || signature.name !== witness.key.name) continue
      if ((checkNote({ text, signatures: [signature] }, [witness.key], verifyEd25519)?.length ?? 0) === 0) continue
      known.size = checkpoint.size
      await rows.saveCosignatures(db, checkpoint, [{ witness: witness.key.name, line: signatureLine(signature) }])
      return true
    }
    return false
  }

  const round = async (): Promise<number> => {
    const checkpoint = await rows.newestCheckpoint(db)
    if (checkpoint === null) return 0
    const due = (await witnesses())
      .map((witness) => ({ witness, known: of(witness) }))
      .filter(({ known }) => known.size !== checkpoint.size)
    const take = turnsOf(due)
    const untilMs = clock.now() + askingMsMax
    let signed = 0
    const worker = async (others: boolean) => {
      for (let next = take(others); next !== undefined && clock.now() < untilMs; next = take(others)) {
        const { witness, known } = next
        known.askedMs = clock.now()
        const has = await cosignedBy(witness, known, checkpoint)
        known.signsSoon = has && clock.now() - known.askedMs <= soonMs
        if (has) signed++
      }
    }
    await Promise.all(Array.from({ length: witnessesAtOnce }, (_, at) => worker(at < otherWitnessesAtOnce)))
    return signed
  }

  const rounds = loop({
    pauseMs: everyMs,
    run: round,
    onFailure: (error) => log.warn('log_not_cosigned', { failure: failureName(error) }),
    clock,
  })
  return {
    start: () => rounds.start(),
    stop: () => {
      stopping.abort()
      return rounds.stop()
    },
    round,
  }
}
