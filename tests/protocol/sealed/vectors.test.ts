import { expect, test } from 'bun:test'
import { decryptChunk, deriveResponseKeys } from 'ehbp'
import vectors from '../../../docs/sealed-vectors.json'
import { openAnswer } from '../../../src/client/sealed/opened-answer.ts'
import { reportDataOf } from '../../../src/protocol/attestation/evidence.ts'
import { responseNonceHeader } from '../../../src/protocol/sealed/ehbp.ts'
import { splitFrames } from '../../../src/protocol/sealed/frames.ts'
import { openBody } from '../../../src/protocol/sealed/hpke-opening.ts'
import { responseKeys } from '../../../src/protocol/sealed/response-keys.ts'
import { publicKeyOf, sealedKeyMessage } from '../../../src/protocol/sealed/sealed-key.ts'
import { verifyKey } from '../../../src/protocol/signing/ed25519.ts'
import type { SealedKey } from '../../../src/protocol/wire/nodes/sealed-key.ts'

const bytes = (hex: string) => Uint8Array.from(Buffer.from(hex, 'hex'))
const key = vectors.key as SealedKey
const enc = bytes(vectors.request['ehbp-encapsulated-key'])
const secret = bytes(vectors.exported_secret)
const answer = () =>
  new Response(bytes(vectors.response.body), {
    headers: { [responseNonceHeader]: vectors.response['ehbp-response-nonce'], 'content-type': 'text/event-stream' },
  })

test('docs/sealed-vectors.json: the key is signed by the identity and has its id', () => {
  expect(sealedKeyMessage(key)).toBe(vectors.signed_text)
  expect(verifyKey(vectors.identity_public_key_ed25519)?.verify(vectors.signed_text, key.signature_ed25519)).toBe(true)
  expect(publicKeyOf(key)).toEqual(bytes(vectors.public_key))
})

test('docs/sealed-vectors.json: the request opens with the secret key', async () => {
  const frames = splitFrames(bytes(vectors.request.body))
  const opened = await openBody(bytes(vectors.secret_key), enc, frames ?? [])
  expect(Buffer.concat(opened?.pieces ?? []).toString()).toBe(vectors.request.plain)
  expect(opened?.secret).toEqual(secret)
})

test('docs/sealed-vectors.json: the answer opens here and by the published client', async () => {
  const { key: aead, baseNonce } = responseKeys(secret, enc, bytes(vectors.response['ehbp-response-nonce']))
  expect(aead).toEqual(bytes(vectors.response.aead_key))
  expect(baseNonce).toEqual(bytes(vectors.response.aead_nonce))
  expect(await openAnswer(answer(), { enc, secret }).text()).toBe(vectors.response.plain)
  const published = await deriveResponseKeys(secret, enc, bytes(vectors.response['ehbp-response-nonce']))
  const frames = splitFrames(bytes(vectors.response.body)) ?? []
  const plain = await Promise.all(frames.map((frame, at) => decryptChunk(published, at, frame)))
  expect(Buffer.concat(plain).toString()).toBe(vectors.response.plain)
})

test('docs/sealed-vectors.json: what hardware signs for a nonce, here and in Python', () => {
  const { nonce, report_data: expected } = vectors.attestation
  const [identity, config] = [vectors.identity_public_key_ed25519, vectors.key.key_config].map(
    (text) => new Uint8Array(Buffer.from(text, 'base64url')),
  )
  const none = new Uint8Array()
  expect(reportDataOf(identity ?? none, config ?? none, bytes(nonce)).toHex()).toBe(expected)
  if (hasPython) expect(python(attestProgram, JSON.stringify(vectors)).stdout.toString().trim()).toBe(expected)
})

const attestProgram = `
import base64, hashlib, json, sys
v = json.load(sys.stdin)
raw = lambda text: base64.urlsafe_b64decode(text + '=' * (-len(text) % 4))
signed = b'svc-attest-v1' + raw(v['identity_public_key_ed25519']) + raw(v['key']['key_config'])
print(hashlib.sha512(signed + bytes.fromhex(v['attestation']['nonce'])).hexdigest())
`

const hpkeProgram = `
import json, sys
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
v = json.load(sys.stdin)
suite = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)
key = X25519PrivateKey.from_private_bytes(bytes.fromhex(v['secret_key']))
request = v['request']
sealed = bytes.fromhex(request['ehbp-encapsulated-key']) + bytes.fromhex(request['body'])[4:]
print(suite.decrypt(sealed, key, info=b'ehbp request').decode() == request['plain'])
answer = v['response']
body, plain, at = bytes.fromhex(answer['body']), b'', 0
nonce = int.from_bytes(bytes.fromhex(answer['aead_nonce']), 'big')
while body:
    length = int.from_bytes(body[:4], 'big')
    frame, body = body[4:4 + length], body[4 + length:]
    if frame:
        plain += AESGCM(bytes.fromhex(answer['aead_key'])).decrypt((nonce ^ at).to_bytes(12, 'big'), frame, None)
        at += 1
print(plain.decode() == answer['plain'])
`
const python = (program: string, input = '') =>
  Bun.spawnSync(['python3', '-c', program], { stdin: Buffer.from(input), stderr: 'ignore' })
const hasPython = Bun.which('python3') !== null
const hasHpke = python('from cryptography.hazmat.primitives import hpke').exitCode === 0

test.skipIf(!hasHpke)('docs/sealed-vectors.json: Python’s cryptography opens request and answer', () => {
  const { stdout } = python(hpkeProgram, JSON.stringify(vectors))
  expect(stdout.toString()).toBe('True\nTrue\n')
})
