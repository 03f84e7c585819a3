import type { ChatMetadata } from '../../protocol/wire/inference/chat.ts'
import type { LogPromises } from './log-promises.ts'

/** UTF-16 units by which a promise may be longer than its slot: 8 hashes of a path, and what stands around them. */
export const promiseUnitsMax = 640

/** Who pays, or has sent a nonce, is promised that the log will hold the receipt (§36). */
export function addSlot(metadata: ChatMetadata, promises: Pick<LogPromises, 'slot'>): void {
  const slot = promises.slot(metadata.receipt_hash)
  if (slot !== null) metadata.receipt = slot
}

/** A request whose answer was recorded. */
interface Ending {
  readonly port: { readonly promises: Pick<LogPromises, 'fill'> }
  /** Of billed work: resolves when debit and receipt are on the disk. */
  readonly durable: Promise<unknown> | null
}

/**
 * The end of an answer as it may be sent: when what is billed is durable (§14), and with the promises of its receipts in their slots. null: as
 * it is, at once. A promise is signed last, so that what was promised is on the disk.
 */
export function promisedEnd(
  { port: { promises }, durable }: Ending,
  text: string,
  { receipt, receipts = [] }: Pick<ChatMetadata, 'receipt' | 'receipts'>,
): Promise<string> | null {
  const slots = receipt === undefined ? receipts : [receipt]
  if (slots.length === 0) return durable === null ? null : durable.then(() => text)
  return new Promise((resolve, reject) => {
    if (durable === null) promises.fill(text, slots, 'turn', resolve)
    else durable.then(() => promises.fill(text, slots, 'commit', resolve), reject)
  })
}
