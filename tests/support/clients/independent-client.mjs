// A customer's program after docs/protocol.md, with Node's own crypto (OpenSSL) and nothing of this project.
// Arguments: JSON {baseUrl, customerId, customerToken, nodeId, fingerprint, modelId, jobId, chat}. Prints the answer.
import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  randomBytes,
  verify,
} from 'node:crypto'

const given = JSON.parse(process.argv[2])
const V = 'svc-private-transport-v1'
const ALG = 'x25519-hkdf-sha256-chacha20poly1305'
const jobs = `${given.baseUrl}/v1/api/private-inference`
const headers = {
  'content-type': 'application/json',
  'x-svc-customer-id': given.customerId,
  'x-svc-customer-token': given.customerToken,
}
const bytes = (text) => Buffer.from(text, 'base64url')
const sha256 = (data) => createHash('sha256').update(data).digest()
const hmac = (key, data) => createHmac('sha256', key).update(data).digest()
const expand = (prk, info) => hmac(prk, Buffer.concat([info, Buffer.of(1)]))
const jcs = (object) => JSON.stringify(Object.fromEntries(Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1))))
const lp = (text) => {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(Buffer.byteLength(text))
  return Buffer.concat([length, Buffer.from(text)])
}
const okp = (crv, x) => createPublicKey({ key: { kty: 'OKP', crv, x }, format: 'jwk' })
const ask = async (path, init = {}) => {
  const response = await fetch(jobs + path, { headers, ...init })
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
  return response.json()
}

const { identity_public_key_ed25519: identity, keys } = await ask(`/nodes/${given.nodeId}/keys`)
if (`SHA256:${sha256(bytes(identity)).toString('base64url')}` !== given.fingerprint) throw new Error('identity')
for (const { signature_ed25519, ...signed } of keys) {
  const holds = verify(null, Buffer.from(jcs(signed)), okp('Ed25519', identity), bytes(signature_ed25519))
  const named = sha256(bytes(signed.public_key_x25519)).subarray(0, 16).toString('base64url') === signed.key_id
  if (!holds || !named) throw new Error('key')
}
const [key] = keys.filter(({ state }) => state === 'active')

const own = generateKeyPairSync('x25519')
const pkE = own.publicKey.export({ format: 'jwk' }).x
const pkR = key.public_key_x25519
const info = (label) => Buffer.concat([lp(V), lp(ALG), lp(label), lp(key.key_id), bytes(pkE), bytes(pkR)])
const prk = hmac(V, diffieHellman({ privateKey: own.privateKey, publicKey: okp('X25519', pkR) }))
const aad = (more) =>
  Buffer.from(
    jcs({
      algorithm: ALG,
      client_public_key_x25519: pkE,
      job_id: given.jobId ?? '',
      key_id: key.key_id,
      model_id: given.modelId,
      node_id: given.nodeId,
      version: V,
      ...more,
    }),
  )

const text = Buffer.from(JSON.stringify(given.chat))
const nonce = randomBytes(12)
const seal = createCipheriv('chacha20-poly1305', expand(prk, info('request key')), nonce, { authTagLength: 16 })
seal.setAAD(aad({ direction: 'request' }), { plaintextLength: text.length })
const ciphertext = Buffer.concat([seal.update(text), seal.final(), seal.getAuthTag()])
const created = await ask('/jobs', {
  method: 'POST',
  body: JSON.stringify({
    ...(given.jobId === undefined ? {} : { job_id: given.jobId }),
    node_id: given.nodeId,
    model_id: given.modelId,
    encrypted_request: {
      version: V,
      key_id: key.key_id,
      algorithm: ALG,
      client_public_key_x25519: pkE,
      nonce: nonce.toString('base64url'),
      ciphertext: ciphertext.toString('base64url'),
    },
  }),
})

let read
do {
  read = await ask(`/jobs/${created.job_id}`)
  await new Promise((resolve) => setTimeout(resolve, 20))
} while (['queued', 'dispatched', 'running'].includes(read.status))
const { nonce: answerNonce, ciphertext: sealed } = read.encrypted_response
const secret = expand(prk, info('response secret'))
const answerKey = expand(hmac(Buffer.concat([bytes(pkE), bytes(answerNonce)]), secret), info('response key'))
const open = createDecipheriv('chacha20-poly1305', answerKey, bytes(answerNonce), { authTagLength: 16 })
const boxed = bytes(sealed)
open.setAAD(aad({ direction: 'response', request_hash: sha256(ciphertext).toString('hex') }), {
  plaintextLength: boxed.length - 16,
})
open.setAuthTag(boxed.subarray(-16))
console.log(Buffer.concat([open.update(boxed.subarray(0, -16)), open.final()]).toString())
