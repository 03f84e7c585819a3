import { brand, headers } from '../../brand.ts'
import { type Receipt, receiptText, textHash, versionOf } from '../../protocol/receipts/receipt.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'
import { receiptMessage } from '../../protocol/signing/signatures.ts'
import type { NodeReceipt } from '../../protocol/wire/nodes/agent.ts'
import { isoTime } from '../../time.ts'
import type { KeptReceipts } from './kept-receipts.ts'

/** The members of `svc` by which an agent vouches for its work: `NodeReceipt` of the wire (§14). */
export type SignedReceipt = Pick<NodeReceipt, 'receipt_hash' | 'receipt' | 'signature_ed25519'>

/** Signs for this node's work, and remembers what it has signed (§36). `timed`: the receipt says when, which the gateway can read. */
export type SignReceipt = (receipt: Receipt, timed: boolean) => SignedReceipt

export const createReceiptSigner =
  (identity: SigningKey, kept: Pick<KeptReceipts, 'add'>): SignReceipt =>
  (given, timed) => {
    const now = Date.now()
    const receipt = timed ? { ...given, issuedAt: isoTime(now) } : given
    const text = receiptText(receipt)
    const hash = textHash(text)
    const signature = identity.sign(receiptMessage(hash, versionOf(receipt)))
    kept.add({ requestId: receipt.requestId, hash, ms: now })
    return { receipt_hash: hash, receipt: JSON.parse(text), signature_ed25519: signature }
  }

const versionForm = new RegExp(`^${brand}-receipt-v([0-9]{1,3})$`)
/** Receipts from this version on say when they were signed. */
const timedFrom = 3

/** Whether the gateway that sent these headers reads receipts v3. */
export const readsTimed = (sent: Headers): boolean =>
  Number(versionForm.exec(sent.get(headers.receiptVersion) ?? '')?.[1] ?? 0) >= timedFrom
