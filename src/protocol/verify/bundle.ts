import { brand } from '../../brand.ts'
import { payoutLeafOf, toHex, verifyProof } from '../receipts/merkle.ts'
import { verifyAudit } from './audit.ts'
import { verifyEnvelope } from './envelope.ts'
import { type Fields, fieldsOf, hashableJson, listOf, textOf, textsOf } from './given.ts'
import { growthIn } from './logged.ts'
import { promiseObject, promisesIn, verifyPromise } from './promise.ts'
import { verifyReceipt } from './receipt.ts'
import { check, checkCheckpoint, type Trust, type Verdict, verdict } from './trust.ts'

const amountPattern = /^(0|[1-9][0-9]{0,77})$/

/** One payout's leaf below the root of its batch, and the batch in the log where the file says so. */
function verifyPayout(given: Fields, roots: readonly string[]): Verdict {
  const [entryId, receiptHash] = [textOf(given.entry_id) ?? '', textOf(given.payout_id)]
  const [payee, amount] = [textOf(given.payee) ?? '', textOf(given.amount_wei) ?? '']
  const root = textOf(given.merkle_root) ?? ''
  let holds = false
  try {
    // BigInt reads blanks, hexadecimal and nothing at all, too.
    if (!amountPattern.test(amount)) throw new RangeError('no amount')
    const leaf = payoutLeafOf({ receiptHash, entryId, payee, amountWei: BigInt(amount) })
    holds = toHex(leaf) === given.leaf && verifyProof(leaf, textsOf(given.proof), root)
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
  const { checks, checkpoint } = checkCheckpoint(textOf(given.note) ?? '', trust, growthIn(given))
  return verdict('checkpoint', checkpoint?.origin ?? '', checks, checkpoint)
}

/** A file's text: JSON, or a checkpoint as the log shows it; undefined: neither. */
export function readGiven(text: string): unknown {
  if (!text.startsWith(`${brand}-log/`)) return hashableJson(text)
  return { object: `${brand}.checkpoint`, note: text.endsWith('\n') ? text : `${text}\n` }
}

/** How many files one bundle may have. */
const filesMax = 1_000

function verifyAll(files: readonly unknown[], trust: Trust, roots: readonly string[]): readonly Verdict[] | null {
  if (files.length === 0 || files.length > filesMax) return null
  const all = files.map((one) => (isBundle(one) ? null : verifyOne(fieldsOf(one), trust, roots)))
  return all.includes(null) ? null : all.flatMap((one) => one ?? [])
}

/** A bundle holds files, never another bundle. */
const isBundle = (value: unknown) => fieldsOf(value).object === `${brand}.bundle`

/**
 * Checks a user's file against the keys and checkpoints that the user trusts; null if it is not a kind of file that can
 * be verified.
 */
export function verifyBundle(given: unknown, known: Trust, roots: readonly string[] = []): readonly Verdict[] | null {
  const fields = fieldsOf(given)
  const trust = { ...known, shown: new Map() }
  return isBundle(fields) ? verifyAll(listOf(fields.files), trust, roots) : verifyOne(fields, trust, roots)
}

function verifyOne(fields: Fields, trust: Trust, roots: readonly string[]): readonly Verdict[] | null {
  const { object } = fields
  if (object === `${brand}.receipt`) return [verifyReceipt(fields, trust)]
  if (object === `${brand}.payout_proof`) return [verifyPayout(fields, roots)]
  if (object === `${brand}.checkpoint`) return [verifyCheckpointFile(fields, trust)]
  if (object === `${brand}.audit_export`) return [verifyAudit(fields, trust)]
  if (object === promiseObject) return [verifyPromise(fields, trust)]
  if (object === `${brand}.envelope`) return [verifyEnvelope(fields, trust)]
  const promises = promisesIn(fields)
  if (promises.length > 0) return promises.map((one) => verifyPromise(one, trust))
  if (Array.isArray(fields.proofs)) return fields.proofs.map((one) => verifyPayout(fieldsOf(one), roots))
  return null
}
