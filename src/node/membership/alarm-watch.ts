import { type Loop, loop } from '../../host/loop.ts'
import type { PrivateFolder } from '../../host/private-files.ts'
import { failureName, type Log } from '../../log.ts'
import { minuteMs } from '../../time.ts'
import { tellAlarms } from './alarm-report.ts'
import { readAlarms } from './alarms.ts'
import type { Asking } from './payout-report.ts'

export interface AlarmWatchOptions extends Asking {
  readonly folder: PrivateFolder
  readonly log: Log
}

/** Tells the gateway of each new alarm of this node. */
export interface AlarmWatch extends Pick<Loop, 'start' | 'stop'> {
  /** One look. Rejects where the gateway does not take what is new. */
  look(): Promise<void>
}

const everyMs = minuteMs

export function createAlarmWatch({ folder, log, ...asking }: AlarmWatchOptions): AlarmWatch {
  /** Alarms that the gateway knows; after a start it is told again. */
  let reported = 0
  const look = async () => {
    const alarms = readAlarms(folder)
    if (alarms.length === reported) return
    await tellAlarms(asking, alarms)
    reported = alarms.length
  }
  const looking = loop({
    pauseMs: everyMs,
    run: look,
    onFailure: (error) => log.warn('alarms_not_told', { failure: failureName(error) }),
  })
  return { look, start: () => looking.start(), stop: () => looking.stop() }
}
