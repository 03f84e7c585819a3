import { type Receipt, receiptText, textHash, versionOf } from '../../protocol/receipts/receipt.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'
import { receiptMessage } from '../../protocol/signing/signatures.ts'
import type { NodeReceipt } from '../../protocol/wire/nodes/agent.ts'
import type { KeptReceipts } from './kept-receipts.ts'

/** The members of `svc` by which an agent vouches for its work: `NodeReceipt` of the wire (§14). */
export type SignedReceipt = Pick<NodeReceipt, 'receipt_hash' | 'receipt' | 'signature_ed25519'>

/** Signs for this node's work, and remembers what it has signed (§36). */
export type SignReceipt = (receipt: Receipt) => SignedReceipt

export const createReceiptSigner =
  (identity: SigningKey, kept: Pick<KeptReceipts, 'add'>): SignReceipt =>
  (receipt) => {
    const text = receiptText(receipt)
    const hash = textHash(text)
    const signature = identity.sign(receiptMessage(hash, versionOf(receipt)))
    kept.add({ requestId: receipt.requestId, hash, ms: Date.now() })
    return { receipt_hash: hash, receipt: JSON.parse(text), signature_ed25519: signature }
  }
