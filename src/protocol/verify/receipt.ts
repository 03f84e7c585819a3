import { canonicalJson } from '../json/canonical-json.ts'
import { isWellFormed } from '../json/well-formed.ts'
import { answerText, commitment, readSalt } from '../receipts/binding.ts'
import { textHash } from '../receipts/receipt.ts'
import { decodeBase64Url } from '../signing/base64.ts'
import { type Fields, fieldsOf, listOf, textOf } from './given.ts'
import { beforeCutoff, type LoggedPlace, logged } from './logged.ts'
import { areKnownFacts, timesCheck } from './times.ts'
import { type Check, check, type Trust, type Verdict, verdict } from './trust.ts'

const encoder = new TextEncoder()

/** What a node, or the log's key, signs of a receipt: its version, a colon, the 32 bytes of its hash. */
function receiptBytes(version: string, hash: string): Uint8Array {
  const head = encoder.encode(`${version}:`)
  const bytes = new Uint8Array(head.length + 32)
  bytes.set(head)
  bytes.set(
    Uint8Array.from(hash.slice(2).match(/../g) ?? [], (pair) => Number.parseInt(pair, 16)),
    head.length,
  )
  return bytes
}

const signs = (trust: Trust, key: Uint8Array | null, message: Uint8Array, signature: string | null): boolean => {
  const bytes = signature === null ? null : decodeBase64Url(signature)
  return key?.length === 32 && bytes?.length === 64 && trust.verify(key, message, bytes)
}

const byNode = (trust: Trust, message: Uint8Array, signature: string | null) =>
  trust.nodeKeys.find((one) => signs(trust, decodeBase64Url(one), message, signature))

/** A receipt in a node's name without its signature: nothing but the log can say that it was issued as it is. */
function unsignedCheck(name: string, issuer: unknown, cutoff: unknown, place: LoggedPlace): Check {
  const unsigned = issuer === 'node' ? beforeCutoff(cutoff, place) : null
  if (unsigned === null) return check(name, false, 'a receipt without a signature proves nothing')
  const said = 'none: it is from before nodes signed all, and stands in the log before the entry that bounds'
  return check(name, null, `${said} the ${unsigned} of them`)
}

function receiptSignature(
  given: Fields,
  issuer: unknown,
  message: Uint8Array,
  trust: Trust,
  place: LoggedPlace,
): Check {
  const name = 'signature'
  const log = fieldsOf(given.log)
  const signature = textOf(given.signature_ed25519) ?? textOf(log.signature_ed25519)
  const logKey =
    issuer === 'node' ? undefined : trust.logKeys.find(({ publicKey }) => signs(trust, publicKey, message, signature))
  if (logKey !== undefined) return check(name, true, `by ${logKey.name}`)
  const publicKey = textOf(given.public_key)
  if (signature === null) return unsignedCheck(name, issuer, log.cutoff, place)
  const key = byNode(trust, message, signature)
  if (key !== undefined) return check(name, true, `by the key ${key}`)
  const unknown = publicKey !== null && !trust.nodeKeys.includes(publicKey)
  return check(
    name,
    false,
    unknown ? `the key ${publicKey} is not known here: give it with --key` : 'no key that is known here made it',
  )
}

/** Of a receipt of the gateway: whether the node vouches for anything of it. It never makes the receipt invalid. */
function vouchedCheck(given: Fields, issuer: unknown): readonly Check[] {
  if (issuer !== 'gateway' || fieldsOf(given.node_receipt).receipt_hash !== undefined) return []
  const key = textOf(given.node_key)
  const alone = 'the gateway alone says who did the work and how much'
  const unsigned =
    key === null ? 'not signed by a node' : `NOT SIGNED by its node, which has an agent with the key ${key}`
  return [check('node', null, `${unsigned}: ${alone}`)]
}

/** The receipt that the node signed in place of the one that counts; nothing depends on it, unless it is forged. */
function besideCheck(given: Fields, trust: Trust): readonly Check[] {
  const name = 'receipt of the node'
  const beside = fieldsOf(given.node_receipt)
  const facts = fieldsOf(beside.receipt)
  const [hash, signature] = [textOf(beside.receipt_hash), textOf(beside.signature_ed25519)]
  if (hash === null) return []
  if (!areKnownFacts(facts) || textHash(canonicalJson(facts)) !== hash) {
    return [check(name, false, 'its facts have another hash')]
  }
  const key = byNode(trust, receiptBytes(String(facts.v), hash), signature)
  const tokens = `${facts.prompt_tokens} and ${facts.completion_tokens} tokens`
  return [
    check(name, key === undefined ? null : true, `${tokens}${key === undefined ? ', by a key not known here' : ''}`),
  ]
}

/** What a client shows of its own accord: that this was asked, and this answered (§31). */
function openedChecks(given: Fields, facts: Fields): readonly Check[] {
  const opened = fieldsOf(given.opened)
  const salt = readSalt(textOf(opened.salt) ?? '')
  if (salt === null) return given.opened === undefined ? [] : [check('salt', false, 'it is no salt of 32 bytes')]
  const one = (name: string, committed: unknown, text: string | null): readonly Check[] => {
    if (text === null) return []
    const same = isWellFormed(given.opened) && commitment(salt, text) === committed
    return [check(name, same, same ? 'it is what the receipt commits to' : 'the receipt commits to something else')]
  }
  const model = textOf(opened.upstream_model)
  const choices = listOf(fieldsOf(opened.response).choices)
  return [
    ...one('request', facts.request_commitment, opened.request === undefined ? null : canonicalJson(opened.request)),
    ...one(
      'answer',
      facts.response_commitment,
      opened.response === undefined
        ? null
        : answerText(choices.map(fieldsOf).map((one) => ({ ...one, message: fieldsOf(one.message) }))),
    ),
    ...one('model of the node', facts.upstream_model_commitment, model),
  ]
}

const hashPattern = /^0x[0-9a-f]{64}$/

/** An answer of `/v1/billing/receipts/…`, or what `receipts export` made of it. */
export function verifyReceipt(given: Fields, trust: Trust): Verdict {
  const facts = fieldsOf(given.receipt)
  const givenHash = textOf(given.receipt_hash) ?? ''
  const hash = textHash(canonicalJson(facts))
  const known = areKnownFacts(facts)
  const same = hash === givenHash && hashPattern.test(givenHash)
  const detail = known ? (same ? hash : 'its facts have another hash') : 'no receipt of a version that is known here'
  const place = logged('receipt', hash, fieldsOf(given.log).log_proof, given, trust)
  const checks = [
    check('hash', same && known, detail),
    receiptSignature(given, facts.issuer, receiptBytes(String(facts.v), hash), trust, place),
    ...vouchedCheck(given, facts.issuer),
    ...besideCheck(given, trust),
    ...openedChecks(given, facts),
    timesCheck(facts, fieldsOf(given.log)),
    ...place.checks,
  ]
  return verdict('receipt', givenHash, checks, place.checkpoint)
}
