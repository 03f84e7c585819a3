import { canonicalJson } from '../../src/protocol/json/canonical-json.ts'
import { checkpointText, logProofText } from '../../src/protocol/log/checkpoint.ts'
import { cutoffHash, forkHash } from '../../src/protocol/log/entry-facts.ts'
import { writtenFork } from '../../src/protocol/log/fork-proof.ts'
import { type LogEntry, logLeaf } from '../../src/protocol/log/log-entry.ts'
import {
  consistencyProof,
  foldSubtrees,
  inclusionProof,
  rootAt,
  type Subtree,
  sha256,
  type TreeHash,
} from '../../src/protocol/log/merkle-log.ts'
import { type NoteSignature, noteKeyText, noteText } from '../../src/protocol/log/note.ts'
import { logSigner } from '../../src/protocol/log/note-signing.ts'
import { Binding, commitment } from '../../src/protocol/receipts/binding.ts'
import { MerkleTree, payoutLeafOf, toHex } from '../../src/protocol/receipts/merkle.ts'
import { type Receipt, receiptText, textHash } from '../../src/protocol/receipts/receipt.ts'
import { signingKey } from '../../src/protocol/signing/ed25519.ts'
import { receiptMessage } from '../../src/protocol/signing/signatures.ts'

/** The true files from which the table of mutations makes its rows. All keys are made from fixed seeds. */

const keyOf = (byte: number) => signingKey(new Uint8Array(32).fill(byte))
const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')
export const origin = 'svc-log/mutations'
export const later = `${origin}/2`
export const nodeKey = keyOf(0x33)
export const logKey = keyOf(0x11)
export const log = logSigner(origin, logKey)
export const laterLog = logSigner(later, logKey)
export const stranger = logSigner('stranger.example/log', keyOf(0x44))
export const impostor = logSigner(origin, keyOf(0x45))
export const witnesses = [1, 2, 3].map((at) => logSigner(`witness.example/${at}`, keyOf(0x20 + at)))
/** 2025-11-20T16:00:00Z. */
export const seenAt = 1_763_654_400
const logged_at = '2026-11-20T16:00:04.125Z'

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
} as const satisfies Receipt

const opened = {
  salt: Buffer.from(Array.from({ length: 32 }, (_, at) => at)).toString('base64url'),
  request: {
    model: 'llama-3.1-8b',
    messages: [{ role: 'user', content: 'Say ☂.' }],
    temperature: 0.5,
    top_p: 1e-7,
    seed: 4e21,
  },
  response: {
    choices: [{ index: 0, message: { role: 'assistant', content: '☂', refusal: null }, finish_reason: 'stop' }],
  },
  upstream_model: 'Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf',
}

function boundFacts(): Receipt {
  const salt = Buffer.from(opened.salt, 'base64url')
  const binding = new Binding('nonce-of-a-client', salt, commitment(salt, canonicalJson(opened.request)))
  return { ...facts, requestId: 'req_0002', ...binding.facts(opened.upstream_model, opened.response.choices) }
}

const timedText = receiptText({ ...boundFacts(), requestId: 'req_0005', issuedAt: '2026-11-20T16:00:00.002Z' })
const texts = {
  gateway: receiptText(facts),
  bound: receiptText(boundFacts()),
  node: receiptText({ ...facts, issuer: 'node', requestId: 'req_0003' }),
  unsigned: receiptText({ ...facts, issuer: 'node', requestId: 'req_0004' }),
  beside: receiptText({ ...facts, issuer: 'node', requestId: 'req_0001', completionTokens: 700 }),
  timed: timedText,
  untimed: canonicalJson({ ...JSON.parse(timedText), issued_at: undefined }),
}
const hashes = Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, textHash(text)])) as Record<
  keyof typeof texts,
  string
>

/** A log whose tree is computed from its leaves. */
class Tree {
  constructor(readonly leaves: readonly TreeHash[]) {}
  private readonly read = async (wanted: readonly Subtree[]) =>
    wanted.map(({ level, index }) => {
      let row = this.leaves.slice(index * 2 ** level, (index + 1) * 2 ** level)
      while (row.length > 1)
        row = Array.from({ length: row.length / 2 }, (_, at) => foldSubtrees(row.slice(2 * at, 2 * at + 2)))
      return row[0] ?? new Uint8Array()
    })
  root(size: number): Promise<TreeHash> {
    return rootAt(size, this.read)
  }
  inclusion(at: number, size: number) {
    return inclusionProof(at, size, this.read)
  }
  async consistency(from: number, to: number) {
    return { from, to, proof: (await consistencyProof(from, to, this.read)).map(base64) }
  }
}

const receipt = (hash: string): LogEntry => ({ kind: 'receipt', hash })
const other = (byte: string): LogEntry => ({ kind: 'books', hash: `0x${byte.repeat(32)}` })
export const sizes = { seen: 3, now: 7 } as const

async function trees() {
  const first = [receipt(hashes.untimed), receipt(hashes.unsigned), receipt(hashes.timed)].map(logLeaf)
  const cutoff = {
    size: first.length,
    root: (await new Tree(first).root(first.length)).toHex(),
    unsigned: 1,
    unsignedHash: `0x${sha256(`${hashes.unsigned}\n`).toHex()}`,
  }
  const entries = [
    ...first,
    ...[{ kind: 'cutoff' as const, hash: cutoffHash(cutoff) }, receipt(hashes.gateway)].map(logLeaf),
    ...[receipt(hashes.bound), receipt(hashes.node)].map(logLeaf),
  ]
  const tree = new Tree(entries)
  // What was lost of the log under its first name: another sixth and seventh entry, which somebody saw.
  const lostTree = new Tree([...entries.slice(0, 5), logLeaf(other('0a')), logLeaf(other('0b'))])
  const lost = await noteOf(origin, lostTree, 7, [log.sign])
  const forkAt = sizes.now
  const forkFacts = { origin: later, size: forkAt, root: (await tree.root(forkAt)).toHex(), lost }
  const forked = new Tree([
    ...entries,
    logLeaf({ kind: 'fork', hash: forkHash({ ...forkFacts, lostNote: lost }) }),
    logLeaf(other('0c')),
  ])
  const split = new Tree([...entries.slice(0, 3), ...entries.slice(4), logLeaf(other('0d'))])
  return { tree, cutoff, lostTree, lost, forkFacts, forked, split }
}

type Signing = (text: string) => NoteSignature
const cosigning: readonly Signing[] = witnesses.map((one) => (text) => one.cosign(text, seenAt))

async function noteOf(name: string, tree: Tree, size: number, signers: readonly Signing[]): Promise<string> {
  const text = checkpointText({ origin: name, size, root: await tree.root(size) })
  return noteText({ text, signatures: signers.map((sign) => sign(text)) })
}

const signedBy = (text: string, hash: string, key: typeof logKey) =>
  key.sign(receiptMessage(hash, String((JSON.parse(text) as { v: unknown }).v)))

export async function bases() {
  const { tree, cutoff, lostTree, lost, forkFacts, forked, split } = await trees()
  const note = await noteOf(origin, tree, sizes.now, [log.sign, ...cosigning])
  const proofAt = async (at: number) => logProofText({ index: at, proof: await tree.inclusion(at, sizes.now), note })
  const file = async (
    name: keyof typeof texts,
    at: number,
    signature: string | null,
    byNode: boolean,
    more: object = {},
  ) => ({
    object: 'svc.receipt',
    receipt_hash: hashes[name],
    receipt: JSON.parse(texts[name]) as object,
    signature_ed25519: byNode ? signature : null,
    public_key: byNode ? nodeKey.publicKey : null,
    log: {
      index: at,
      size: sizes.now,
      signature_ed25519: byNode ? null : signature,
      log_proof: await proofAt(at),
      ...more,
    },
  })
  const growth = { consistency: [await tree.consistency(sizes.seen, sizes.now)], forks: [] }
  const gateway = await file('gateway', 4, signedBy(texts.gateway, hashes.gateway, logKey), false)
  const { unsignedHash: unsigned_hash, ...bound } = cutoff
  const cutoffProof = (await tree.inclusion(cutoff.size, sizes.now)).map(base64)
  const node_receipt = {
    receipt: JSON.parse(texts.beside) as object,
    receipt_hash: hashes.beside,
    signature_ed25519: nodeKey.sign(receiptMessage(hashes.beside)),
  }
  const forkProof = writtenFork({ ...forkFacts, proof: await forked.inclusion(forkFacts.size, 9) })
  const payouts = payoutFiles()
  const files = {
    noted: { object: 'svc.checkpoint', note },
    gateway,
    bound: { ...(await file('bound', 5, signedBy(texts.bound, hashes.bound, logKey), false)), opened },
    timed: { ...(await file('timed', 2, signedBy(texts.timed, hashes.timed, logKey), false, { logged_at })), opened },
    untimed: await file('untimed', 0, signedBy(texts.untimed, hashes.untimed, logKey), false, { logged_at }),
    node: await file('node', 6, signedBy(texts.node, hashes.node, nodeKey), true),
    beside: { ...gateway, node_receipt },
    unsigned: await file('unsigned', 1, null, true, { cutoff: { ...bound, unsigned_hash, proof: cutoffProof } }),
    grown: { ...gateway, ...growth },
    payout: payouts[1] ?? {},
    payouts: { object: 'svc.node.payout_proofs', proofs: payouts },
    bundle: { object: 'svc.bundle', files: [gateway, payouts[0] ?? {}] },
    two_logs: {
      object: 'svc.bundle',
      files: [
        { object: 'svc.checkpoint', note },
        { object: 'svc.checkpoint', note: await noteOf(origin, split, sizes.now, [log.sign, ...cosigning]) },
      ],
    },
    forked: {
      object: 'svc.checkpoint',
      note: await noteOf(later, forked, 9, [laterLog.sign, ...cosigning]),
      consistency: [await forked.consistency(sizes.seen, 9), await forked.consistency(sizes.now, 9)],
      forks: [forkProof],
    },
  }
  const checkpointOf = async (name: string, from: Tree, size: number) =>
    checkpointText({ origin: name, size, root: await from.root(size) })
  return {
    texts: {
      ...Object.fromEntries(Object.entries(files).map(([name, value]) => [name, JSON.stringify(value)])),
      checkpoint: note,
    } as Readonly<Record<string, string>>,
    seen: {
      before: await checkpointOf(origin, tree, sizes.seen),
      now: await checkpointOf(origin, tree, sizes.now),
      split: await checkpointOf(origin, split, sizes.seen + 2),
      splitNow: await checkpointOf(origin, split, sizes.now),
      larger: await checkpointOf(origin, split, sizes.now + 1),
      lost: await checkpointOf(origin, lostTree, 7),
      lostOther: await checkpointOf(origin, lostTree, 6),
      forked: await checkpointOf(later, forked, 9),
    },
    lost,
    entryHash: hashes,
  }
}

function payoutFiles() {
  const payouts = [1, 2, 3].map((at) => ({
    receiptHash: `0x${String(at).repeat(64)}`,
    entryId: `pay_${at}`,
    payee: `0x${'abcdef1234'.slice(at, at + 4).repeat(10)}`,
    amountWei: BigInt(at) * 10n ** 18n,
  }))
  const tree = MerkleTree.of(payouts.map(payoutLeafOf))
  return payouts.map((payout) => ({
    object: 'svc.payout_proof',
    entry_id: payout.entryId,
    payout_id: payout.receiptHash,
    payee: payout.payee,
    amount_wei: payout.amountWei.toString(),
    leaf: toHex(payoutLeafOf(payout)),
    proof: tree.proof(payoutLeafOf(payout)),
    merkle_root: tree.root(),
  }))
}

export const keyTexts = {
  log: noteKeyText(log.key),
  later: noteKeyText(laterLog.key),
  stranger: noteKeyText(stranger.key),
  witnesses: witnesses.map(({ cosigningKey }) => noteKeyText(cosigningKey)),
}
