import type { Database } from '../../db/client.ts'
import { readPool } from '../../db/queries/pool/pool.ts'
import { failureName, type Log } from '../../log.ts'
import type { ChangeFeed } from '../durable/change-feed.ts'
import type { PoolRouter } from './pool-router.ts'

const retryMs = 1_000

export interface PoolFeed {
  /** Resolves with the first rows. It keeps trying while the database is away. */
  start(): Promise<void>
  /** Resolves when the current rows were handed over, or when the database is away. */
  refresh(): Promise<void>
  stop(): void
}

/** Hands the rows of nodes and catalogue entries to the router, at the start and after each change. */
export function createPoolFeed(router: PoolRouter, db: Database, feed: ChangeFeed, log: Log): PoolFeed {
  let stopped = false
  let reading: Promise<void> | null = null
  let again = false

  const read = async () => {
    while (again && !stopped) {
      again = false
      try {
        const rows = await readPool(db)
        if (!stopped) router.rowsChanged(rows)
      } catch (error) {
        log.warn('pool_not_read', { failure: failureName(error) })
        again = true
        await Bun.sleep(retryMs)
      }
    }
  }
  const readSoon = (): Promise<void> => {
    again = true
    reading ??= read().finally(() => {
      reading = null
      if (again && !stopped) void readSoon()
    })
    return reading
  }
  const ends = [feed.subscribe('nodes', readSoon), feed.subscribe('model_entries', readSoon)]
  return {
    start: readSoon,
    refresh: readSoon,
    stop: () => {
      stopped = true
      for (const end of ends) end()
    },
  }
}
