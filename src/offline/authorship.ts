import { BackupError } from '../db/backup/backup-text.ts'
import { type NoteKey, noteKeyText } from '../protocol/log/note.ts'
import { fromBase64url } from '../protocol/signing/base64url.ts'
import type { SigningKey } from '../protocol/signing/ed25519.ts'
import type { Seal } from './backup-seal.ts'

/** Whom a restore believes. */
export interface Believed {
  /** Public keys of logs that the operator has named; none: `own` counts. */
  readonly given: readonly Uint8Array[]
  /** The log's keys of the gateway whose data is here. */
  readonly own: readonly SigningKey[]
  /** Restores also what no key known here has signed. */
  readonly unverified: boolean
}

/** `verified`: by a key that does not come from the file. */
export interface Author {
  readonly verified: boolean
  /** The key that signed, as `/v1/public/log/keys` names it; null: the backup carries no signature. */
  readonly key: string | null
}

const publicKeyBytes = 32
const sameKey = (a: Uint8Array, b: Uint8Array) => Buffer.from(a).equals(b)

const noSignature =
  'The backup carries no signature, so nothing shows who wrote it, or whether it was changed. If you trust the file, restore it with --unverified.'
const noKey = (key: NoteKey) =>
  `The backup is signed by ${noteKeyText(key)}, and no key is known here to compare that with: somebody who changed the file could have signed it with a key of their own. Name the key that you kept, or the gateway that made the backup, with --log-key. If you trust the file, restore it with --unverified.`
const otherKey = (key: NoteKey) =>
  `The backup is signed by ${noteKeyText(key)}, which is not the log key that is known here. If it is the key of the gateway that made the backup, name it with --log-key.`

/** Whether somebody known here has signed. Throws `BackupError` unless that is so, or need not be. */
export function authorOf(seal: Seal | null, { given, own, unverified }: Believed): Author {
  const known =
    given.length > 0 ? given : own.flatMap(({ publicKey }) => fromBase64url(publicKey, publicKeyBytes) ?? [])
  const [first] = seal?.keys ?? []
  const signer = seal?.keys.find(({ publicKey }) => known.some((one) => sameKey(one, publicKey)))
  if (signer !== undefined) return { verified: true, key: noteKeyText(signer) }
  if (unverified) return { verified: false, key: first === undefined ? null : noteKeyText(first) }
  if (first === undefined) throw new BackupError(noSignature)
  throw new BackupError(known.length === 0 ? noKey(first) : otherKey(first))
}
