import { foreignJson } from '../protocol/json/foreign-json.ts'
import type { Checkpoint } from '../protocol/log/checkpoint.ts'
import { rememberLog, type SeenLogs, seenLogs, seenOfLog } from '../protocol/verify/seen-logs.ts'

/** What this browser has seen of public logs, as the command keeps it in a file. */
const place = 'penstock-public-logs'

function read(): SeenLogs {
  try {
    return seenLogs(foreignJson(localStorage.getItem(place) ?? ''))
  } catch {
    // A browser that keeps nothing.
    return seenLogs(null)
  }
}

export const seenKeys = (): readonly string[] => read().keys
export const remembered = (origin: string): readonly Checkpoint[] => seenOfLog(read(), origin)

/** False: this browser keeps nothing. */
export function keep(checkpoint: Checkpoint, keys: readonly string[]): boolean {
  try {
    localStorage.setItem(place, JSON.stringify(rememberLog(read(), checkpoint, keys)))
    return true
  } catch {
    return false
  }
}
