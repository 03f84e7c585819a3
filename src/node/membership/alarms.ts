import type { PrivateFolder } from '../../host/private-files.ts'
import type { Log } from '../../log.ts'
import { fieldsOf, listOf, textOf } from '../../protocol/verify/given.ts'
import { isoTime } from '../../time.ts'

/** What a node finds wrong with its gateway. */
export type AlarmCode = 'payee_changed'

export interface Alarm {
  readonly code: AlarmCode
  /** The payout. */
  readonly subject: string
  readonly at: string
}

/** The alarms of this node, in its log and in a file that `node status` shows. */
export interface Alarms {
  /** Once for each subject. */
  raise(code: AlarmCode, subject: string): void
}

const file = 'alarms.json'
/** Further ones are in the log alone. */
const alarmsMax = 1_000

/** Oldest first. */
export function readAlarms(folder: PrivateFolder): readonly Alarm[] {
  return listOf(fieldsOf(folder.read(file)).alarms).flatMap((value) => {
    const { code, subject, at } = fieldsOf(value)
    const [named, about, since] = [textOf(code), textOf(subject), textOf(at)]
    return named === null || about === null || since === null
      ? []
      : [{ code: named as AlarmCode, subject: about, at: since }]
  })
}

export function createAlarms(folder: PrivateFolder, log: Log): Alarms {
  let alarms = readAlarms(folder)
  const raised = new Set(alarms.map(({ code, subject }) => `${code}:${subject}`))
  return {
    raise: (code, subject) => {
      const name = `${code}:${subject}`
      if (raised.has(name)) return
      log.error(code, { subject })
      if (alarms.length >= alarmsMax) return
      raised.add(name)
      alarms = [...alarms, { code, subject, at: isoTime(Date.now()) }]
      folder.write(file, { alarms })
    },
  }
}
