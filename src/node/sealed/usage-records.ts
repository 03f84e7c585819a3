import type { SealedUsage } from '../../protocol/wire/nodes/sealed-usage.ts'
import { minuteMs } from '../../time.ts'

/** How many are kept for a gateway that has not asked yet. */
const usageRecordsMax = 4_096
/** How long, ms. */
const usageKeptMs = 10 * minuteMs

interface Kept {
  readonly usage: SealedUsage
  readonly atMs: number
}

/** The usage of calls that ended a short while ago, for the gateway that relayed them. */
export class UsageRecords {
  private readonly kept = new Map<string, Kept>()

  keep(usage: SealedUsage): void {
    const nowMs = Date.now()
    for (const [id, { atMs }] of this.kept) {
      if (this.kept.size < usageRecordsMax && nowMs - atMs < usageKeptMs) break
      this.kept.delete(id)
    }
    this.kept.set(usage.request_id, { usage, atMs: nowMs })
  }

  /** Returned once. null: the call is not known, or has not ended. */
  take(requestId: string): SealedUsage | null {
    const found = this.kept.get(requestId)
    this.kept.delete(requestId)
    return found?.usage ?? null
  }
}
