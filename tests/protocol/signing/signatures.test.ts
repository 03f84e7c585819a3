import { expect, test } from 'bun:test'
import { ed25519 } from '@noble/curves/ed25519.js'
import fc from 'fast-check'
import { fromBase64url, toBase64url } from '../../../src/protocol/signing/base64url.ts'
import { fingerprint, keyIdOf, signingKey, verifyKey } from '../../../src/protocol/signing/ed25519.ts'
import {
  enrollMessage,
  formatRouterSignature,
  isFresh,
  isNonce,
  keyVerifyMessage,
  newNonce,
  parseRouterSignature,
  receiptMessage,
  routerMessage,
  statusMessage,
  transportKeyMessage,
  tunnelMessage,
} from '../../../src/protocol/signing/signatures.ts'

const seed = Uint8Array.from({ length: 32 }, (_, i) => 0x11 + i)
const key = signingKey(seed)
const publicKey = '7VSln7GsOlEjk1E2KUG4aOhaYOPXskhdgogh3Hppwnk'
const known = () => {
  const read = verifyKey(publicKey)
  if (read === null) throw new Error('the key of the vectors must be readable')
  return read
}

test('§20: seed 11…30 gives the public key of the vectors and signs the payout message', () => {
  expect(key.publicKey).toBe(publicKey)
  const message = 'svc-node-payout-report-v1:node_0001:30:100:2026-11-20T16:00:00Z:AAAAAAAAAAAAAAAAAAAAAA'
  const signature = 'WIn383gx3mLFXMb_pDwZkU2TSz97XgGLOnL85mTzuecz-fiO0Fqib_KuOJ9b7Bo9mBLO0GMbKtXj03mBTGAQAQ'
  expect(key.sign(message)).toBe(signature)
  expect(known().verify(message, signature)).toBe(true)
  expect(known().verify(message, `${signature}==`)).toBe(true)
})

test('§22: the vector of a router request', () => {
  const stamp = { timestamp: 1795190400, nonce: 'A'.repeat(22) }
  const request = { nodeId: 'node_0001', method: 'POST', path: '/v1/chat/completions', body: '{}' }
  const message = routerMessage(request, stamp)
  expect(message).toBe(
    'svc-router-v1:node_0001:POST:/v1/chat/completions:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a:1795190400:AAAAAAAAAAAAAAAAAAAAAA',
  )
  const signature = 'z7r3TEdG_nb8YSgrq5uhKwwpT7MT6Tg2MQA1O-TfpyIZBc3Wc1Xc4czhRiqtJSxt8HQjQ__zkHxuzOj83OQnBg'
  expect(key.sign(message)).toBe(signature)
  const bytes = routerMessage({ ...request, body: new TextEncoder().encode('{}') }, stamp)
  expect(bytes).toBe(message)
})

test('§14: the vector of a signed receipt', () => {
  const hash = '0x80feff6b906f818df58d817d3b15909864e6e83cbe2b1815bcb390399ede7466'
  const signature = 'qiBYi8Bjfv6LyVO6CPdVG5onJrvqFzWQ-QajquE7Qzbw3bJjo3egWayTYVjH8sKuUW6JtYhiWLD-EfUqdDnfAA'
  expect(key.sign(receiptMessage(hash))).toBe(signature)
  expect(receiptMessage(hash).length).toBe('svc-receipt-v1:'.length + 32)
})

test('§15: keys of small order and other encodings of a key are refused', () => {
  const points = [
    '0000000000000000000000000000000000000000000000000000000000000000',
    '0100000000000000000000000000000000000000000000000000000000000000',
    '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
    'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
    'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
    'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
    'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  ]
  for (const point of points) {
    for (const sign of [0, 0x80]) {
      const bytes = Buffer.from(point, 'hex')
      bytes[31] = (bytes[31] ?? 0) | sign
      expect(verifyKey(bytes.toString('base64url'))).toBeNull()
    }
  }
  for (const text of ['', publicKey.slice(1), `${publicKey}A`, `${publicKey}=`, `${publicKey.slice(0, -1)}l`]) {
    expect(verifyKey(text)).toBeNull()
  }
})

test('§15: what is no signature of this message is false and never an error', () => {
  const signature = key.sign('a')
  const others = ['', 'A', signature.slice(0, -1), `${signature}A`, `${signature.slice(0, -1)}/`, 'A'.repeat(86)]
  for (const other of others) expect(known().verify('a', other)).toBe(false)
  expect(known().verify('b', signature)).toBe(false)
  // The last character of 86 carries 4 bits that mean nothing: one spelling alone is taken.
  const spellings = ['A', 'Q', 'g', 'w'].map((last) => signature.slice(0, -1) + last)
  expect(spellings.filter((spelling) => known().verify('a', spelling))).toEqual([signature])
})

test('§20: any signature is the one of an independent implementation, and holds there', () => {
  const property = fc.property(
    fc.uint8Array({ minLength: 32, maxLength: 32 }),
    fc.uint8Array({ maxLength: 200 }),
    (secret, message) => {
      const own = signingKey(secret)
      const signature = own.sign(message)
      expect(signature).toBe(toBase64url(ed25519.sign(message, secret)))
      expect(verifyKey(own.publicKey)?.verify(message, signature)).toBe(true)
    },
  )
  fc.assert(property, { numRuns: 30 })
})

test('§22: the header of a router signature has one form', () => {
  const value = { kid: key.keyId, timestamp: 1795190400, nonce: 'A'.repeat(22), signature: key.sign('x') }
  const header = formatRouterSignature(value)
  expect(parseRouterSignature(header)).toEqual(value)
  const wrong = [
    '',
    `${header}, ${header}`,
    header.replace('ts=1795190400', 'ts=-1'),
    header.replace('ts=1795190400', 'ts=1e9'),
    header.replace('kid=', 'kid ='),
    header.replaceAll(',', ', '),
    header.replace('nonce=A', 'nonce='),
    header.slice(0, -1),
    `${header},x=1`,
  ]
  for (const text of wrong) expect(parseRouterSignature(text)).toBeNull()
})

test('§22: 300 s either way are fresh, 301 are not', () => {
  const nowMs = 1_795_190_400_000
  expect([-301, -300, 0, 300, 301].map((by) => isFresh(1_795_190_400 + by, nowMs))).toEqual([
    false,
    true,
    true,
    true,
    false,
  ])
  expect(isNonce(newNonce())).toBe(true)
  expect(newNonce()).not.toBe(newNonce())
})

test('§22: the other signed texts, and that a signature covers all but itself', () => {
  const hash = '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'
  expect(tunnelMessage('node_1', 7, 'n', 'k')).toBe('svc-node-tunnel-v1:node_1:7:n:k')
  expect(enrollMessage({ signature_ed25519: 'x' })).toBe(`svc-node-enroll-v1:${hash}`)
  expect(enrollMessage({ a: 1 })).not.toBe(enrollMessage({ a: 2 }))
  expect(statusMessage('node_1', 'n', {})).toBe(`svc-node-status-v1:node_1:n:${hash}`)
  expect(keyVerifyMessage('node_1', 7, 'n', '{}')).toBe(`svc-node-keys-verify-v1:node_1:7:n:${hash}`)
  expect(transportKeyMessage({ b: 1, a: 2, signature_ed25519: 'x' })).toBe('{"a":2,"b":1}')
})

test('§10: key ids, fingerprints and the strict base64url', () => {
  const x25519 = fromBase64url('B6N8vBQgk8i3VdwbEOhstCY3StFqqFPtC9_AsrhtHHw', 32)
  expect(x25519 === null ? null : keyIdOf(x25519)).toBe('qqj_9wO1CyKX9PbhNQj3JA')
  expect(fingerprint(publicKey)).toMatch(/^SHA256:[A-Za-z0-9_-]{43}$/)
  expect(fingerprint('?')).toBeNull()
  expect(fromBase64url('AAE', 2)).toEqual(new Uint8Array([0, 1]))
  for (const text of ['AAF', 'AAE=', 'AA+', 'A', 'AAEA']) expect(fromBase64url(text, 2)).toBeNull()
})
