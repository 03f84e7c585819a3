import type { Backoff } from '../../backoff.ts'
import type { Clock } from '../../clock.ts'
import { type Loop, loop } from '../../host/loop.ts'
import { Outage } from '../../host/outage.ts'
import type { PrivateFolder } from '../../host/private-files.ts'
import { failureName, type Log } from '../../log.ts'
import { minuteMs, secondMs } from '../../time.ts'
import { readWantedPayee, statePayee } from './payee.ts'
import type { Asking } from './payout-report.ts'

export interface PayeeStatingOptions extends Asking {
  readonly folder: PrivateFolder
  readonly log: Log
  readonly clock?: Clock
}

/** A gateway of a version before refuses until it is upgraded. */
const backoff: Backoff = { firstMs: 5 * secondMs, maxMs: 10 * minuteMs }

/** States the payee that the owner named at the enrolment until the gateway has taken it, over restarts of the agent, too (§36). */
export function createPayeeStating({
  folder,
  log,
  clock,
  ...asking
}: PayeeStatingOptions): Pick<Loop, 'start' | 'stop'> {
  const stating = loop({
    pauseMs: backoff.maxMs,
    backoff,
    run: async () => {
      const payee = readWantedPayee(folder)
      if (payee !== null) await statePayee({ ...asking, folder, payee })
    },
    outage: new Outage(
      (error) => log.warn('payee_not_stated', { failure: failureName(error) }),
      () => log.info('payee_stated'),
    ),
    clock,
  })
  return { start: () => void stating.startNow(), stop: () => stating.stop() }
}
