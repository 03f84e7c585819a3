import { type Loop, loop } from '../../host/loop.ts'
import type { PrivateFolder } from '../../host/private-files.ts'
import { failureName, type Log } from '../../log.ts'
import { freshSeconds } from '../../protocol/signing/signatures.ts'
import { minuteMs, secondMs } from '../../time.ts'
import type { Alarms } from './alarms.ts'
import { readOwnPayee } from './payee.ts'
import { type Asking, readPayouts } from './payout-report.ts'

export interface PayeeWatchOptions extends Asking {
  readonly folder: PrivateFolder
  readonly alarms: Alarms
  readonly log: Log
  /** Between two looks, ms. */
  readonly everyMs?: number
}

/** Looks whether what the node earns goes where it said (§36). */
export interface PayeeWatch extends Pick<Loop, 'start' | 'stop'> {
  /** One look. Rejects where the gateway does not answer as it should. */
  look(): Promise<void>
}

const everyMsDefault = 10 * minuteMs
/**
 * Work that was under way when the node stated another payee may be earned by the one before, and the clock of the gateway, which says when it was
 * earned, may be ahead of this one by as much as a signature may be old.
 */
const underWayMs = minuteMs + freshSeconds * secondMs

export function createPayeeWatch(options: PayeeWatchOptions): PayeeWatch {
  const { folder, alarms, log, everyMs = everyMsDefault } = options

  const look = async () => {
    const own = readOwnPayee(folder)
    if (own === null) return
    const sinceMs = Date.parse(own.signedAt) + underWayMs
    for (const { entry_id: entryId, payee, created_at: createdAt } of await readPayouts(options)) {
      const elsewhere = payee?.toLowerCase() !== own.payee
      if (elsewhere && Date.parse(createdAt) >= sinceMs) alarms.raise('payee_changed', entryId)
    }
  }

  const looking = loop({
    pauseMs: everyMs,
    run: look,
    onFailure: (error) => log.warn('payee_not_looked_at', { failure: failureName(error) }),
  })
  return { look, start: () => looking.start(), stop: () => looking.stop() }
}
