import { sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { cells, type TrafficOf, type TrafficSources } from './request-traffic.ts'

/** How many requests had their first token within these times, ms. */
export interface FirstTokenBucket {
  readonly aboveMs: number
  readonly toMs: number
  readonly count: number
}

export interface FirstTokenStep {
  /** Unix ms: where the step begins. */
  readonly atMs: number
  /** Shortest first; empty ones are left out. */
  readonly buckets: readonly FirstTokenBucket[]
}

/** So many buckets of `request_bucket` are one here: 61 % from edge to edge, five to a power of ten. */
const bucketsPerRow = 5
/** Three digits: off by less than a bucket is. */
const edgeMs = (bucket: number) => Number((1.1 ** bucket).toPrecision(3))

/** How soon first tokens came, by steps of time, oldest first; a step without any is left out. */
export async function firstTokensBySteps(
  db: Database,
  sources: readonly TrafficSources[],
  of: TrafficOf,
  stepSeconds: number,
): Promise<readonly FirstTokenStep[]> {
  // What came in less than a millisecond lies in a bucket below all others.
  const found = await db.execute<{ at: string; band: number; count: string }>(sql`
    with cells as (${cells({ sources, of, stepSeconds })})
    select extract(epoch from date_bin(make_interval(secs => ${stepSeconds}), c.at, 'epoch'))::bigint::text as at,
      greatest(bucket, 0) / ${bucketsPerRow} as band, sum(ttft)::text as count
    from cells c, unnest(c.buckets, c.ttft_counts) as u (bucket, ttft)
    where ttft > 0 group by 1, 2 order by 1, 2`)
  const steps = Map.groupBy(found, ({ at }) => Number(at) * 1_000)
  return [...steps]
    .map(([atMs, rows]) => ({
      atMs,
      buckets: rows.map(({ band, count }) => ({
        aboveMs: band === 0 ? 0 : edgeMs(band * bucketsPerRow - 1),
        toMs: edgeMs((band + 1) * bucketsPerRow - 1),
        count: Number(count),
      })),
    }))
    .toSorted((a, b) => a.atMs - b.atMs)
}
