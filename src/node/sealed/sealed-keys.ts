import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { PrivateFileError, type PrivateFolder } from '../../host/private-files.ts'
import { newKeyPair } from '../../protocol/sealed/hpke.ts'
import { type OpenedBody, openBody } from '../../protocol/sealed/hpke-opening.ts'
import { keyConfigOf } from '../../protocol/sealed/key-config.ts'
import { sealedKeyId, sealedKeyMessage } from '../../protocol/sealed/sealed-key.ts'
import { fromBase64url, toBase64url } from '../../protocol/signing/base64url.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'
import { freshSeconds } from '../../protocol/signing/signatures.ts'
import { type SealedKey, sealedKeysMax } from '../../protocol/wire/nodes/sealed-key.ts'
import { dayMs, isoTime, secondMs } from '../../time.ts'

export const sealedKeysFile = 'sealed-keys.json'

export interface SealedKeyTimes {
  /** The time until a new key replaces the old one, ms. */
  readonly rotateMs: number
  /** How long the old key still opens requests after that, ms. */
  readonly overlapMs: number
}
export const sealedKeyTimes: SealedKeyTimes = { rotateMs: 90 * dayMs, overlapMs: 7 * dayMs }

const StoredKeys = Type.Object({
  keys: Type.Array(
    Type.Object({
      public_key: Type.String(),
      /** 32 bytes in base64url; deleted when the key ends, so that old requests cannot be opened afterwards. */
      secret_key: Type.Union([Type.String(), Type.Null()]),
      not_before_ms: Type.Integer(),
      rotate_at_ms: Type.Integer(),
      not_after_ms: Type.Integer(),
    }),
  ),
})
type StoredKey = Static<typeof StoredKeys>['keys'][number]

export interface OpenedRequest extends OpenedBody {
  readonly keyId: string
}

/** The HPKE keys to which sealed inference is sealed (§38), never the transport keys of private jobs. */
export interface SealedKeys {
  /** As the gateway publishes them, newest first, each signed by the identity. */
  published(): readonly SealedKey[]
  /** EHBP names no key: the ones that have not ended are tried, newest first. null: none of them opens it. */
  open(enc: Uint8Array, frames: readonly Uint8Array[]): Promise<OpenedRequest | null>
  /** Makes the first key, and each next one when it is due. */
  rotate(): Promise<void>
}

export interface SealedKeysOptions {
  readonly folder: PrivateFolder
  readonly identity: SigningKey
  readonly times?: SealedKeyTimes
  /** Unix ms. The default is the computer's clock. */
  readonly now?: () => number
}

/** Resolves when there is a key. Rejects with `PrivateFileError`. */
export async function loadSealedKeys(options: SealedKeysOptions): Promise<SealedKeys> {
  const keys = new StoredSealedKeys(options)
  await keys.rotate()
  return keys
}

class StoredSealedKeys implements SealedKeys {
  private keys: readonly StoredKey[]
  private rotating: Promise<void> | null = null

  constructor(private readonly options: SealedKeysOptions) {
    const stored = options.folder.read(sealedKeysFile)
    if (stored !== undefined && !Value.Check(StoredKeys, stored)) {
      throw new PrivateFileError(`${options.folder.path}/${sealedKeysFile} is damaged`)
    }
    this.keys = stored?.keys ?? []
  }

  private nowMs(): number {
    return (this.options.now ?? Date.now)()
  }

  published(): readonly SealedKey[] {
    // A key that is due is made meanwhile, and published the next time.
    if (this.isDue()) void this.rotate().catch(() => {})
    return this.keys.map((key) => this.signed(key))
  }

  async open(enc: Uint8Array, frames: readonly Uint8Array[]): Promise<OpenedRequest | null> {
    await this.rotate()
    for (const { public_key: publicText, secret_key: secretText } of this.keys) {
      const secret = secretText === null ? null : fromBase64url(secretText, 32)
      const publicKey = fromBase64url(publicText, 32)
      if (secret === null || publicKey === null) continue
      const opened = await openBody(secret, enc, frames)
      if (opened !== null) return { ...opened, keyId: sealedKeyId(publicKey) }
    }
    return null
  }

  rotate(): Promise<void> {
    if (!this.isDue()) return Promise.resolve()
    this.rotating ??= this.renew().finally(() => {
      this.rotating = null
    })
    return this.rotating
  }

  private isDue(): boolean {
    const nowMs = this.nowMs()
    const isOver = (key: StoredKey) => nowMs >= key.not_after_ms && key.secret_key !== null
    return !this.keys.some((key) => nowMs < key.rotate_at_ms) || this.keys.some(isOver)
  }

  private async renew(): Promise<void> {
    const nowMs = this.nowMs()
    const { times = sealedKeyTimes, folder } = this.options
    const kept = this.keys.map((key) => (nowMs < key.not_after_ms ? key : { ...key, secret_key: null }))
    const fresh = kept.some((key) => nowMs < key.rotate_at_ms) ? [] : [await newKey(nowMs, times)]
    const keys = [...fresh, ...kept].slice(0, sealedKeysMax)
    folder.write(sealedKeysFile, { keys })
    this.keys = keys
  }

  private signed(key: StoredKey): SealedKey {
    const nowMs = this.nowMs()
    const publicKey = fromBase64url(key.public_key, 32) ?? new Uint8Array(32)
    const unsigned = {
      kind: 'ehbp',
      key_id: sealedKeyId(publicKey),
      key_config: toBase64url(keyConfigOf(publicKey)),
      not_before: isoTime(key.not_before_ms),
      not_after: isoTime(key.not_after_ms),
      state: nowMs >= key.not_after_ms ? 'revoked' : nowMs >= key.rotate_at_ms ? 'retiring' : 'active',
    } as const
    return { ...unsigned, signature_ed25519: this.options.identity.sign(sealedKeyMessage(unsigned)) }
  }
}

async function newKey(nowMs: number, { rotateMs, overlapMs }: SealedKeyTimes): Promise<StoredKey> {
  const { publicKey, secretKey } = await newKeyPair()
  return {
    public_key: toBase64url(publicKey),
    secret_key: toBase64url(secretKey),
    // A client with a slow clock may take the key at once, within the tolerance of signatures.
    not_before_ms: nowMs - freshSeconds * secondMs,
    rotate_at_ms: nowMs + rotateMs,
    not_after_ms: nowMs + rotateMs + overlapMs,
  }
}
