import type { Database } from '../../db/client.ts'
import { type MeasuredCall, saveMeasuredCalls } from '../../db/queries/pool/pool.ts'
import { failureName, type Log } from '../../log.ts'

/** How often the last measured calls of all profiles are written together. */
const writeEveryMs = 1_000
/** The wait after a failed write. */
const retryEveryMs = 5_000

export interface MeasuredCalls {
  /** Never waits. Only the newest call of each profile is kept. */
  record(call: MeasuredCall): void
  /** Writes the calls that are left. */
  stop(): Promise<void>
}

export function createMeasuredCalls(db: Database, log: Log): MeasuredCalls {
  let waiting = new Map<string, MeasuredCall>()
  let timer: ReturnType<typeof setTimeout> | null = null
  let writing: Promise<void> | null = null
  let stopped = false

  const schedule = (delayMs: number) => {
    if (stopped) return
    timer ??= setTimeout(() => {
      timer = null
      writing = write().finally(() => {
        writing = null
      })
    }, delayMs)
  }

  const write = async () => {
    const batch = waiting
    waiting = new Map()
    try {
      await saveMeasuredCalls(db, [...batch.values()])
      if (waiting.size > 0) schedule(writeEveryMs)
    } catch (error) {
      log.warn('measured_calls_not_saved', { count: batch.size, failure: failureName(error) })
      for (const [id, call] of batch) if (!waiting.has(id)) waiting.set(id, call)
      schedule(retryEveryMs)
    }
  }

  return {
    record: (call) => {
      waiting.set(call.profileId, call)
      if (writing === null) schedule(writeEveryMs)
    },
    stop: async () => {
      stopped = true
      if (timer !== null) clearTimeout(timer)
      timer = null
      await writing
      if (waiting.size > 0) await write()
    },
  }
}
