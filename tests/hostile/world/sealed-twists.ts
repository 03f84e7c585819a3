import fc from 'fast-check'
import { headers } from '../../../src/brand.ts'
import { encapsulatedKeyHeader } from '../../../src/protocol/sealed/ehbp.ts'
import { framed } from '../../../src/protocol/sealed/frames.ts'
import { sealBody } from '../../../src/protocol/sealed/hpke.ts'
import { type Kinds, twistOf, twistsOf } from './twists.ts'

/** One thing that is wrong with a sealed request. `§` in a text stands for its marker. */
export type SealedTwist =
  | { readonly kind: 'sealed: frame length'; readonly length: number; readonly last: boolean }
  | { readonly kind: 'sealed: empty frames'; readonly count: number; readonly before: boolean }
  | { readonly kind: 'sealed: many frames'; readonly pieces: number }
  | { readonly kind: 'sealed: cut'; readonly keepPermille: number }
  | { readonly kind: 'sealed: changed'; readonly atPermille: number; readonly bit: number }
  | { readonly kind: 'sealed: key'; readonly text: string }
  | { readonly kind: 'sealed: repeated'; readonly times: number }
  | { readonly kind: 'sealed: header twice'; readonly name: string }
  | { readonly kind: 'sealed: no header'; readonly name: string }
  | { readonly kind: 'sealed: header'; readonly line: string }
  | { readonly kind: 'sealed: inside'; readonly text: string }
  | { readonly kind: 'sealed: path'; readonly path: string }
  | { readonly kind: 'sealed: unfinished'; readonly keepPermille: number; readonly halfClose: boolean }
  | { readonly kind: 'sealed: slow'; readonly atPermille: readonly number[]; readonly pauseMs: number }

/** Points of Curve25519 whose order is low, with which every shared secret is zero (RFC 7748 §6.1), and texts that are no point. */
const points = [
  '00'.repeat(32),
  `01${'00'.repeat(31)}`,
  'e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800',
  '5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157',
  `ec${'ff'.repeat(30)}7f`,
  `ed${'ff'.repeat(30)}7f`,
  `ee${'ff'.repeat(30)}7f`,
  `ed${'ff'.repeat(31)}`,
  'ff'.repeat(32),
  '',
  'AB'.repeat(32),
  'ab'.repeat(31),
  'ab'.repeat(4_000),
  '§',
  `${'ab'.repeat(32)}, ${'cd'.repeat(32)}`,
]

/** Bodies that open, and are no request, or another one. */
const bodies = [
  '',
  '§',
  '{"model":',
  '[]',
  'null',
  '{"model":"another","messages":[{"role":"user","content":"§"}]}',
  '{"messages":[{"role":"user","content":"§"}]}',
  '{"model":3,"messages":"§"}',
  `${'['.repeat(5_000)}"§"${']'.repeat(5_000)}`,
  `{"model":"§","x":${'{"a":'.repeat(90)}1${'}'.repeat(90)}}`,
  `"§${' '.repeat(300_000)}"`,
  '\xff\xfe\0§',
]

const lines = [
  `${headers.sealedModel}: §`,
  `${headers.maxTokens}: 0`,
  `${headers.maxTokens}: 1e9`,
  `${headers.maxTokens}: 3`,
  `${headers.session}: §`,
  `${headers.session}: \xff`,
  'Ehbp-Response-Nonce: 00',
  'Content-Type: application/json',
  'Content-Type: multipart/form-data; boundary=x',
  'Content-Encoding: gzip',
  'Idempotency-Key: §',
  'X-SVC-Node-Class: §',
  'X-SVC-Router-Signature: §',
]

const paths = [
  '/v1/sealed/nodes/§/chat/completions',
  '/v1/sealed/nodes/node_00000000000000000000000000/chat/completions',
  '/v1/sealed/nodes/NODE/embeddings',
  '/v1/sealed/nodes/NODE/messages',
  '/v1/sealed/nodes/NODE/responses',
  '/v1/sealed/nodes/NODE/audio/speech',
  '/v1/sealed/nodes/NODE/',
  '/v1/sealed/nodes/NODE/%2e%2e/chat/completions',
  '/v1/chat/completions',
]
const names = [encapsulatedKeyHeader, headers.sealedModel]
const permille = fc.nat(999)
const lengths = [0xff_ff_ff_ff, 0x80_00_00_00, 0x7f_ff_ff_ff, 64 * 1024 * 1024 + 1, 9_000_000, 15, 1]
const counts = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 1, max: 300 }) },
  { weight: 2, arbitrary: fc.constantFrom(65_535, 65_536, 65_537) },
  { weight: 1, arbitrary: fc.constantFrom(1_000_000, 2_000_000) },
)

const kinds: Kinds<SealedTwist> = {
  'sealed: frame length': [12, { length: fc.constantFrom(...lengths), last: fc.boolean() }],
  'sealed: empty frames': [8, { count: counts, before: fc.boolean() }],
  'sealed: many frames': [4, { pieces: fc.integer({ min: 2, max: 60 }) }],
  'sealed: cut': [10, { keepPermille: permille }],
  'sealed: changed': [12, { atPermille: permille, bit: fc.nat(7) }],
  'sealed: key': [14, { text: fc.constantFrom(...points) }],
  'sealed: repeated': [10, { times: fc.integer({ min: 2, max: 5 }) }],
  'sealed: header twice': [4, { name: fc.constantFrom(...names) }],
  'sealed: no header': [4, { name: fc.constantFrom(...names) }],
  'sealed: header': [6, { line: fc.constantFrom(...lines) }],
  'sealed: inside': [12, { text: fc.constantFrom(...bodies) }],
  'sealed: path': [6, { path: fc.constantFrom(...paths) }],
  'sealed: unfinished': [4, { keepPermille: permille, halfClose: fc.boolean() }],
  'sealed: slow': [
    4,
    { atPermille: fc.array(permille, { minLength: 1, maxLength: 4 }), pauseMs: fc.constantFrom(0, 5) },
  ],
}

export const sealedTwists = twistsOf(kinds)

/** With one of these no node may open the request. */
const closing: readonly SealedTwist['kind'][] = [
  'sealed: frame length',
  'sealed: cut',
  'sealed: changed',
  'sealed: key',
  'sealed: no header',
]
export const staysClosed = (twists: readonly SealedTwist[]): boolean =>
  twists.some(({ kind }) => closing.includes(kind))

/** Who sends it, and where. */
export interface SealedAsking {
  readonly host: string
  readonly key: string
  readonly model: string
  readonly marker: string
  readonly stream: boolean
  readonly nodeId: string
  readonly publicKey: Uint8Array
}

/** The frames of the message, changed by the twists. */
async function message(twists: readonly SealedTwist[], asking: SealedAsking) {
  const { model, marker, stream, publicKey } = asking
  const inside = twistOf(twists, 'sealed: inside')?.text.replaceAll('§', marker)
  const text = inside ?? JSON.stringify({ model, stream, messages: [{ role: 'user', content: marker }] })
  const plain = Buffer.from(text, 'latin1')
  const pieces = twistOf(twists, 'sealed: many frames')?.pieces ?? 1
  const size = Math.max(1, Math.ceil(plain.length / pieces))
  const cut = Array.from({ length: pieces }, (_, at) => plain.subarray(at * size, (at + 1) * size))
  const { enc, frames } = await sealBody(publicKey, cut)
  const all = frames.map((frame) => Buffer.from(framed(frame)))
  const lie = twistOf(twists, 'sealed: frame length')
  const lying = all.at(lie?.last === true ? -1 : 0)
  if (lie !== undefined && lying !== undefined) {
    // One more than it is, where it is the same.
    lying.writeUInt32BE(lying.length - 4 === lie.length ? lie.length + 1 : lie.length)
  }
  const empty = twistOf(twists, 'sealed: empty frames')
  const nothing = Buffer.alloc(4 * (empty?.count ?? 0))
  let bytes = Buffer.concat(empty?.before === true ? [nothing, ...all] : [...all, nothing])
  const changed = twistOf(twists, 'sealed: changed')
  if (changed !== undefined) {
    const at = Math.floor((bytes.length * changed.atPermille) / 1_000)
    bytes[at] = (bytes[at] ?? 0) ^ (1 << changed.bit)
  }
  const keep = twistOf(twists, 'sealed: cut')?.keepPermille
  // At least of the one frame that is no empty one something is missing.
  if (keep !== undefined) bytes = bytes.subarray(0, Math.floor(((all[0]?.length ?? 0) * keep) / 1_000))
  return { enc: Buffer.from(enc).toString('hex'), bytes }
}

/** The bytes of one request, whole. Sealed once: who writes them twice repeats the same request. */
export async function sealedBytes(twists: readonly SealedTwist[], asking: SealedAsking): Promise<Buffer> {
  const { host, key, model, marker, nodeId } = asking
  const { enc, bytes } = await message(twists, asking)
  const path = twistOf(twists, 'sealed: path')?.path ?? '/v1/sealed/nodes/NODE/chat/completions'
  const own = new Map([
    [encapsulatedKeyHeader, twistOf(twists, 'sealed: key')?.text ?? enc],
    [headers.sealedModel, model],
  ])
  const none = twistOf(twists, 'sealed: no header')?.name
  const twice = twistOf(twists, 'sealed: header twice')?.name
  const more = twistOf(twists, 'sealed: header')?.line
  const written = [...own].flatMap(([name, value]) => {
    const line = `${name}: ${value}`
    return name === none ? [] : name === twice ? [line, line] : [line]
  })
  const head = [
    `POST ${path.replaceAll('NODE', nodeId)} HTTP/1.1`,
    `Host: ${host}`,
    `Authorization: Bearer ${key}`,
    'Connection: close',
    `Content-Length: ${bytes.length}`,
    ...written,
    ...(more === undefined ? [] : [more]),
  ]
  return Buffer.concat([Buffer.from(`${head.join('\r\n').replaceAll('§', marker)}\r\n\r\n`, 'latin1'), bytes])
}
