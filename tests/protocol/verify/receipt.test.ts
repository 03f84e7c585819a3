import { describe, expect, test } from 'bun:test'
import { canonicalJson } from '../../../src/protocol/json/canonical-json.ts'
import { checkpointText, logProofText } from '../../../src/protocol/log/checkpoint.ts'
import { logLeaf } from '../../../src/protocol/log/log-entry.ts'
import { noteText } from '../../../src/protocol/log/note.ts'
import { logSigner } from '../../../src/protocol/log/note-signing.ts'
import { Binding, commitment } from '../../../src/protocol/receipts/binding.ts'
import { type Receipt, receiptText, textHash, versionOf } from '../../../src/protocol/receipts/receipt.ts'
import { type SigningKey, signingKey, verifyEd25519 } from '../../../src/protocol/signing/ed25519.ts'
import { receiptMessage } from '../../../src/protocol/signing/signatures.ts'
import { verifyReceipt } from '../../../src/protocol/verify/receipt.ts'
import { receiptFacts } from '../../support/money/receipt-facts.ts'

const keyOf = (byte: number) => signingKey(new Uint8Array(32).fill(byte))
const [node, log, forger] = [keyOf(5), keyOf(6), keyOf(9)]
const origin = 'svc-log/a-test'
const trust = {
  logKeys: [logSigner(origin, log).key],
  witnessKeys: [],
  nodeKeys: [node.publicKey],
  auditKeys: [],
  witnessesMin: 0,
  logNeeded: true,
  remembered: () => [],
  verify: verifyEd25519,
}
const facts: Receipt = receiptFacts({ issuer: 'node', requestId: 'req_1', nodeId: 'node_1', runtimeId: 'rt_1' })

/** A whole file, as `receipts export` writes it, in the true log: what its signature is worth decides. */
function file(receipt: Receipt, signer: SigningKey, more: object = {}) {
  const text = receiptText(receipt)
  const hash = textHash(text)
  const signature = signer.sign(receiptMessage(hash, versionOf(receipt)))
  const body = checkpointText({ origin, size: 1, root: logLeaf({ kind: 'receipt', hash }) })
  const note = noteText({ text: body, signatures: [logSigner(origin, log).sign(body)] })
  const byNode = receipt.issuer === 'node'
  return {
    object: 'svc.receipt',
    receipt: JSON.parse(text) as Record<string, unknown>,
    receipt_hash: hash,
    signature_ed25519: byNode ? signature : null,
    public_key: byNode ? signer.publicKey : null,
    log: {
      signature_ed25519: byNode ? null : signature,
      log_proof: logProofText({ index: 0, proof: [], note }),
    },
    ...more,
  }
}

const failed = (given: Readonly<Record<string, unknown>>, known = trust) =>
  verifyReceipt(given, known).checks.flatMap(({ name, ok }) => (ok === false ? [name] : []))

describe('§31: nothing in a file vouches for the file', () => {
  test('a receipt that was signed by a key that is known from elsewhere is valid', () => {
    expect(verifyReceipt(file(facts, node), trust)).toMatchObject({ valid: true })
    expect(verifyReceipt(file({ ...facts, issuer: 'gateway' }, log), trust)).toMatchObject({ valid: true })
  })

  test('a forged receipt is not valid by the key that comes with it', () => {
    const forged = file(facts, forger)
    expect(forged.public_key).toBe(forger.publicKey)
    for (const known of [trust, { ...trust, nodeKeys: [] }]) {
      expect(failed(forged, known)).toEqual(['signature'])
      expect(verifyReceipt(forged, known).valid).toBe(false)
    }
    // Nor by that of another node, or where it says that the gateway issued it.
    expect(failed({ ...forged, public_key: node.publicKey })).toEqual(['signature'])
    const byGateway = file({ ...facts, issuer: 'gateway' }, forger)
    expect(failed(byGateway)).toEqual(['signature'])
    expect(failed({ ...byGateway, public_key: forger.publicKey })).toEqual(['signature'])
  })

  test('what a node signed in place of the receipt is not proven by the key that comes with it', () => {
    const told = textHash(canonicalJson(JSON.parse(receiptText(facts))))
    const besideOk = (signer: SigningKey) => {
      const node_receipt = {
        receipt: JSON.parse(receiptText(facts)) as unknown,
        receipt_hash: told,
        signature_ed25519: signer.sign(receiptMessage(told)),
      }
      const given = file({ ...facts, issuer: 'gateway' }, log, { node_receipt, public_key: signer.publicKey })
      const { ok, detail } = verifyReceipt(given, trust).checks.find(({ name }) => name === 'receipt of the node') ?? {}
      return [ok, detail]
    }
    expect(besideOk(node)).toEqual([true, '9 and 7 tokens'])
    expect(besideOk(forger)).toEqual([null, '9 and 7 tokens, by a key not known here'])
  })
})

test('§36: a receipt of the gateway for a node with an agent says that the node has not signed it, and is valid all the same', () => {
  const said = (more: object) => {
    const { valid, checks } = verifyReceipt(file({ ...facts, issuer: 'gateway' }, log, more), trust)
    return [valid, checks.filter(({ name }) => name === 'node').map(({ ok, detail }) => [ok, detail.split(':')[0]])]
  }
  const named = `NOT SIGNED by its node, which has an agent with the key ${node.publicKey}`
  expect(said({ node_key: node.publicKey })).toEqual([true, [[null, named]]])
  for (const more of [{}, { node_key: null }]) expect(said(more)).toEqual([true, [[null, 'not signed by a node']]])
  expect(verifyReceipt(file(facts, node), trust).checks.some(({ name }) => name === 'node')).toBe(false)
})

describe('§31: a receipt is its facts, under the hash of these', () => {
  const whole = file(facts, node)
  const changed = { ...whole.receipt, completion_tokens: 8 }
  const hashOf = (some: object) => textHash(canonicalJson(some))

  test.each<readonly [string, object]>([
    ['other facts', { receipt: changed }],
    ['another hash', { receipt_hash: hashOf(changed) }],
    ['no hash', { receipt_hash: null }],
    ['the hash in other letters', { receipt_hash: whole.receipt_hash.toUpperCase() }],
    ['facts of a version that is not known', { receipt: { ...whole.receipt, v: 'svc-receipt-v0' } }],
  ])('%s: its hash does not hold', (_what, change) => {
    expect(failed({ ...whole, ...change })).toContain('hash')
  })

  test('a version that is not known is refused, whatever its hash and signature are', () => {
    const strange = { ...whole.receipt, v: 'svc-receipt-v0' }
    const given = { ...whole, receipt: strange, receipt_hash: hashOf(strange) }
    const { detail } = verifyReceipt(given, trust).checks.find(({ name }) => name === 'hash') ?? {}
    expect(failed(given)).toContain('hash')
    expect(detail).toBe('no receipt of a version that is known here')
    expect(verifyReceipt({ ...whole, receipt: changed }, trust).checks[0]?.detail).toBe('its facts have another hash')
    expect(verifyReceipt(whole, trust).checks[0]?.detail).toBe(whole.receipt_hash)
  })

  test('a key that is not known is named, with the option that makes it known', () => {
    const said = (given: object) =>
      verifyReceipt({ ...given }, trust).checks.find(({ name }) => name === 'signature')?.detail
    expect(said(file(facts, forger))).toBe(`the key ${forger.publicKey} is not known here: give it with --key`)
    for (const public_key of [null, node.publicKey]) {
      expect(said({ ...file(facts, forger), public_key })).toBe('no key that is known here made it')
    }
  })

  test('what a node signed in place of the receipt has the hash of its own facts, and a known version', () => {
    const beside = (receipt: object, told: string) => ({
      node_receipt: { receipt, receipt_hash: told, signature_ed25519: node.sign(receiptMessage(told)) },
    })
    const checked = (node_receipt: object) => failed(file({ ...facts, issuer: 'gateway' }, log, node_receipt))
    const own = JSON.parse(receiptText(facts)) as object
    const strange = { ...own, v: 'svc-receipt-v0' }
    expect(checked(beside(own, hashOf(own)))).toEqual([])
    expect(checked(beside({ ...own, completion_tokens: 8 }, hashOf(own)))).toEqual(['receipt of the node'])
    expect(checked(beside(strange, hashOf(strange)))).toEqual(['receipt of the node'])
  })
})

describe('§31: what a client shows is what the receipt commits to, or nothing', () => {
  const salt = new Uint8Array(32).fill(3)
  const request = { model: 'm', messages: [{ role: 'user', content: 'Say ☂.' }] }
  const choice = { index: 0, finish_reason: 'stop', message: { role: 'assistant', content: '☂' } }
  const model = 'm-q4.gguf'
  const binding = new Binding('nonce-of-a-client', salt, commitment(salt, canonicalJson(request)))
  const bound: Receipt = { ...facts, issuer: 'gateway', ...binding.facts(model, [choice]) }
  const shown = {
    salt: Buffer.from(salt).toString('base64url'),
    request,
    response: { choices: [choice] },
    upstream_model: model,
  }
  const failedWith = (change: object) => failed(file(bound, log, { opened: { ...shown, ...change } }))

  test('request, answer and model as they were', () => {
    const { checks } = verifyReceipt(file(bound, log, { opened: shown }), trust)
    for (const name of ['request', 'answer', 'model of the node']) {
      expect(checks).toContainEqual({ name, ok: true, detail: 'it is what the receipt commits to' })
    }
    expect(failedWith({})).toEqual([])
  })

  const said = (change: object) => ({ choices: [{ ...choice, ...change }] })
  test.each([
    ['another request', 'request', { request: { ...request, messages: [{ role: 'user', content: 'Say ☀.' }] } }],
    ['a request with one field more', 'request', { request: { ...request, temperature: 0 } }],
    ['an empty request', 'request', { request: {} }],
    ['another answer', 'answer', { response: said({ message: { role: 'assistant', content: '☀' } }) }],
    ['an answer that ended otherwise', 'answer', { response: said({ finish_reason: 'length' }) }],
    ['an answer without a choice', 'answer', { response: { choices: [] } }],
    ['an answer with one choice more', 'answer', { response: { choices: [choice, { ...choice, index: 1 }] } }],
    ['another model', 'model of the node', { upstream_model: 'm-q8.gguf' }],
    ['a model without a name', 'model of the node', { upstream_model: '' }],
  ])('%s is not what the receipt commits to', (_what, name, change) => {
    expect(failedWith(change)).toEqual([name])
  })

  test('a receipt of an answer that did not arrive whole commits to no answer', () => {
    const broken: Receipt = { ...facts, issuer: 'gateway', ...binding.facts(model, null) }
    expect(failed(file(broken, log, { opened: shown }))).toEqual(['answer'])
  })

  test('without a salt that is one, nothing is opened', () => {
    for (const salt of ['', 'AAAA', null]) expect(failedWith({ salt })).toEqual(['salt'])
    expect(failed(file(bound, log))).toEqual([])
  })

  test('another salt opens none of them', () => {
    const other = Buffer.alloc(32, 4).toString('base64url')
    expect(failedWith({ salt: other })).toEqual(['request', 'answer', 'model of the node'])
  })
})
