import { createHmac } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promiseTexts } from '../src/actors/promises/promise-batch.ts'
import { payoutProofsMessage } from '../src/http/routes/node-payouts.ts'
import { canonicalJson } from '../src/protocol/json/canonical-json.ts'
import { auditLine } from '../src/protocol/log/audit-line.ts'
import { checkpointText, logProofText } from '../src/protocol/log/checkpoint.ts'
import { auditHeadHash, batchHash, cutoffHash, factsHash } from '../src/protocol/log/entry-facts.ts'
import { logEntryText, logLeaf } from '../src/protocol/log/log-entry.ts'
import {
  consistencyProof,
  foldSubtrees,
  inclusionProof,
  leafHash,
  nodeHash,
  rootAt,
  type Subtree,
  sha256,
} from '../src/protocol/log/merkle-log.ts'
import { noteKeyText, noteText } from '../src/protocol/log/note.ts'
import { logSigner } from '../src/protocol/log/note-signing.ts'
import { readPromise } from '../src/protocol/log/promise.ts'
import { kindOf } from '../src/protocol/money/kinds.ts'
import { loggedFacts, loggedKinds, loggedName } from '../src/protocol/money/logged.ts'
import { Binding, commitment } from '../src/protocol/receipts/binding.ts'
import { MerkleTree, payoutLeafOf, toHex } from '../src/protocol/receipts/merkle.ts'
import { type Receipt, receiptText, textHash, versionOf } from '../src/protocol/receipts/receipt.ts'
import { signingKey } from '../src/protocol/signing/ed25519.ts'
import { payoutReportMessage, receiptMessage } from '../src/protocol/signing/signatures.ts'

/**
 * Writes `docs/vectors.json`: one worked example of each thing that a verifier computes. Usage:
 * `node scripts/bun.mjs scripts/vectors.ts`. A test compares, and both verifiers run them.
 */
const hex = (bytes: Uint8Array) => bytes.toHex()
const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')
const seeds = { log: '11'.repeat(32), witness: '22'.repeat(32), node: '33'.repeat(32) } as const
const origin = 'svc-log/vectors'

const entries = Array.from({ length: 7 }, (_, at) => `entry ${at + 1}`)
const leaves = entries.map((entry) => leafHash(new TextEncoder().encode(entry)))
const subtree = ({ level, index }: Subtree) => {
  let row = leaves.slice(index * 2 ** level, (index + 1) * 2 ** level)
  while (row.length > 1)
    row = Array.from({ length: row.length / 2 }, (_, at) => foldSubtrees(row.slice(2 * at, 2 * at + 2)))
  return row[0] ?? new Uint8Array()
}
const read = async (wanted: readonly Subtree[]) => wanted.map(subtree)

async function treeVectors() {
  const roots = await Promise.all(entries.map((_, at) => rootAt(at + 1, read)))
  return {
    entries,
    leaves: leaves.map(hex),
    roots: roots.map(hex),
    inclusion: { index: 4, size: 7, proof: (await inclusionProof(4, 7, read)).map(hex) },
    consistency: { from: 3, to: 7, proof: (await consistencyProof(3, 7, read)).map(hex) },
  }
}

const facts = {
  issuer: 'gateway',
  requestId: 'req_0001',
  jobId: null,
  kind: 'hosted_chat',
  nodeId: 'node_0001',
  nodeClass: 'gpu',
  runtimeId: 'rt_0001',
  runtimeKind: 'llama.cpp',
  modelId: 'llama-3.1-8b',
  promptTokens: 9,
  completionTokens: 7,
  startedAt: '2026-11-20T15:59:59.000Z',
  completedAt: '2026-11-20T16:00:00.000Z',
} as const

/** What a client sent and got, and the salt that it alone was given. */
const opened = {
  salt: Buffer.from(Array.from({ length: 32 }, (_, at) => at)).toString('base64url'),
  request: { model: 'llama-3.1-8b', messages: [{ role: 'user', content: 'Say ☂.' }], temperature: 0.5 },
  response: {
    choices: [
      { index: 0, message: { role: 'assistant', content: '☂', refusal: null }, finish_reason: 'stop', logprobs: null },
    ],
  },
  upstream_model: 'Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf',
}

function boundFacts(): Receipt {
  const salt = Buffer.from(opened.salt, 'base64url')
  const binding = new Binding('nonce-of-a-client', salt, commitment(salt, canonicalJson(opened.request)))
  return { ...facts, ...binding.facts(opened.upstream_model, opened.response.choices) }
}

/** One file as `receipts export` writes it: a log of two entries, a checkpoint with one witness. */
function receiptBundle(facts: Receipt, opened?: object) {
  const text = receiptText(facts)
  const hash = textHash(text)
  const [log, witness] = [
    logSigner(origin, signingKey(Buffer.from(seeds.log, 'hex'))),
    logSigner('svc-witness/vectors', signingKey(Buffer.from(seeds.witness, 'hex'))),
  ]
  const other = leafHash(new TextEncoder().encode('another entry'))
  const root = nodeHash(other, logLeaf({ kind: 'receipt', hash }))
  const body = checkpointText({ origin, size: 2, root })
  const note = noteText({ text: body, signatures: [log.sign(body), witness.cosign(body, 1_763_654_400)] })
  const logKey = signingKey(Buffer.from(seeds.log, 'hex'))
  return {
    log_key: noteKeyText(log.key),
    witness_key: noteKeyText(witness.cosigningKey),
    entry: logEntryText({ kind: 'receipt', hash }),
    checkpoint: note,
    file: {
      object: 'svc.receipt',
      receipt_hash: hash,
      receipt: JSON.parse(text) as unknown,
      signature_ed25519: null,
      public_key: null,
      log: {
        index: 1,
        size: 2,
        signature_ed25519: logKey.sign(receiptMessage(hash, versionOf(facts))),
        ...(facts.issuedAt == null ? {} : { logged_at: '2026-11-20T16:00:04.125Z' }),
        log_proof: logProofText({ index: 1, proof: [other], note }),
      },
      ...(opened === undefined ? {} : { opened }),
    },
  }
}

/** A receipt in a node's name without its signature, from before nodes signed all: it stands before the log's cutoff. */
function receiptBeforeCutoff() {
  const text = receiptText({ ...facts, issuer: 'node', kind: 'private_job', jobId: 'job_0001' })
  const hash = textHash(text)
  const log = logSigner(origin, signingKey(Buffer.from(seeds.log, 'hex')))
  const witness = logSigner('svc-witness/vectors', signingKey(Buffer.from(seeds.witness, 'hex')))
  const leaf = logLeaf({ kind: 'receipt', hash })
  const cutoff = { size: 1, root: hex(leaf), unsigned: 1, unsignedHash: `0x${hex(sha256(`${hash}\n`))}` }
  const after = logLeaf({ kind: 'cutoff', hash: cutoffHash(cutoff) })
  const body = checkpointText({ origin, size: 2, root: nodeHash(leaf, after) })
  const note = noteText({ text: body, signatures: [log.sign(body), witness.cosign(body, 1_763_654_400)] })
  const { unsignedHash: unsigned_hash, ...bound } = cutoff
  return {
    entry: logEntryText({ kind: 'cutoff', hash: cutoffHash(cutoff) }),
    file: {
      object: 'svc.receipt',
      receipt_hash: hash,
      receipt: JSON.parse(text) as unknown,
      signature_ed25519: null,
      public_key: null,
      log: {
        index: 0,
        size: 2,
        signature_ed25519: null,
        log_proof: logProofText({ index: 0, proof: [after], note }),
        cutoff: { ...bound, unsigned_hash, proof: [base64(leaf)] },
      },
    },
  }
}

/** As they stand in `svc.receipt`: one that was signed alone, and the second of three that share a signature. */
function promiseVectors() {
  const key = signingKey(Buffer.from(seeds.log, 'hex'))
  const stamp = { log: origin, ms: Date.UTC(2026, 10, 20, 16, 0, 0, 123) }
  const made = (...digits: number[]) => {
    const hashes = digits.map((digit) => `0x${String(digit).repeat(64)}`)
    return promiseTexts(stamp, hashes, (text) => key.sign(text)).map((text) => {
      const receipt: unknown = JSON.parse(text)
      return { signed: new TextDecoder().decode(readPromise(receipt)?.message), receipt }
    })
  }
  return [...made(1), made(2, 3, 4)[1]]
}

function nodeReceipt() {
  const text = receiptText({ ...facts, issuer: 'node' })
  const key = signingKey(Buffer.from(seeds.node, 'hex'))
  const hash = textHash(text)
  return { text, hash, public_key: key.publicKey, signature_ed25519: key.sign(receiptMessage(hash)) }
}

function payoutVectors() {
  const payouts = [1, 2, 3].map((at) => ({
    receiptHash: `0x${String(at).repeat(64)}`,
    entryId: `pay_${at}`,
    payee: `0x${String(at).repeat(40)}`,
    amountWei: BigInt(at) * 10n ** 18n,
  }))
  const tree = MerkleTree.of(payouts.map(payoutLeafOf))
  return {
    root: tree.root(),
    payouts: payouts.map((payout) => {
      const leaf = payoutLeafOf(payout)
      const { receiptHash: payout_id, payee, amountWei } = payout
      return { payout_id, payee, amount_wei: amountWei.toString(), leaf: toHex(leaf), proof: tree.proof(leaf) }
    }),
  }
}

/** One of each kind that the log holds. */
const ledgerFacts = Object.fromEntries(
  loggedKinds.map((kind, at) => {
    const entry = {
      kind,
      entryId: `led_000${at + 1}`,
      customerId: 'cus_0001',
      amountWei: String(Math.round(1000 * 0.3 ** at)),
      reason: 'paid',
      receiptHash: kindOf(kind).refersTo.includes('receipt') ? `0x${'ef'.repeat(32)}` : null,
      createdAt: new Date(Date.UTC(2026, 10, 20, 16, 5 * at)),
    }
    return [loggedName(kind), loggedFacts(entry)] as const
  }),
)

const entryHashes = {
  ...Object.fromEntries(Object.entries(ledgerFacts).map(([name, facts]) => [name, factsHash(facts)])),
  audit: auditHeadHash({ writerId: 'wrk_0001', ordinal: 1, seq: 5, mac: 'ab'.repeat(32) }),
  cutoff: cutoffHash({ size: 7, root: 'ab'.repeat(32), unsigned: 3, unsignedHash: `0x${'cd'.repeat(32)}` }),
  batch: batchHash({ batchId: 'bat_0001', merkleRoot: `0x${'cd'.repeat(32)}`, payoutCount: 3, totalAmountWei: '6' }),
}

/** Texts that a node signs, as they stand after the defaults were filled in; the key is the node's of `seeds`. */
function signedTexts() {
  const key = signingKey(Buffer.from(seeds.node, 'hex'))
  const asked = { nodeId: 'node_0001', signedAt: '2026-11-20T16:00:00Z', nonce: 'A'.repeat(22) }
  const texts = {
    payout_report: payoutReportMessage({ ...asked, windowDays: '30', limit: '100' }),
    payout_proofs: payoutProofsMessage(asked),
  }
  const signed = Object.entries(texts).map(
    ([name, text]) => [name, { text, signature_ed25519: key.sign(text) }] as const,
  )
  return { public_key: key.publicKey, ...Object.fromEntries(signed) }
}

/** One event of the audit under the key of the line before. */
function auditLineVector() {
  const [key, previous] = ['an audit key', '00'.repeat(32)]
  const facts = { eventId: 'apv_0001', action: 'customer.create', seq: 1, writerId: 'wrk_0001', reason: null }
  const text = auditLine('approval', { ...facts, previous })
  return { key, kind: 'approval', facts, previous, mac: createHmac('sha256', key).update(text).digest('hex') }
}

function webhookVector() {
  const secret = Buffer.from('a webhook secret')
  const parts = { id: 'msg_job_0001', timestamp: 1_763_654_400, body: '{"type":"private_job.completed"}' }
  const text = `${parts.id}.${parts.timestamp}.${parts.body}`
  const signature = createHmac('sha256', secret).update(text).digest('base64')
  return { secret: `whsec_${secret.toString('base64')}`, ...parts, signature: `v1,${signature}` }
}

export async function vectorsText(): Promise<string> {
  const all = {
    about:
      'Worked examples for docs/protocol.md; seeds are Ed25519 seeds in hex, hashes are hex, proofs of notes base64',
    seeds,
    tree: await treeVectors(),
    entries: entryHashes,
    ledger_facts: ledgerFacts,
    receipt: receiptBundle(facts),
    receipt_v2: receiptBundle(boundFacts(), opened),
    receipt_v3: receiptBundle({ ...facts, issuedAt: '2026-11-20T16:00:00.002Z' }),
    receipt_before_cutoff: receiptBeforeCutoff(),
    node_receipt: nodeReceipt(),
    promises: promiseVectors(),
    payouts: payoutVectors(),
    signed_texts: signedTexts(),
    audit_line: auditLineVector(),
    webhook: webhookVector(),
    empty_leaf: base64(leafHash(new Uint8Array())),
  }
  return `${JSON.stringify(all, null, 2)}\n`
}

if (import.meta.main) writeFileSync(join(resolve(import.meta.dir, '..'), 'docs/vectors.json'), await vectorsText())
