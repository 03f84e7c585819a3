import { Value } from '@sinclair/typebox/value'
import { receiptVersion } from '../brand.ts'
import { canonicalJson } from '../protocol/canonical-json.ts'
import { verifyKey } from '../protocol/ed25519.ts'
import { fromHex, payoutLeaf, toHex, verifyProof } from '../protocol/merkle.ts'
import { textHash } from '../protocol/receipt.ts'
import { PayoutProof } from '../protocol/wire/money.ts'
import { action, type Verb } from './action.ts'
import { CliFailure, UsageFault } from './failure.ts'
import { givenText } from './given-text.ts'
import type { Session } from './session.ts'
import { fields } from './table.ts'

const fileOperand = (what: string) => ({ name: 'FILE', about: `${what}; - is standard input` }) as const

async function readJson(session: Session, file: string): Promise<unknown> {
  const text = await givenText(session, 'FILE', file === '-' ? '-' : `@${file}`)
  try {
    return JSON.parse(text)
  } catch {
    throw new CliFailure(`${file} holds no JSON.`)
  }
}

/** What a node signs: `svc-receipt-v1:` and the 32 bytes of the hash (decisions §14). */
export function receiptMessage(hash: string): Uint8Array {
  return Buffer.concat([Buffer.from(`${receiptVersion}:`), fromHex(hash, 32)])
}

function signatureOk(hash: string, signature: string | undefined, publicKey: string | undefined): boolean | null {
  if (signature === undefined && publicKey === undefined) return null
  if (signature === undefined || publicKey === undefined) {
    throw new UsageFault('--signature and --public-key belong together')
  }
  const key = verifyKey(publicKey)
  if (key === null) throw new UsageFault('--public-key is no Ed25519 key in base64url')
  return key.verify(receiptMessage(hash), signature)
}

const receipt = action({
  about: 'Check a receipt: its hash, and the signature of its node. Asks nobody',
  operands: [fileOperand('The receipt as JSON')],
  options: {
    hash: { kind: 'text', value: '0x…', about: 'The receipt_hash that was told' },
    signature: { kind: 'text', value: 'BASE64URL', about: "The node's signature" },
    'public-key': { kind: 'text', value: 'BASE64URL', about: "The node's Ed25519 key" },
  },
  run: async ({ operands, options, json }, session) => {
    const given = await readJson(session, operands[0] ?? '')
    const isReceipt = typeof given === 'object' && given !== null && (given as { v?: unknown }).v === receiptVersion
    if (!isReceipt) throw new CliFailure(`This is no receipt of version ${receiptVersion}.`)
    const hash = textHash(canonicalJson(given))
    const hashMatches = options.hash === undefined ? null : options.hash.toLowerCase() === hash
    const signatureValid = signatureOk(hash, options.signature, options['public-key'])
    const valid = hashMatches !== false && signatureValid !== false
    session.show(json, { receipt_hash: hash, hash_matches: hashMatches, signature_valid: signatureValid, valid }, () =>
      fields(session.terminal, [
        ['Receipt hash', hash],
        ['As told', hashMatches],
        ['Signature', signatureValid],
        ['Result', valid ? 'valid' : 'NOT VALID'],
      ]),
    )
    return valid ? undefined : 1
  },
})

function proofsIn(given: unknown): readonly PayoutProof[] {
  const listed = (given as { proofs?: unknown } | null)?.proofs
  const all = Array.isArray(listed) ? listed : [given]
  for (const one of all) if (!Value.Check(PayoutProof, one)) throw new CliFailure('This is no payout proof.')
  return all as readonly PayoutProof[]
}

function proofHolds(proof: PayoutProof, root: string): boolean {
  const { entry_id: entryId, payee, amount_wei: amount } = proof
  const leaf = payoutLeaf({ entryId, payee, amountWei: BigInt(amount) })
  return toHex(leaf) === proof.leaf && verifyProof(leaf, proof.proof, root)
}

const payout = action({
  about: 'Check that payouts are in the root of their batch. Asks nobody',
  operands: [fileOperand('What payouts proofs --json printed, or one of its proofs')],
  options: {
    root: { kind: 'text', value: '0x…', about: 'The root of the contract’s event; else the one in the file' },
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

export const verify: Verb = { name: 'verify', about: 'Proofs, checked offline', actions: { receipt, payout } }
