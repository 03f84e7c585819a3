import { type Receipt, receiptText, textHash, versionOf } from '../../protocol/receipts/receipt.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'
import { receiptMessage } from '../../protocol/signing/signatures.ts'

/** The members of `svc` by which an agent vouches for its work: `NodeReceipt` of the wire (§14). */
export function signedReceipt(receipt: Receipt, identity: SigningKey): object {
  const text = receiptText(receipt)
  const hash = textHash(text)
  const signature = identity.sign(receiptMessage(hash, versionOf(receipt)))
  return { receipt_hash: hash, receipt: JSON.parse(text), signature_ed25519: signature }
}
