import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { PrivateFileError, type PrivateFolder } from '../../host/private-files.ts'
import { fromBase64url, toBase64url } from '../../protocol/signing/base64url.ts'
import { keyIdOf, type SigningKey } from '../../protocol/signing/ed25519.ts'
import { freshSeconds, transportKeyMessage } from '../../protocol/signing/signatures.ts'
import { type TransportKey, transportKeysMax } from '../../protocol/wire/nodes/agent.ts'
import { dayMs, isoTime } from '../../time.ts'

const transportKeysFile = 'transport-keys.json'

export interface TransportKeyTimes {
  /** The time until a new key replaces the old one, ms. */
  readonly rotateMs: number
  /** How long the old key still opens envelopes after that, ms. */
  readonly overlapMs: number
}
export const transportKeyTimes: TransportKeyTimes = { rotateMs: 90 * dayMs, overlapMs: 7 * dayMs }

const StoredKeys = Type.Object({
  keys: Type.Array(
    Type.Object({
      public_key_x25519: Type.String(),
      /**
       * 32 bytes in base64url. The secret is deleted when the key ends, so that old envelopes cannot be opened
       * afterwards.
       */
      secret_key_x25519: Type.Union([Type.String(), Type.Null()]),
      not_before_ms: Type.Integer(),
      rotate_at_ms: Type.Integer(),
      not_after_ms: Type.Integer(),
    }),
  ),
})
type StoredKey = Static<typeof StoredKeys>['keys'][number]

/** The X25519 keys for sealing private jobs (§10). At most one is active, and the one before it is retiring. */
export interface TransportKeys {
  /**
   * The keys as the gateway publishes them, newest first, each signed by the identity. It rotates the keys when it is
   * time.
   */
  published(): readonly TransportKey[]
  /** 32 bytes, or null for a key that is unknown or expired. */
  secretKey(keyId: string): Uint8Array | null
}

export interface TransportKeysOptions {
  readonly folder: PrivateFolder
  readonly identity: SigningKey
  readonly times?: TransportKeyTimes
  /** Unix ms. The default is the computer's clock. */
  readonly now?: () => number
}

export function loadTransportKeys(options: TransportKeysOptions): TransportKeys {
  return new StoredTransportKeys(options)
}

class StoredTransportKeys implements TransportKeys {
  private keys: readonly StoredKey[]
  private readonly now: () => number

  constructor(private readonly options: TransportKeysOptions) {
    this.now = options.now ?? Date.now
    const stored = options.folder.read(transportKeysFile)
    if (stored !== undefined && !Value.Check(StoredKeys, stored)) {
      throw new PrivateFileError(`${options.folder.path}/${transportKeysFile} is damaged`)
    }
    this.keys = stored?.keys ?? []
    this.rotate()
  }

  published(): readonly TransportKey[] {
    this.rotate()
    return this.keys.map((key) => this.signed(key))
  }

  secretKey(keyId: string): Uint8Array | null {
    this.rotate()
    const key = this.keys.find((candidate) => publicKeyId(candidate) === keyId)
    return key === undefined || key.secret_key_x25519 === null ? null : fromBase64url(key.secret_key_x25519, 32)
  }

  private rotate(): void {
    const nowMs = this.now()
    const { times = transportKeyTimes, folder } = this.options
    const due = !this.keys.some((key) => nowMs < key.rotate_at_ms)
    const over = this.keys.some((key) => nowMs >= key.not_after_ms && key.secret_key_x25519 !== null)
    if (!due && !over) return
    const kept = this.keys.map((key) => (nowMs < key.not_after_ms ? key : { ...key, secret_key_x25519: null }))
    this.keys = [...(due ? [newKey(nowMs, times)] : []), ...kept].slice(0, transportKeysMax)
    folder.write(transportKeysFile, { keys: this.keys })
  }

  private signed(key: StoredKey): TransportKey {
    const nowMs = this.now()
    const state = nowMs >= key.not_after_ms ? 'revoked' : nowMs >= key.rotate_at_ms ? 'retiring' : 'active'
    const unsigned = {
      key_id: publicKeyId(key),
      public_key_x25519: key.public_key_x25519,
      not_before: isoTime(key.not_before_ms),
      not_after: isoTime(key.not_after_ms),
      state,
    } as const
    return { ...unsigned, signature_ed25519: this.options.identity.sign(transportKeyMessage(unsigned)) }
  }
}

const publicKeyId = (key: StoredKey) => keyIdOf(fromBase64url(key.public_key_x25519, 32) ?? new Uint8Array())

function newKey(nowMs: number, { rotateMs, overlapMs }: TransportKeyTimes): StoredKey {
  const { privateKey } = generateKeyPairSync('x25519')
  // The last 32 bytes of either form are the raw key (RFC 8410).
  const raw = (der: Buffer) => toBase64url(new Uint8Array(der.subarray(-32)))
  return {
    public_key_x25519: raw(createPublicKey(privateKey).export({ format: 'der', type: 'spki' })),
    secret_key_x25519: raw(privateKey.export({ format: 'der', type: 'pkcs8' })),
    // A gateway with a slow clock may offer the key at once, within the tolerance of signatures.
    not_before_ms: nowMs - freshSeconds * 1_000,
    rotate_at_ms: nowMs + rotateMs,
    not_after_ms: nowMs + rotateMs + overlapMs,
  }
}
