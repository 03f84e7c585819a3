import { brand, receiptVersion } from '../../brand.ts'
import { canonicalJson } from '../json/canonical-json.ts'
import { parseLogProof } from '../log/checkpoint.ts'
import { type LogEntryKind, logLeaf } from '../log/log-entry.ts'
import { rootByInclusion, sameHash } from '../log/merkle-log.ts'
import { payoutLeafOf, toHex, verifyProof } from '../receipts/merkle.ts'
import { textHash } from '../receipts/receipt.ts'
import { decodeBase64Url } from '../signing/base64.ts'
import {
  type Check,
  check,
  checkCheckpoint,
  type GivenConsistency,
  type Trust,
  type Verdict,
  verdict,
} from './trust.ts'

type Fields = Readonly<Record<string, unknown>>
const fieldsOf = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {})
const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null)
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

function consistencyIn(given: Fields): readonly GivenConsistency[] {
  return listOf(given.consistency).map((one) => {
    const { from, to, proof } = fieldsOf(one)
    return { from: Number(from), to: Number(to), proof: listOf(proof).map(String) }
  })
}

/** That an entry is below a checkpoint, and what that checkpoint is worth. */
function logged(kind: LogEntryKind, hash: string, proofText: unknown, given: Fields, trust: Trust) {
  const proof = parseLogProof(textOf(proofText) ?? '')
  if (proof === null) {
    const ok = trust.logNeeded ? false : null
    return { checks: [check('log', ok, 'there is no proof that the log holds it')], checkpoint: null }
  }
  const { checks, checkpoint } = checkCheckpoint(proof.note, trust, consistencyIn(given))
  const root = checkpoint && rootByInclusion(logLeaf({ kind, hash }), proof.index, checkpoint.size, proof.proof)
  const holds = checkpoint !== null && root !== null && sameHash(root, checkpoint.root)
  const detail = holds ? `entry ${proof.index} of ${checkpoint.size}` : 'the proof does not lead to the checkpoint'
  return { checks: [check('log', holds, detail), ...checks], checkpoint }
}

const receiptHead = new TextEncoder().encode(`${receiptVersion}:`)

/** What a node, or the log's key, signs of a receipt. */
function receiptBytes(hash: string): Uint8Array {
  const bytes = new Uint8Array(receiptHead.length + 32)
  bytes.set(receiptHead)
  bytes.set(
    Uint8Array.from(hash.slice(2).match(/../g) ?? [], (pair) => Number.parseInt(pair, 16)),
    receiptHead.length,
  )
  return bytes
}

const signs = (trust: Trust, key: Uint8Array | null, hash: string, signature: string | null): boolean => {
  const bytes = signature === null ? null : decodeBase64Url(signature)
  return key?.length === 32 && bytes?.length === 64 && trust.verify(key, receiptBytes(hash), bytes)
}

function receiptSignature(given: Fields, issuer: unknown, hash: string, trust: Trust): Check {
  const name = 'signature'
  const log = fieldsOf(given.log)
  const signature = textOf(given.signature_ed25519) ?? textOf(log.signature_ed25519)
  const logKey =
    issuer === 'node' ? undefined : trust.logKeys.find(({ publicKey }) => signs(trust, publicKey, hash, signature))
  if (logKey !== undefined) return check(name, true, `by ${logKey.name}`)
  const told = textOf(given.public_key)
  if (signature === null) return check(name, false, 'a receipt without a signature proves nothing')
  const key = trust.nodeKeys.find((one) => signs(trust, decodeBase64Url(one), hash, signature))
  if (key !== undefined) return check(name, true, `by the key ${key}`)
  const unknown = told !== null && !trust.nodeKeys.includes(told)
  return check(
    name,
    false,
    unknown ? `the key ${told} is not known here: give it with --key` : 'no key that is known here made it',
  )
}

const hashPattern = /^0x[0-9a-f]{64}$/

/** An answer of `/v1/billing/receipts/…`. */
function verifyReceipt(given: Fields, trust: Trust): Verdict {
  const facts = fieldsOf(given.receipt)
  const told = textOf(given.receipt_hash) ?? ''
  const hash = textHash(canonicalJson(facts))
  const same = hash === told && hashPattern.test(told)
  const place = logged('receipt', hash, fieldsOf(given.log).log_proof, given, trust)
  const checks = [
    check('hash', same, same ? hash : 'its facts have another hash'),
    receiptSignature(given, facts.issuer, hash, trust),
    ...place.checks,
  ]
  return verdict('receipt', told, checks, place.checkpoint)
}

/** One payout's leaf below the root of its batch, and the batch in the log where the file says so. */
function verifyPayout(given: Fields, roots: readonly string[]): Verdict {
  const [entryId, receiptHash] = [textOf(given.entry_id) ?? '', textOf(given.payout_id)]
  const [payee, amount] = [textOf(given.payee) ?? '', textOf(given.amount_wei) ?? '']
  const root = textOf(given.merkle_root) ?? ''
  let holds = false
  try {
    const leaf = payoutLeafOf({ receiptHash, entryId, payee, amountWei: BigInt(amount) })
    holds = toHex(leaf) === given.leaf && verifyProof(leaf, listOf(given.proof).map(String), root)
  } catch {
    // No address, no amount: no leaf.
  }
  const known = roots.length === 0 ? null : roots.includes(root.toLowerCase())
  const checks = [
    check('leaf', holds, holds ? `${amount} wei to ${payee}` : 'it is not below the root'),
    check('root', known ?? false, known === true ? root : 'compare it with the contract: give its root with --root'),
  ]
  return verdict('payout', entryId, checks, null)
}

function verifyCheckpointFile(given: Fields, trust: Trust): Verdict {
  const { checks, checkpoint } = checkCheckpoint(textOf(given.note) ?? '', trust, consistencyIn(given))
  return verdict('checkpoint', checkpoint?.origin ?? '', checks, checkpoint)
}

/** The one file that somebody has, checked against what they know; null: it is none that can be verified. */
export function verifyBundle(given: unknown, trust: Trust, roots: readonly string[] = []): readonly Verdict[] | null {
  const fields = fieldsOf(given)
  const { object } = fields
  if (object === `${brand}.receipt`) return [verifyReceipt(fields, trust)]
  if (object === `${brand}.payout_proof`) return [verifyPayout(fields, roots)]
  if (object === `${brand}.checkpoint`) return [verifyCheckpointFile(fields, trust)]
  if (Array.isArray(fields.proofs)) return fields.proofs.map((one) => verifyPayout(fieldsOf(one), roots))
  return null
}
