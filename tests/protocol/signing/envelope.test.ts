import { describe, expect, test } from 'bun:test'
import { x25519 } from '@noble/curves/ed25519.js'
import { decodeBase64Url, encodeBase64Url } from '../../../src/protocol/signing/base64.ts'
import {
  type Envelope,
  envelopeFault,
  isUsablePublicKey,
  requestAadHash,
  transportKeyId,
} from '../../../src/protocol/signing/envelope.ts'
import {
  EnvelopeError,
  openRequest,
  openResponse,
  sealRequest,
  sealResponse,
} from '../../../src/protocol/signing/envelope-sealing.ts'

const counting = (from: number) => Uint8Array.from({ length: 32 }, (_, i) => from + i)
const nodeSecret = counting(0x01)
const nodePublic = x25519.getPublicKey(nodeSecret)
const clientSecret = counting(0x41)
const context = { jobId: 'job_0001', modelId: 'llama-3.1-8b', nodeId: 'node_0001' }
const requestText = '{"messages":[{"role":"user","content":"hi"}]}'
const responseText = '{"choices":[]}'
const utf8 = (text: string) => new TextEncoder().encode(text)
const textOf = (bytes: Uint8Array) => new TextDecoder().decode(bytes)
const bytes = (text: string) => decodeBase64Url(text) ?? new Uint8Array()

const sealed = () =>
  sealRequest(nodePublic, context, utf8(requestText), { secretKey: clientSecret, nonce: bytes('gYKDhIWGh4iJiouM') })

test('§20: the vectors of the envelope, both directions', () => {
  expect(encodeBase64Url(nodePublic)).toBe('B6N8vBQgk8i3VdwbEOhstCY3StFqqFPtC9_AsrhtHHw')
  expect(transportKeyId(nodePublic)).toBe('qqj_9wO1CyKX9PbhNQj3JA')
  const { envelope, responseKeys } = sealed()
  expect(envelope).toEqual({
    version: 'svc-private-transport-v1',
    key_id: 'qqj_9wO1CyKX9PbhNQj3JA',
    algorithm: 'x25519-hkdf-sha256-chacha20poly1305',
    client_public_key_x25519: 'ZLEBsdC-WocEvQePmJUAH8A-jp-VIvGI3RKNmEbUhGY',
    nonce: 'gYKDhIWGh4iJiouM',
    ciphertext: 'QQCfLsSA25t_FEsddT729Rhl9nujoEvGd1m5Ro0npGOa2dOe6NC4nkBHYJozaTaMtufmyTggt10D395Dxw',
    aad_hash: '7292fcf9f347493a924ec7db57a261a19146e8b909ae89ba7e70f03d73b13d55',
  })
  const opened = openRequest(nodeSecret, context, envelope)
  expect(textOf(opened.plaintext)).toBe(requestText)
  expect(opened.responseKeys).toEqual(responseKeys)
  const answer = sealResponse(opened.responseKeys, context, utf8(responseText), { nonce: bytes('oaKjpKWmp6ipqqus') })
  expect(answer.ciphertext).toBe('o2GGvkuCZH7pcLS17KeWjXVjoSmT5WD1cbyyKmYh')
  expect(answer.aad_hash).toBe('feb43db634fc6a16165f7ef217e731e970b2cebc170cb8be7e0ec3f3d0439f86')
  expect(textOf(openResponse(responseKeys, context, answer))).toBe(responseText)
})

test('§10: aad_hash can be computed by who holds no key', () => {
  const { envelope } = sealed()
  expect(requestAadHash(context, envelope.key_id, envelope.client_public_key_x25519)).toBe(envelope.aad_hash ?? '')
  expect(requestAadHash({ ...context, jobId: '' }, envelope.key_id, envelope.client_public_key_x25519)).not.toBe(
    envelope.aad_hash ?? '',
  )
})

describe('§20: points of low order are refused by client, gateway and node', () => {
  const lowOrder = [
    '00'.repeat(32),
    `01${'00'.repeat(31)}`,
    `ec${'ff'.repeat(30)}7f`,
    'e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800',
    // The same with the bit that X25519 ignores.
    `01${'00'.repeat(30)}80`,
  ]
  test.each(lowOrder)('%s', (hex) => {
    const point = Uint8Array.fromHex(hex)
    const envelope = { ...sealed().envelope, client_public_key_x25519: encodeBase64Url(point) }
    expect(isUsablePublicKey(point)).toBe(false)
    expect(envelopeFault(envelope)?.field).toBe('client_public_key_x25519')
    expect(() => sealRequest(point, context, utf8('x'))).toThrow(EnvelopeError)
    expect(() => openRequest(nodeSecret, context, envelope)).toThrow(EnvelopeError)
  })
})

const flipped = (text: string, at = 0) => {
  const raw = bytes(text)
  raw[at] = (raw[at] ?? 0) ^ 1
  return encodeBase64Url(raw)
}

describe('§10: an envelope that was changed does not open, and the error says no more', () => {
  const changes: readonly (readonly [string, (envelope: Envelope) => Envelope])[] = [
    ['ciphertext', (e) => ({ ...e, ciphertext: flipped(e.ciphertext) })],
    ['tag', (e) => ({ ...e, ciphertext: flipped(e.ciphertext, bytes(e.ciphertext).length - 1) })],
    ['cut', (e) => ({ ...e, ciphertext: encodeBase64Url(bytes(e.ciphertext).subarray(0, 20)) })],
    ['nonce', (e) => ({ ...e, nonce: flipped(e.nonce) })],
    ['public key', (e) => ({ ...e, client_public_key_x25519: encodeBase64Url(x25519.getPublicKey(counting(0x61))) })],
    ['key id', (e) => ({ ...e, key_id: flipped(e.key_id) })],
    ['aad hash', (e) => ({ ...e, aad_hash: '0'.repeat(64) })],
    ['version', (e) => ({ ...e, version: 'svc-private-transport-v2' })],
  ]
  test.each(changes)('%s', (_, change) => {
    const { envelope, responseKeys } = sealed()
    expect(() => openRequest(nodeSecret, context, change(envelope))).toThrow('the envelope does not open')
    const { aad_hash: _hash, ...bare } = sealResponse(responseKeys, context, utf8(responseText))
    expect(textOf(openResponse(responseKeys, context, bare))).toBe(responseText)
    expect(() => openResponse(responseKeys, context, change(bare))).toThrow('the envelope does not open')
  })

  test.each([
    ['job', { ...context, jobId: 'job_0002' }],
    ['model', { ...context, modelId: 'other' }],
    ['node', { ...context, nodeId: 'node_0002' }],
  ] as const)('another %s than it was sealed for', (_, other) => {
    const { envelope, responseKeys } = sealed()
    const { aad_hash: _hash, ...bare } = envelope
    expect(() => openRequest(nodeSecret, other, bare)).toThrow(EnvelopeError)
    const answer = sealResponse(responseKeys, context, utf8(responseText))
    expect(() => openResponse(responseKeys, other, answer)).toThrow(EnvelopeError)
  })

  test('another node’s key', () => {
    expect(() => openRequest(counting(0x21), context, sealed().envelope)).toThrow(EnvelopeError)
  })

  test('an answer to another request of the same client, and a request in the place of an answer', () => {
    const one = sealed()
    const other = sealRequest(nodePublic, context, utf8(requestText))
    const answer = sealResponse(openRequest(nodeSecret, context, other.envelope).responseKeys, context, utf8('{}'))
    expect(() => openResponse(one.responseKeys, context, answer)).toThrow(EnvelopeError)
    expect(() => openResponse(one.responseKeys, context, one.envelope)).toThrow(EnvelopeError)
  })
})

describe('§10: what the gateway refuses before it looks at anything else', () => {
  const faults: readonly (readonly [keyof Envelope, Partial<Envelope>])[] = [
    ['version', { version: 'v1' }],
    ['algorithm', { algorithm: 'aes' }],
    ['key_id', { key_id: 'qqj_9wO1CyKX9PbhNQj3J' }],
    ['key_id', { key_id: 'qqj_9wO1CyKX9PbhNQj3JB' }],
    ['nonce', { nonce: 'gYKDhIWGh4iJiou' }],
    ['nonce', { nonce: 'gYKDhIWGh4iJiouM==' }],
    ['nonce', { nonce: 'gYKDhIWGh4iJiou+' }],
    ['client_public_key_x25519', { client_public_key_x25519: 'ZLEBsdC-WocEvQePmJUAH8A-jp-VIvGI3RKNmEbUhGZ' }],
    ['ciphertext', { ciphertext: 'QQCfLsSA' }],
    ['aad_hash', { aad_hash: 'AB'.repeat(32) }],
  ]
  test.each(faults)('%s %j', (field, change) => {
    expect(envelopeFault({ ...sealed().envelope, ...change })?.field).toBe(field)
  })
  test('6 MiB of ciphertext are taken, one byte more is not', () => {
    const ciphertext = (size: number) => encodeBase64Url(new Uint8Array(size))
    expect(envelopeFault({ ...sealed().envelope, ciphertext: ciphertext(6 * 1024 * 1024) })).toBeNull()
    expect(envelopeFault({ ...sealed().envelope, ciphertext: ciphertext(6 * 1024 * 1024 + 1) })?.field).toBe(
      'ciphertext',
    )
    expect(envelopeFault({ ...sealed().envelope, ciphertext: ciphertext(16) })).toBeNull()
    expect(envelopeFault({ ...sealed().envelope, ciphertext: ciphertext(15) })?.field).toBe('ciphertext')
  })
})

test('two seals of the same text share neither key nor nonce', () => {
  const [a, b] = [0, 1].map(() => sealRequest(nodePublic, context, utf8(requestText)).envelope)
  expect(a?.client_public_key_x25519).not.toBe(b?.client_public_key_x25519 ?? '')
  expect(a?.nonce).not.toBe(b?.nonce ?? '')
  expect(a?.ciphertext).not.toBe(b?.ciphertext ?? '')
})

/** RFC-conforming code of others: OpenSSL, through Node, in a process of its own. */
const independent = `
const c = require('node:crypto')
const [task, input] = [process.argv[1], JSON.parse(process.argv[2])]
const b = (t) => Buffer.from(t, 'base64url')
const V = 'svc-private-transport-v1', ALG = 'x25519-hkdf-sha256-chacha20poly1305'
const lp = (t) => { const x = Buffer.from(t), l = Buffer.alloc(2); l.writeUInt16BE(x.length); return Buffer.concat([l, x]) }
const priv = (raw) => c.createPrivateKey({ key: Buffer.concat([Buffer.from('302e020100300506032b656e04220420', 'hex'), raw]), format: 'der', type: 'pkcs8' })
const pub = (raw) => c.createPublicKey({ key: Buffer.concat([Buffer.from('302a300506032b656e032100', 'hex'), raw]), format: 'der', type: 'spki' })
const rawOf = (key) => c.createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(12)
const hmac = (k, d) => c.createHmac('sha256', k).update(d).digest()
const expand = (prk, info) => hmac(prk, Buffer.concat([info, Buffer.of(1)]))
const sorted = (o) => JSON.stringify(Object.fromEntries(Object.entries(o).sort(([x], [y]) => (x < y ? -1 : 1))))
const sk = priv(b(input.nodeSecret)), pkR = rawOf(sk)
const e = input.envelope, pkE = b(e.client_public_key_x25519)
const info = (l) => Buffer.concat([lp(V), lp(ALG), lp(l), lp(e.key_id), pkE, pkR])
const prk = hmac(Buffer.from(V), c.diffieHellman({ privateKey: sk, publicKey: pub(pkE) }))
const aad = (more) => Buffer.from(sorted({ algorithm: ALG, client_public_key_x25519: e.client_public_key_x25519, job_id: input.jobId, key_id: e.key_id, model_id: input.modelId, node_id: input.nodeId, version: V, ...more }))
const boxed = b(e.ciphertext)
const open = c.createDecipheriv('chacha20-poly1305', expand(prk, info('request key')), b(e.nonce), { authTagLength: 16 })
const requestAad = aad({ direction: 'request' })
open.setAAD(requestAad, { plaintextLength: boxed.length - 16 }).setAuthTag(boxed.subarray(-16))
const plaintext = Buffer.concat([open.update(boxed.subarray(0, -16)), open.final()]).toString()
const nonce = c.randomBytes(12)
const answerAad = aad({ direction: 'response', request_hash: c.createHash('sha256').update(boxed).digest('hex') })
const key = expand(hmac(Buffer.concat([pkE, nonce]), expand(prk, info('response secret'))), info('response key'))
const seal = c.createCipheriv('chacha20-poly1305', key, nonce, { authTagLength: 16 })
const answer = Buffer.from(input.answer)
seal.setAAD(answerAad, { plaintextLength: answer.length })
const ciphertext = Buffer.concat([seal.update(answer), seal.final(), seal.getAuthTag()])
console.log(JSON.stringify({ plaintext, aadHash: c.createHash('sha256').update(requestAad).digest('hex'), envelope: { ...e, nonce: nonce.toString('base64url'), ciphertext: ciphertext.toString('base64url'), aad_hash: c.createHash('sha256').update(answerAad).digest('hex') } }))
`

test('§10: OpenSSL opens what we seal and seals what we open', async () => {
  const text = '{"messages":[{"role":"user","content":"grüße 你好"}]}'
  const { envelope, responseKeys } = sealRequest(nodePublic, { ...context, jobId: '' }, utf8(text))
  const input = { ...context, jobId: '', envelope, nodeSecret: encodeBase64Url(nodeSecret), answer: responseText }
  const child = Bun.spawn(['node', '-e', independent, 'x', JSON.stringify(input)], { stderr: 'inherit' })
  const answer = JSON.parse(await new Response(child.stdout).text())
  expect(answer.plaintext).toBe(text)
  expect(answer.aadHash).toBe(envelope.aad_hash)
  expect(textOf(openResponse(responseKeys, { ...context, jobId: '' }, answer.envelope))).toBe(responseText)
})
