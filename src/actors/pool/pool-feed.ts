import type { Database } from '../../db/client.ts'
import { readPool } from '../../db/queries/pool/pool.ts'
import { retry } from '../../host/loop.ts'
import { failureName, type Log } from '../../log.ts'
import type { ChangeFeed } from '../durable/change-feed.ts'
import { sharedRun } from '../durable/shared-run.ts'
import type { PoolRouter } from './pool-router.ts'

const retries = { firstMs: 1_000, maxMs: 1_000 }

export interface PoolFeed {
  /** Resolves with the first rows. It keeps trying while the database is away. */
  start(): Promise<void>
  /** Resolves when the current rows were handed over, or when the database is away. */
  refresh(): Promise<void>
  stop(): void
}

/** Hands the rows of nodes and catalogue entries to the router, at the start and after each change. */
export function createPoolFeed(router: PoolRouter, db: Database, feed: ChangeFeed, log: Log): PoolFeed {
  const ending = new AbortController()
  const { signal } = ending
  const untilRead = retry({
    backoff: retries,
    onFailure: (error) => log.warn('pool_not_read', { failure: failureName(error) }),
    signal,
  })
  const readOnce = async () => {
    const rows = signal.aborted ? null : await readPool(db)
    if (rows !== null && !signal.aborted) router.rowsChanged(rows)
  }
  const read = sharedRun(() => untilRead(readOnce))
  // It rejects only after the stop, when the rows are no longer needed.
  const readSoon = () => read().catch(() => {})
  const ends = [feed.subscribe('nodes', readSoon), feed.subscribe('model_entries', readSoon)]
  return {
    start: readSoon,
    refresh: readSoon,
    stop: () => {
      ending.abort()
      for (const end of ends) end()
    },
  }
}
