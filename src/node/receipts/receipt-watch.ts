import { type Loop, loop } from '../../host/loop.ts'
import { failureName, type Log } from '../../log.ts'
import type { NodePayoutReport } from '../../protocol/wire/money/money.ts'
import { minuteMs } from '../../time.ts'
import type { KeptReceipt, KeptReceipts } from './kept-receipts.ts'
import type { LogPlace } from './log-place.ts'

export interface ReceiptWatchOptions {
  readonly kept: KeptReceipts
  /** Where the log has a receipt. */
  readonly lookUp: (hash: string) => Promise<LogPlace>
  /** What this node has earned lately. */
  readonly payouts: () => Promise<NodePayoutReport['payouts']>
  readonly alarms: { raise(code: 'receipt_missing' | 'receipt_replaced', requestId: string): void }
  readonly log: Log
  /** Between two looks, ms. */
  readonly everyMs?: number
  /** Unix ms. */
  readonly now?: () => number
  readonly random?: () => number
}

/** Looks whether the log holds what this node has signed (§36). */
export interface ReceiptWatch extends Pick<Loop, 'start' | 'stop'> {
  /** One look. Rejects where the gateway does not answer as it should. */
  look(): Promise<void>
}

const everyMsDefault = minuteMs
/** Until then the log may not have it. */
const firstLookMs = 2 * minuteMs
/** From then on a receipt that the log lacks is missing. */
const missingMs = 10 * minuteMs
/** Of one look: what a busy node has signed is looked up in part. */
const lookUpsMax = 30

/** So many of them, at random: the gateway cannot know which. */
function sample<T>(all: readonly T[], most: number, random: () => number): readonly T[] {
  const rest = [...all]
  return Array.from({ length: Math.min(most, rest.length) }, () => {
    const at = Math.floor(random() * rest.length)
    const [one] = rest.splice(at, 1)
    return one as T
  })
}

export function createReceiptWatch(options: ReceiptWatchOptions): ReceiptWatch {
  const { kept, lookUp, payouts, alarms, log, everyMs = everyMsDefault, now = Date.now, random = Math.random } = options

  /** The call was paid by another receipt than the one that this node signed, or by none. */
  const tell = async (lost: readonly KeptReceipt[]): Promise<void> => {
    const paid = await payouts()
    for (const receipt of lost) {
      const other = paid.some((one) => one.request_id === receipt.requestId && one.receipt_hash !== receipt.hash)
      alarms.raise(other ? 'receipt_replaced' : 'receipt_missing', receipt.requestId)
      kept.settle(receipt)
    }
  }

  const look = async () => {
    const nowMs = now()
    const due = kept.waiting().filter(({ ms }) => nowMs - ms >= firstLookMs)
    const lost: KeptReceipt[] = []
    try {
      for (const receipt of sample(due, lookUpsMax, random)) {
        const place = await lookUp(receipt.hash)
        if (place === 'unknown') break
        if (place === 'logged') kept.settle(receipt)
        else if (nowMs - receipt.ms >= missingMs) lost.push(receipt)
      }
      if (lost.length > 0) await tell(lost)
    } finally {
      kept.tidy()
    }
  }

  const looking = loop({
    pauseMs: everyMs,
    run: look,
    onFailure: (error) => log.warn('receipts_not_looked_up', { failure: failureName(error) }),
  })
  return { look, start: () => looking.start(), stop: () => looking.stop() }
}
