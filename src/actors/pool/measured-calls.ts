import { Alarm } from '../../clock.ts'
import type { Database } from '../../db/client.ts'
import { type MeasuredCalls, type SavedProfile, saveMeasuredCalls } from '../../db/queries/pool/pool.ts'
import { failureName, type Log } from '../../log.ts'

/** How often the last measured calls of all profiles are written together. */
const writeEveryMs = 1_000
/** The wait after a failed write. */
const retryEveryMs = 5_000

export interface MeasuredCallsWriter {
  /** Never waits. Only the newest measurements of each profile are kept, and how many there were. */
  record(call: MeasuredCalls): void
  /** Writes the calls that are left. */
  stop(): Promise<void>
}

/** Is told what the database has by now, with what this gateway has measured since and not written. */
export type SavedListener = (profile: SavedProfile) => void

/** Calls that came one after the other, as one. */
function merged(earlier: MeasuredCalls | undefined, later: MeasuredCalls): MeasuredCalls {
  if (earlier === undefined) return later
  return {
    ...later,
    firstToken: latest(earlier.firstToken, later.firstToken),
    tokensPerSecond: later.tokensPerSecond ?? earlier.tokensPerSecond,
    answered: [...new Set([...earlier.answered, ...later.answered])],
  }
}

function latest(earlier: MeasuredCalls['firstToken'], later: MeasuredCalls['firstToken']): MeasuredCalls['firstToken'] {
  if (earlier === null || later === null) return earlier ?? later
  return { ...(later.atMs < earlier.atMs ? earlier : later), of: earlier.of + later.of }
}

export function createMeasuredCalls(db: Database, log: Log, saved: SavedListener): MeasuredCallsWriter {
  let waiting = new Map<string, MeasuredCalls>()
  let writing: Promise<void> | null = null
  let stopped = false

  const alarm = new Alarm(() => {
    writing = write().finally(() => {
      writing = null
    })
  })
  const schedule = (delayMs: number) => {
    if (!stopped && !alarm.isSet) alarm.set(delayMs)
  }

  const write = async () => {
    const batch = waiting
    waiting = new Map()
    try {
      for (const { profileId, firstToken } of await saveMeasuredCalls(db, [...batch.values()])) {
        saved({ profileId, firstToken: latest(firstToken, waiting.get(profileId)?.firstToken ?? null) })
      }
      if (waiting.size > 0) schedule(writeEveryMs)
    } catch (error) {
      log.warn('measured_calls_not_saved', { count: batch.size, failure: failureName(error) })
      const since = waiting
      waiting = batch
      for (const [id, call] of since) waiting.set(id, merged(batch.get(id), call))
      schedule(retryEveryMs)
    }
  }

  return {
    record: (call) => {
      waiting.set(call.profileId, merged(waiting.get(call.profileId), call))
      if (writing === null) schedule(writeEveryMs)
    },
    stop: async () => {
      stopped = true
      alarm.clear()
      await writing
      if (waiting.size > 0) await write()
    },
  }
}
