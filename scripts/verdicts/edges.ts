import { ed25519 } from '@noble/curves/ed25519.js'
import { sha512 } from '@noble/hashes/sha2.js'
import { concatBytes, utf8ToBytes } from '@noble/hashes/utils.js'

/**
 * Signatures at the edges of Ed25519 (RFC 8032), on which verifiers differ: points with a part of small order, encodings that
 * are not the only one, S beyond the order. Made by what the group is, not by asking a verifier.
 */
export interface Edge {
  readonly name: string
  /** Hex, all three. */
  readonly public_key: string
  readonly message: string
  readonly signature: string
  /** By the rule of this program: no cofactor, no key of small order, no key of two encodings. */
  readonly valid: boolean
  /** By libraries that check neither (Go's `crypto/ed25519`, Python's `cryptography`). */
  readonly plain: boolean
}

const { Point } = ed25519
type AnyPoint = InstanceType<typeof Point>
export const ed25519Order = Point.Fn.ORDER
const prime = Point.Fp.ORDER
const keyBytes = 32
const eight = 8n

const littleEndian = (value: bigint) => {
  const bytes = new Uint8Array(keyBytes)
  for (let at = 0, rest = value; at < keyBytes; at++, rest >>= 8n) bytes[at] = Number(rest & 255n)
  return bytes
}
const numberOf = (bytes: Uint8Array) => bytes.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n)

/** A point of order 8. */
const torsion = Point.fromBytes(Uint8Array.fromHex('c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a'))
const small = (at: bigint): AnyPoint => (at % eight === 0n ? Point.ZERO : torsion.multiplyUnsafe(at % eight))

/** Fixed scalars: nothing here is secret. */
const secret = 0x1234567890abcdef1234567890abcdefn
const nonce = 0xfedcba0987654321fedcba0987654321n

interface Wanted {
  readonly name: string
  /** The key is `key`·B and so many times the point of order 8; R likewise with `nonce`. */
  readonly key?: bigint
  readonly keyTorsion?: bigint
  readonly nonce?: bigint
  /** null: the one with which the equation holds without the cofactor. */
  readonly nonceTorsion?: bigint | null
  /** In place of the points' own encodings. */
  readonly keyBytes?: Uint8Array
  readonly nonceBytes?: Uint8Array
  /** Whether S·B = R + k·A without the cofactor; the message is sought for it. Absent: by itself. */
  readonly holds?: boolean
  readonly valid: boolean
  readonly plain: boolean
}

function edge(wanted: Wanted): Edge {
  const { key = secret, keyTorsion = 0n, nonce: r = nonce, nonceTorsion = 0n } = wanted
  const base = (scalar: bigint) => Point.BASE.multiplyUnsafe(scalar)
  const publicKey = wanted.keyBytes ?? base(key).add(small(keyTorsion)).toBytes()
  for (let turn = 0; turn < 1_000; turn++) {
    const message = utf8ToBytes(`${wanted.name}, turn ${turn}`)
    for (const torsionOfR of nonceTorsion === null ? [0n, 1n, 2n, 3n, 4n, 5n, 6n, 7n] : [nonceTorsion]) {
      const commitment = wanted.nonceBytes ?? base(r).add(small(torsionOfR)).toBytes()
      const challenge = numberOf(sha512(concatBytes(commitment, publicKey, message))) % ed25519Order
      const holds = (torsionOfR + challenge * keyTorsion) % eight === 0n
      if (holds !== (wanted.holds ?? holds) || (nonceTorsion === null && !holds)) continue
      const response = littleEndian((r + challenge * key) % ed25519Order)
      return written(wanted, publicKey, message, concatBytes(commitment, response))
    }
  }
  throw new Error(`no message was found for ${wanted.name}`)
}

const written = (wanted: Wanted, publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): Edge => ({
  name: wanted.name,
  public_key: publicKey.toHex(),
  message: message.toHex(),
  signature: signature.toHex(),
  valid: wanted.valid,
  plain: wanted.plain,
})

/** The y of a point, with a sign that is not the point's own where x is 0. */
const encoded = (y: bigint, sign: boolean) => littleEndian(y | (sign ? 1n << 255n : 0n))

/** Keys of small order in encodings that are not their only ones, with which multiple of the point of order 8 they are. */
const otherEncodings: readonly (readonly [string, Uint8Array, bigint])[] = [
  ['y = p + 1, the neutral element', encoded(prime + 1n, false), 0n],
  ['y = p + 1 with a sign', encoded(prime + 1n, true), 0n],
  ['y = 1 with a sign', encoded(1n, true), 0n],
  ['y = p − 1 with a sign', encoded(prime - 1n, true), 4n],
  ['y = p, of order 4', encoded(prime, false), torsionAt(encoded(0n, false))],
  ['y = p with a sign, of order 4', encoded(prime, true), torsionAt(encoded(0n, true))],
]

function torsionAt(bytes: Uint8Array): bigint {
  const at = [0n, 1n, 2n, 3n, 4n, 5n, 6n, 7n].find((one) => small(one).toBytes().toHex() === bytes.toHex())
  if (at === undefined) throw new Error('no point of small order')
  return at
}

/** With what comes after a good signature is made. */
function changed(name: string, change: (signature: Uint8Array, publicKey: Uint8Array) => void, plain = false): Edge {
  const good = edge({ name, valid: false, plain })
  const [signature, publicKey] = [Uint8Array.fromHex(good.signature), Uint8Array.fromHex(good.public_key)]
  change(signature, publicKey)
  return { ...good, signature: signature.toHex(), public_key: publicKey.toHex() }
}

export function edges(): readonly Edge[] {
  const both = (holds: boolean) => ({ valid: holds, plain: holds })
  return [
    edge({ name: 'a plain signature', ...both(true) }),
    edge({ name: 'R is the neutral element', nonce: 0n, ...both(true) }),
    edge({
      name: 'R is the neutral element with y = p + 1',
      nonce: 0n,
      nonceBytes: encoded(prime + 1n, false),
      ...both(false),
    }),
    edge({ name: 'R is the neutral element with a sign', nonce: 0n, nonceBytes: encoded(1n, true), ...both(false) }),
    edge({
      name: 'R is of order 8: holds with the cofactor alone',
      nonce: 0n,
      nonceTorsion: 1n,
      holds: false,
      ...both(false),
    }),
    edge({
      name: 'R has a part of order 8: holds with the cofactor alone',
      nonceTorsion: 3n,
      holds: false,
      ...both(false),
    }),
    edge({
      name: 'R has a part of order 2: holds with the cofactor alone',
      nonceTorsion: 4n,
      holds: false,
      ...both(false),
    }),
    edge({
      name: 'the key has a part of order 8, and k is a multiple of 8',
      keyTorsion: 1n,
      holds: true,
      ...both(true),
    }),
    edge({
      name: 'the key has a part of order 8: holds with the cofactor alone',
      keyTorsion: 1n,
      holds: false,
      ...both(false),
    }),
    edge({ name: 'the key has a part of order 2, and k is even', keyTorsion: 4n, holds: true, ...both(true) }),
    edge({
      name: 'the key has a part of order 2: holds with the cofactor alone',
      keyTorsion: 4n,
      holds: false,
      ...both(false),
    }),
    edge({ name: 'the key and R have parts that cancel', keyTorsion: 5n, nonceTorsion: null, ...both(true) }),
    edge({
      name: 'the key and R have parts that do not cancel',
      keyTorsion: 5n,
      nonceTorsion: 2n,
      holds: false,
      ...both(false),
    }),
    ...[0n, 1n, 2n, 3n, 4n, 5n, 6n, 7n].map((at) =>
      edge({
        name: `the key is of small order: ${at} times the point of order 8`,
        key: 0n,
        keyTorsion: at,
        nonce: 0n,
        nonceTorsion: null,
        valid: false,
        plain: true,
      }),
    ),
    edge({
      name: 'the key is of small order, and R is not',
      key: 0n,
      keyTorsion: 2n,
      holds: true,
      valid: false,
      plain: true,
    }),
    ...otherEncodings.map(([name, bytes, at]) =>
      edge({
        name: `the key in another encoding: ${name}`,
        key: 0n,
        keyTorsion: at,
        keyBytes: bytes,
        nonceTorsion: null,
        valid: false,
        plain: true,
      }),
    ),
    changed('S with the order added', (signature) => {
      signature.set(littleEndian(numberOf(signature.subarray(keyBytes)) + ed25519Order), keyBytes)
    }),
    changed('S with its highest bit', (signature) => {
      signature[63] = (signature[63] ?? 0) | 0x80
    }),
    changed('S is the order', (signature) => signature.set(littleEndian(ed25519Order), keyBytes)),
    changed('S is 0', (signature) => signature.fill(0, keyBytes)),
    changed('R is no point', (signature) => signature.fill(0, 0, keyBytes).set([2], 0)),
    changed('the signature is zeros', (signature) => signature.fill(0)),
    changed('the key is no point', (_, publicKey) => publicKey.fill(0).set([2], 0)),
    changed('another sign of the key', (_, publicKey) => {
      publicKey[31] = (publicKey[31] ?? 0) ^ 0x80
    }),
    changed('another sign of R', (signature) => {
      signature[31] = (signature[31] ?? 0) ^ 0x80
    }),
  ]
}
