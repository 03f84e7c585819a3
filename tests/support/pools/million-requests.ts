import { keepRequestRecords } from '../../../src/db/queries/requests/request-records.ts'
import { dayMs } from '../../../src/time.ts'
import type { TestDatabase } from '../run/postgres.ts'
import { insertRequests } from './request-rows.ts'

export const rows = 1_000_000
export const days = 7

/**
 * A million requests of the last week before `now`, Unix ms: 20 models on 10 nodes, model 7 never on node 3, whose requests all
 * ended yesterday; one status 418, long ago.
 */
export async function insertMillion({ db, sql }: Pick<TestDatabase, 'db' | 'sql'>, now: number): Promise<void> {
  await keepRequestRecords(db, new Date(now - days * dayMs), new Date(now), new Date(0))
  await sql`set statement_timeout = 0`
  await insertRequests(
    sql,
    `select 'req_' || lpad(i::text, 26, '0'), to_timestamp(${now / 1_000}) - interval '${days} days' + i * (interval '${days} days' / ${rows}),
      'cus_' || i % 50, 'key_' || i % 80, 'chat', true, 'model-' || i % 20,
      case when i > ${rows} * 0.8 and i % 10 = 3 then 'node_0' else 'node_' || i % 10 end, 1, 0, null, 2,
      (i * 7919::bigint % 4000)::int, 4000, 100, 200, null,
      case when i = 5 then 418 when i % 100 = 1 then 429 when i % 1000 = 2 then 502 else 200 end,
      case when i = 5 then 'teapot' when i % 100 = 1 then 'rate_limited' when i % 1000 = 2 then 'upstream_error' end,
      null, '0x' || repeat('ab', 32), null
    from generate_series(1, ${rows}) i`,
  )
  await sql.unsafe('analyze request_groups')
}
