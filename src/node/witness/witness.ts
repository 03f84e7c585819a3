import { brand } from '../../brand.ts'
import type { Log } from '../../log.ts'
import { type Checkpoint, parseCheckpoint } from '../../protocol/log/checkpoint.ts'
import { type ForkProof, followsFork } from '../../protocol/log/fork-proof.ts'
import { emptyRoot, isConsistent } from '../../protocol/log/merkle-log.ts'
import {
  checkNote,
  type Note,
  type NoteKey,
  noteKeyText,
  parseNote,
  parseNoteKey,
  signatureLine,
} from '../../protocol/log/note.ts'
import { logSigner } from '../../protocol/log/note-signing.ts'
import { lineageOf } from '../../protocol/log/origins.ts'
import { parseWitnessRequest, type WitnessRequest } from '../../protocol/log/witnessing.ts'
import { type SigningKey, verifyEd25519 } from '../../protocol/signing/ed25519.ts'
import { secondMs } from '../../time.ts'
import { knownKeysMax, type WitnessedLog, type WitnessMemory } from './witness-memory.ts'

/** The witness's answer; `seen`: the checkpoint that it signed last, if the log does not continue it. */
export type WitnessAnswer =
  | { readonly kind: 'cosigned'; readonly line: string }
  | { readonly kind: 'behind'; readonly size: number; readonly seen: string | null }
  | { readonly kind: 'inconsistent'; readonly seen: string | null }
  | { readonly kind: 'malformed' }
  | { readonly kind: 'unsigned' }
  | { readonly kind: 'unknown' }

/** Beside the request, as the gateway tells it. */
export interface CosignContext {
  /** The log's keys, as `name+hash+base64`: of those only the ones count that sign beside a known key. */
  readonly keys: readonly string[]
  /** Where the log has another name than before. */
  readonly fork: ForkProof | null
}

/**
 * Signs each checkpoint of the logs that it was given, if it leads on from the one that it signed before, and remembers it
 * for ever. Nothing that a log says of itself makes it one of these (§36).
 */
export interface Witness {
  /** `name+hash+base64`: what verifiers are given. */
  readonly key: string
  cosign(request: string, context: CosignContext): WitnessAnswer
}

export const witnessName = (key: Pick<SigningKey, 'keyId'>) => `${brand}-witness/${key.keyId}`

const witnessSigner = (identity: SigningKey) => logSigner(witnessName(identity), identity)
/** The key of an identity as a witness, `name+hash+base64`. */
export const witnessKeyOf = (identity: SigningKey): string => noteKeyText(witnessSigner(identity).cosigningKey)

const isKey = (key: NoteKey | null): key is NoteKey => key !== null

/** What a witness has that was given a log and has signed nothing of it. */
const nothingOf = (origin: string): Checkpoint => ({ origin, size: 0, root: emptyRoot() })
const checkpointOf = ({ origin, note }: WitnessedLog): Checkpoint =>
  (note === null ? null : parseCheckpoint(parseNote(note)?.text ?? '')) ?? nothingOf(origin)

/** The same key under the log's later name. */
const renamed = (key: NoteKey, name: string): NoteKey => ({ ...key, name })

export function createWitness(options: {
  readonly memory: WitnessMemory
  readonly identity: SigningKey
  readonly log: Log
  readonly now?: () => number
}): Witness {
  const { memory, identity, log, now = Date.now } = options
  const signer = witnessSigner(identity)

  /** The known keys that signed, with those that the gateway names and that signed beside one; null: no known key did. */
  const signers = (note: Note, { keys }: WitnessedLog, origin: string, context: readonly string[]) => {
    const known = keys
      .map(parseNoteKey)
      .filter(isKey)
      .map((key) => renamed(key, origin))
    if ((checkNote(note, known, verifyEd25519)?.length ?? 0) === 0) return null
    const named = context.slice(0, knownKeysMax).map(parseNoteKey).filter(isKey)
    const beside =
      checkNote(
        note,
        named.filter(({ name }) => name === origin),
        verifyEd25519,
      ) ?? []
    return [...new Set([...beside.map(({ key }) => key), ...known].map(noteKeyText))].slice(0, knownKeysMax)
  }

  const leadsOn = (before: Checkpoint, checkpoint: Checkpoint, request: WitnessRequest, fork: ForkProof | null) =>
    checkpoint.origin === before.origin
      ? isConsistent(before, checkpoint, request.proof)
      : fork !== null && followsFork(before, checkpoint, fork, request.proof)

  return {
    key: witnessKeyOf(identity),
    cosign: (text, context) => {
      const request = parseWitnessRequest(text)
      const note = request === null ? null : parseNote(request.note)
      const checkpoint = note === null ? null : parseCheckpoint(note.text)
      if (request === null || note === null || checkpoint === null) return { kind: 'malformed' }
      const known = memory.find(lineageOf(checkpoint.origin))
      if (known === null) return { kind: 'unknown' }
      const keys = signers(note, known, checkpoint.origin, context.keys)
      if (keys === null) return { kind: 'unsigned' }
      const before = checkpointOf(known)
      const sameName = checkpoint.origin === before.origin
      // A fork is to be proven from the checkpoint that this witness signed: the log asks for it with this answer.
      if (request.oldSize !== before.size || (sameName ? checkpoint.size < before.size : context.fork === null)) {
        return { kind: 'behind', size: before.size, seen: known.note }
      }
      if (!leadsOn(before, checkpoint, request, context.fork)) {
        log.error('log_split_view', { size: checkpoint.size, seen: before.size })
        return { kind: 'inconsistent', seen: known.note }
      }
      // Persist before signing: an agent that crashed must not sign another log.
      memory.keep({ origin: checkpoint.origin, keys, note: request.note })
      return { kind: 'cosigned', line: signatureLine(signer.cosign(note.text, Math.floor(now() / secondMs))) }
    },
  }
}
