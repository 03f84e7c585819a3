import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { receiptVersion } from '../../../brand.ts'
import { canonicalJson } from '../../../protocol/json/canonical-json.ts'
import { foreignJson } from '../../../protocol/json/foreign-json.ts'
import { fromHex, payoutLeaf, toHex, verifyProof } from '../../../protocol/receipts/merkle.ts'
import { textHash } from '../../../protocol/receipts/receipt.ts'
import { verifyKey } from '../../../protocol/signing/ed25519.ts'
import { receiptMessage } from '../../../protocol/signing/signatures.ts'
import { PayoutProof } from '../../../protocol/wire/money/money.ts'
import { type CustomerReceipt, ReceiptProof } from '../../../protocol/wire/money/receipt.ts'
import { action, type Verb } from '../../frame/action.ts'
import { CliFailure, UsageFault } from '../../frame/failure.ts'
import { givenText } from '../../frame/given-text.ts'
import type { Session } from '../../frame/session.ts'
import { fields } from '../../frame/table.ts'

const fileOperand = (what: string) => ({ name: 'FILE', about: `${what}. A dash (-) reads standard input.` }) as const

async function readJson(session: Session, file: string): Promise<unknown> {
  const text = await givenText(session, 'FILE', file === '-' ? '-' : `@${file}`)
  const value = foreignJson(text)
  if (value === undefined) throw new CliFailure(`${file} does not contain JSON.`)
  return value
}

function signatureOk(hash: string, signature: string | undefined, publicKey: string | undefined): boolean | null {
  if (signature === undefined && publicKey === undefined) return null
  if (signature === undefined || publicKey === undefined) {
    throw new UsageFault('Give --signature and --public-key together')
  }
  const key = verifyKey(publicKey)
  if (key === null) throw new UsageFault('--public-key is not an Ed25519 key in base64url')
  return key.verify(receiptMessage(hash), signature)
}

/** The contents of a file about one receipt: its facts, what was claimed about them, and its proof. */
interface GivenReceipt {
  /** null if the file contains a proof alone. */
  readonly hash: string | null
  readonly told: string | undefined
  readonly signature: string | undefined
  readonly publicKey: string | undefined
  readonly inclusion: { readonly root: string; readonly proof: readonly string[] } | null
}

const Inclusion = Type.Pick(ReceiptProof, ['receipt_hash', 'pending_root', 'proof'])
const nothingTold = { told: undefined, signature: undefined, publicKey: undefined, inclusion: null } as const

/** The receipt itself, or an answer of `/v1/billing/receipts/…` or `/v1/public/receipts/…`. */
function receiptIn(given: unknown): GivenReceipt {
  if ((given as { v?: unknown } | null)?.v === receiptVersion) {
    return { hash: textHash(canonicalJson(given)), ...nothingTold }
  }
  if (!Value.Check(Inclusion, given)) {
    throw new CliFailure(`This is neither a receipt of version ${receiptVersion} nor a proof of one.`)
  }
  const { receipt: facts, signature_ed25519: signature, public_key: publicKey } = given as Partial<CustomerReceipt>
  return {
    hash: facts === undefined ? null : textHash(canonicalJson(facts)),
    told: given.receipt_hash,
    signature: signature ?? undefined,
    publicKey: publicKey ?? undefined,
    inclusion: given.proof === null ? null : { root: given.pending_root, proof: given.proof },
  }
}

function inRoot({ inclusion }: GivenReceipt, hash: string, root: string | undefined): boolean | null {
  if (inclusion === null) return root === undefined ? null : false
  return verifyProof(fromHex(hash, 32), inclusion.proof, root ?? inclusion.root)
}

const receipt = action({
  about: 'Check a receipt: its hash, its node’s signature and its place below the public root. Works offline',
  operands: [fileOperand('The receipt, or the answer of /v1/billing/receipts/HASH or /v1/public/receipts/HASH')],
  options: {
    hash: { kind: 'text', value: '0x…', about: 'The receipt hash that you expect (default: the one in the file)' },
    signature: { kind: 'text', value: 'BASE64URL', about: 'The node’s signature (default: the one in the file)' },
    'public-key': { kind: 'text', value: 'BASE64URL', about: 'The node’s Ed25519 key (default: the one in the file)' },
    root: { kind: 'text', value: '0x…', about: 'The pending_root of the public report (default: the one in the file)' },
  },
  run: async ({ operands, options, json }, session) => {
    const given = receiptIn(await readJson(session, operands[0] ?? ''))
    const told = options.hash?.toLowerCase() ?? given.told
    const hash = given.hash ?? told ?? ''
    const hashMatches = given.hash === null || told === undefined ? null : told === hash
    const signature = signatureOk(hash, options.signature ?? given.signature, options['public-key'] ?? given.publicKey)
    const included = inRoot(given, hash, options.root)
    const valid = hashMatches !== false && signature !== false && included !== false
    const checked = { receipt_hash: hash, hash_matches: hashMatches, signature_valid: signature, in_root: included }
    session.show(json, { ...checked, valid }, () =>
      fields(session.terminal, [
        ['Receipt hash', hash],
        ['As told', hashMatches],
        ['Signature', signature],
        ['In the root', included],
        ['Result', valid ? 'valid' : 'NOT VALID'],
      ]),
    )
    return valid ? undefined : 1
  },
})

function proofsIn(given: unknown): readonly PayoutProof[] {
  const listed = (given as { proofs?: unknown } | null)?.proofs
  const all = Array.isArray(listed) ? listed : [given]
  for (const one of all) if (!Value.Check(PayoutProof, one)) throw new CliFailure('This is not a payout proof.')
  return all as readonly PayoutProof[]
}

function proofHolds(proof: PayoutProof, root: string): boolean {
  const { entry_id: entryId, payee, amount_wei: amount } = proof
  const leaf = payoutLeaf({ entryId, payee, amountWei: BigInt(amount) })
  return toHex(leaf) === proof.leaf && verifyProof(leaf, proof.proof, root)
}

const payout = action({
  about: 'Check that payouts are in the root of their batch. Works offline',
  operands: [fileOperand('The output of `payouts proofs --json`, or one proof of it')],
  options: {
    root: { kind: 'text', value: '0x…', about: 'The root in the contract’s event (default: the one in the file)' },
  },
  run: async ({ operands, options, json }, session) => {
    const proofs = proofsIn(await readJson(session, operands[0] ?? ''))
    const checked = proofs.map((proof) => ({
      entry_id: proof.entry_id,
      payee: proof.payee,
      amount_wei: proof.amount_wei,
      valid: proofHolds(proof, options.root ?? proof.merkle_root),
    }))
    const valid = checked.length > 0 && checked.every((one) => one.valid)
    session.show(json, { valid, payouts: checked }, () =>
      fields(session.terminal, [
        ...checked.map((one) => [one.entry_id, one.valid ? `${one.amount_wei} wei` : 'NOT IN THE ROOT'] as const),
        ['Result', valid ? 'valid' : 'NOT VALID'],
      ]),
    )
    return valid ? undefined : 1
  },
})

export const verify: Verb = { name: 'verify', about: 'Check proofs offline', actions: { receipt, payout } }
