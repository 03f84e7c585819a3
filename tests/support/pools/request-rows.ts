import type { Sql } from 'postgres'
import type { ArrayValue } from '../../../src/db/arrays.ts'
import { type RequestReader, requestColumns as requestFields } from '../../../src/db/queries/requests/request-groups.ts'
import type { RequestFilter, RequestRecord } from '../../../src/db/queries/requests/request-records.ts'

/** No request is left out. */
export const everyRequest: RequestFilter = {
  from: null,
  to: null,
  model: null,
  nodeId: null,
  customerId: null,
  keyId: null,
  status: null,
  code: null,
  ttftMsMin: null,
  outcome: null,
  tag: null,
}

/** Reads requests that stand in rows. */
export const ofRecords = {
  ...Object.fromEntries(
    requestFields.map(({ field }) => [
      field,
      (record: RequestRecord): ArrayValue => {
        const value = record[field]
        return typeof value === 'object' && value !== null ? JSON.stringify(value) : value
      },
    ]),
  ),
  atMs: ({ at }: RequestRecord) => at.getTime(),
} as RequestReader<RequestRecord>

/** As versions before this one name them, and in their order. */
export const requestColumns = `request_id, at, customer_id, key_id, operation, stream, model, node_id, tries, queue_ms, load_ms, sent_ms,
  ttft_ms, duration_ms, prompt_tokens, completion_tokens, cache_percent, status, code, cost_wei, receipt_hash, failed_tries`

const columns = requestColumns
  .split(',')
  .slice(2)
  .map((name) => name.trim())
const isShared = (name: string) => `count(distinct ${name}) <= 1 and count(${name}) in (0, count(*))`
const arrays = columns.map((name) => `case when not (${isShared(name)}) then array_agg(${name}) end`)
const shared = columns.map((name) => `case when ${isShared(name)} then min(${name}::text) end`)

/** Groups of the minutes of what a query selects: any number of requests at once. Its columns are those above, each of its own type. */
export async function insertRequests(sql: Sql, query: string): Promise<void> {
  await sql.unsafe(`
    insert into request_groups
    select minute, min(request_id), min(at), max(at), count(*),
      (select array_agg(distinct name) from unnest(
        array_agg('customer:' || customer_id) || array_agg('key:' || key_id) || array_agg('model:' || model)
        || array_agg('node:' || node_id) || array_agg('code:' || code)
        || array_agg('status:' || nullif(status, 200))) as n (name) where name is not null),
      max(ttft_ms), array[null, null, ${shared.join(', ')}], array_agg(request_id),
      array_agg((extract(epoch from at - minute) * 1000)::integer), ${arrays.join(', ')}
    from (
      select *, date_trunc('minute', at) as minute,
        (row_number() over (partition by date_trunc('minute', at) order by at, request_id) - 1) / 250 as part
      from (select request_id, at::timestamptz(3), customer_id, key_id, operation, stream, model, node_id, tries::smallint,
        queue_ms, load_ms::integer, sent_ms, ttft_ms, duration_ms, prompt_tokens, completion_tokens,
        cache_percent::smallint, status::smallint, code, cost_wei::numeric, receipt_hash, failed_tries::jsonb
        from (${query}) as q (${requestColumns})) as typed
    ) as r group by minute, part`)
}
