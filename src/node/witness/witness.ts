import { brand } from '../../brand.ts'
import type { PrivateFolder } from '../../host/private-files.ts'
import type { Log } from '../../log.ts'
import { type Checkpoint, parseCheckpoint } from '../../protocol/log/checkpoint.ts'
import { emptyRoot, isConsistent } from '../../protocol/log/merkle-log.ts'
import {
  checkNote,
  type NoteKey,
  noteKeyText,
  parseNote,
  parseNoteKey,
  signatureLine,
} from '../../protocol/log/note.ts'
import { logSigner } from '../../protocol/log/note-signing.ts'
import { parseWitnessRequest } from '../../protocol/log/witnessing.ts'
import { type SigningKey, verifyEd25519 } from '../../protocol/signing/ed25519.ts'
import { secondMs } from '../../time.ts'

/** The witness's answer; `seen`: the checkpoint that it signed last, if the log does not continue it. */
export type WitnessAnswer =
  | { readonly kind: 'cosigned'; readonly line: string }
  | { readonly kind: 'behind'; readonly size: number; readonly seen: string | null }
  | { readonly kind: 'inconsistent'; readonly seen: string | null }
  | { readonly kind: 'malformed' }
  | { readonly kind: 'unsigned' }

/** Signs each checkpoint of its gateway's log that leads on from the one it signed before, and remembers it. */
export interface Witness {
  /** `keys`: of the log, as the gateway names them; believed for a log that was never seen, else only beside a known one. */
  cosign(request: string, keys: readonly string[]): WitnessAnswer
}

const file = 'witness.json'
const logsMax = 16
const keysMax = 8

interface Known {
  readonly note: string
  readonly keys: readonly string[]
}
type Content = Readonly<Record<string, Known>>

export const witnessName = (key: Pick<SigningKey, 'keyId'>) => `${brand}-witness/${key.keyId}`

export function createWitness(options: {
  readonly folder: PrivateFolder
  readonly identity: SigningKey
  readonly log: Log
  readonly now?: () => number
}): Witness {
  const { folder, identity, log, now = Date.now } = options
  const signer = logSigner(witnessName(identity), identity)
  let content = (folder.read(file) ?? {}) as Content

  const keep = (checkpoint: Checkpoint, known: Known) => {
    const { [checkpoint.origin]: _, ...others } = content
    const kept = Object.entries(others).slice(-(logsMax - 1))
    content = { ...Object.fromEntries(kept), [checkpoint.origin]: known }
    // Persist before signing: an agent that crashed must not sign another log.
    folder.write(file, content)
  }

  return {
    cosign: (text, told) => {
      const request = parseWitnessRequest(text)
      const note = request === null ? null : parseNote(request.note)
      const checkpoint = note === null ? null : parseCheckpoint(note.text)
      if (request === null || note === null || checkpoint === null) return { kind: 'malformed' }
      const known = content[checkpoint.origin]
      const named = told.slice(0, keysMax).map(parseNoteKey)
      const offered = named.filter((key): key is NoteKey => key !== null && key.name === checkpoint.origin)
      const pinned = known === undefined ? offered : known.keys.map(parseNoteKey).filter((key) => key !== null)
      const signed = checkNote(note, pinned, verifyEd25519)
      if (signed === null || signed.length === 0) return { kind: 'unsigned' }
      const seen = known === undefined ? null : parseCheckpoint(parseNote(known.note)?.text ?? '')
      const before = seen ?? { size: 0, root: emptyRoot() }
      if (request.oldSize !== before.size || checkpoint.size < before.size) {
        return { kind: 'behind', size: before.size, seen: known?.note ?? null }
      }
      if (!isConsistent(before, checkpoint, request.proof)) {
        log.error('log_split_view', { size: checkpoint.size, seen: before.size })
        return { kind: 'inconsistent', seen: known?.note ?? null }
      }
      keep(checkpoint, {
        note: request.note,
        keys: [...new Set([...offered, ...pinned].map(noteKeyText))].slice(0, keysMax),
      })
      return { kind: 'cosigned', line: signatureLine(signer.cosign(note.text, Math.floor(now() / secondMs))) }
    },
  }
}
