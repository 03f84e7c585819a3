import { Value } from '@sinclair/typebox/value'
import type { PrivateFolder } from '../../host/private-files.ts'
import type { Log } from '../../log.ts'
import { fieldsOf, listOf } from '../../protocol/verify/given.ts'
import { NodeAlarm } from '../../protocol/wire/nodes/alarms.ts'
import { isoTime } from '../../time.ts'

/** The alarms of this node, in its log and in a file that `node status` shows. */
export interface Alarms {
  /** Once for each subject. */
  raise(code: NodeAlarm['code'], subject: string): void
}

const file = 'alarms.json'
/** Further ones are in the log alone. */
const alarmsMax = 1_000

/** Oldest first. */
export function readAlarms(folder: PrivateFolder): readonly NodeAlarm[] {
  return listOf(fieldsOf(folder.read(file)).alarms).filter((value) => Value.Check(NodeAlarm, value))
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
