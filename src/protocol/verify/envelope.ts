import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'
import { canonicalJson } from '../json/canonical-json.ts'
import { decodeBase64Url, encodeBase64Url } from '../signing/base64.ts'
import {
  type Envelope,
  type EnvelopeContext,
  envelopeFault,
  envelopeKeyBytes,
  requestAadHash,
  transportKeyId,
} from '../signing/envelope.ts'
import { EnvelopeError, openResponse } from '../signing/envelope-sealing.ts'
import { type Fields, fieldsOf, listOf, textOf } from './given.ts'
import { type Check, check, type Trust, type Verdict, verdict } from './trust.ts'

const bytesOf = (text: unknown) => decodeBase64Url(textOf(text) ?? '') ?? new Uint8Array()
const withoutPadding = (text: string) => text.replace(/=+$/, '')

const opens = 'It opens with the keys in this file; anyone who has them could have sealed it'

/** null if the value is not an envelope. */
function envelopeOf(value: unknown): Envelope | null {
  const { version, key_id, algorithm, client_public_key_x25519, nonce, ciphertext, aad_hash } = fieldsOf(value)
  const texts = [version, key_id, algorithm, client_public_key_x25519, nonce, ciphertext]
  if (!texts.every((text) => typeof text === 'string')) return null
  if (aad_hash !== undefined && typeof aad_hash !== 'string') return null
  return fieldsOf(value) as unknown as Envelope
}

function formCheck(name: string, envelope: Envelope | null): Check {
  const fault = envelope === null ? null : envelopeFault(envelope)
  if (envelope === null) return check(name, false, 'there is none')
  return check(name, fault === null, fault === null ? 'of the right form' : `${fault.field} ${fault.detail}`)
}

/**
 * That the node whose identity is known from elsewhere has signed the key for which the request was sealed; and that key
 * (null: none).
 */
function keyCheck(keyId: string, given: Fields, trust: Trust): { readonly check: Check; readonly key: string | null } {
  const said = (ok: boolean, detail: string, key: string | null = null) => ({
    check: check('key of the node', ok, detail),
    key,
  })
  const keys = fieldsOf(given.node_keys)
  const identity = textOf(keys.identity_public_key_ed25519) ?? ''
  if (!trust.nodeKeys.includes(identity)) {
    return said(false, `the identity ${identity} is not known here: give it with --key`)
  }
  const key = listOf(keys.keys)
    .map(fieldsOf)
    .find(({ key_id }) => key_id === keyId)
  if (key === undefined) return said(false, 'the node has no key of this name')
  const { signature_ed25519: signature, ...signed } = key
  const publicKey = bytesOf(key.public_key_x25519)
  const holds =
    publicKey.length === envelopeKeyBytes &&
    transportKeyId(publicKey) === keyId &&
    trust.verify(
      bytesOf(identity),
      utf8ToBytes(canonicalJson(signed)),
      bytesOf(withoutPadding(textOf(signature) ?? '')),
    )
  return holds
    ? said(true, `signed by ${identity}`, encodeBase64Url(publicKey))
    : said(false, 'the node has not signed it')
}

/**
 * Checks that the answer opens with the client's keys and belongs to this request. This proves nothing to third
 * parties: both sides share the secret, so the owner of the file could have sealed the answer.
 */
function answerChecks(
  request: Envelope,
  response: Envelope,
  context: EnvelopeContext,
  given: Fields,
  nodeKey: string | null,
): readonly Check[] {
  const form = formCheck('answer', response)
  const keys = fieldsOf(given.response_keys)
  if (form.ok !== true || given.response_keys === undefined) return [form]
  const [clientPublicKey, keyId, requestHash] = [request.client_public_key_x25519, request.key_id, keys.requestHash]
  const same = bytesToHex(sha256(bytesOf(request.ciphertext))) === requestHash
  const about = check(
    'request of the answer',
    same,
    same ? 'the keys belong to this request' : 'the keys are of another',
  )
  const nodePublicKey = textOf(keys.nodePublicKey) ?? ''
  if (nodeKey !== null && encodeBase64Url(bytesOf(nodePublicKey)) !== nodeKey)
    return [form, about, check('opening', false, 'the keys are not for the key that the node signed')]
  try {
    const secret = bytesOf(keys.secret)
    const opened = openResponse(
      { secret, clientPublicKey, nodePublicKey, keyId, requestHash: String(requestHash) },
      context,
      response,
    )
    return [form, about, check('opening', null, `${opened.length} bytes. ${opens}`)]
  } catch (error) {
    if (!(error instanceof EnvelopeError)) throw error
    return [form, about, check('opening', false, 'it does not open with the keys in this file')]
  }
}

/** What `jobs export` writes: a private job's envelopes, and the node's keys. */
export function verifyEnvelope(given: Fields, trust: Trust): Verdict {
  const [jobId, modelId, nodeId] = [given.sealed_job_id, given.model_id, given.node_id].map((one) => textOf(one) ?? '')
  const context = { jobId: jobId ?? '', modelId: modelId ?? '', nodeId: nodeId ?? '' }
  const request = envelopeOf(given.encrypted_request)
  const checks: Check[] = [formCheck('request', request)]
  if (request !== null && checks[0]?.ok === true) {
    const node = keyCheck(request.key_id, given, trust)
    checks.push(node.check)
    const bound = requestAadHash(context, request.key_id, request.client_public_key_x25519)
    const givenHash = request.aad_hash
    const same = givenHash === undefined ? null : givenHash === bound
    checks.push(
      check('bound to', same, `job ${context.jobId || 'without a name'}, ${context.modelId}, ${context.nodeId}`),
    )
    const response = envelopeOf(given.encrypted_response)
    if (response !== null) checks.push(...answerChecks(request, response, context, given, node.key))
  }
  return verdict('envelope', textOf(given.job_id) ?? '', checks, null)
}
