import { type SQL, sql } from 'drizzle-orm'
import { minuteMs } from '../../../time.ts'
import { type ArrayValue, arrayText, columnsOf } from '../../arrays.ts'
import type { OpenDatabase } from '../../client.ts'
import { inParts, insertGroups } from '../../insert-groups.ts'
import type { RequestRecord } from './request-records.ts'

/** More make a group cheaper to write, and dearer to look through for one of its requests: both by little from here. */
const groupRowsMax = 250

export interface RequestColumn {
  readonly field: Exclude<keyof RequestRecord, 'at'>
  readonly column: string
  readonly type: 'text' | 'integer' | 'smallint' | 'boolean' | 'numeric' | 'jsonb'
}

const column = (field: RequestColumn['field'], name: string, type: RequestColumn['type']): RequestColumn => ({
  field,
  column: name,
  type,
})

/** The columns of `request_groups` behind its head, in their order, but for `at_ms` in the second place. */
export const requestColumns: readonly RequestColumn[] = [
  column('requestId', 'request_id', 'text'),
  column('customerId', 'customer_id', 'text'),
  column('keyId', 'key_id', 'text'),
  column('operation', 'operation', 'text'),
  column('stream', 'stream', 'boolean'),
  column('model', 'model', 'text'),
  column('nodeId', 'node_id', 'text'),
  column('tries', 'tries', 'smallint'),
  column('queueMs', 'queue_ms', 'integer'),
  column('loadMs', 'load_ms', 'integer'),
  column('sentMs', 'sent_ms', 'integer'),
  column('ttftMs', 'ttft_ms', 'integer'),
  column('durationMs', 'duration_ms', 'integer'),
  column('promptTokens', 'prompt_tokens', 'integer'),
  column('completionTokens', 'completion_tokens', 'integer'),
  column('cachePercent', 'cache_percent', 'smallint'),
  column('status', 'status', 'smallint'),
  column('code', 'code', 'text'),
  column('costWei', 'cost_wei', 'numeric'),
  column('receiptHash', 'receipt_hash', 'text'),
  column('failedTries', 'failed_tries', 'jsonb'),
  // Behind the others: a gateway of the version before writes groups without it.
  column('tags', 'tags', 'text'),
]
const [idColumn, ...otherColumns] = requestColumns as readonly [RequestColumn, ...RequestColumn[]]

type Named = 'customer' | 'key' | 'model' | 'node' | 'code' | 'status' | 'tag'

/** What a filter may ask a group for. Most requests succeed: to look for those leaves nothing out. */
export const groupName = (of: Named, value: string | number): string => `${of}:${value}`
export const okStatus = 200
/** Between the tags of one request, in their column. */
export const tagsBetween = ','

/** Reads each field of a request, wherever that stands. */
export type RequestReader<T> = Readonly<Record<RequestColumn['field'], (request: T) => ArrayValue>> & {
  /** Unix ms of its beginning. */
  readonly atMs: (request: T) => number
}

const nameOf: { readonly [Field in RequestColumn['field']]?: Named } = {
  customerId: 'customer',
  keyId: 'key',
  model: 'model',
  nodeId: 'node',
  code: 'code',
  status: 'status',
  tags: 'tag',
}

/** The names that these values of one field give their group. */
function namesIn(field: RequestColumn['field'], values: readonly ArrayValue[]): readonly string[] {
  const of = nameOf[field]
  if (of === undefined) return []
  const wanted = (value: ArrayValue) => value !== null && !(field === 'status' && value === okStatus)
  const said = [...new Set(values)].filter(wanted).map(String)
  const each = field === 'tags' ? [...new Set(said.flatMap((tags) => tags.split(tagsBetween)))] : said
  return each.map((value) => groupName(of, value))
}

const iso = (ms: number) => new Date(ms).toISOString()

/**
 * A call that writes requests of one minute: of each column the value that all have, or the text of an array where they differ. The
 * same group again, with more behind it or not, is one group.
 */
function insertOf<T>(group: readonly T[], read: RequestReader<T>): SQL {
  const [head] = group as readonly [T]
  const times = group.map(read.atMs)
  const [oldest, newest] = [Math.min(...times), Math.max(...times)]
  const names: string[] = []
  const shared: ArrayValue[] = [null, null]
  const texts = [arrayText(group.map(read[idColumn.field])), arrayText(times.map((ms) => ms % minuteMs))]
  for (const { field } of otherColumns) {
    const value = read[field]
    const first = value(head)
    const one = group.every((request) => value(request) === first)
    const values = one ? [first] : group.map(value)
    names.push(...namesIn(field, values))
    shared.push(one && first !== null ? String(first) : null)
    texts.push(one ? '' : arrayText(values))
  }
  const most = group.reduce((so, request) => Math.max(so, Number(read.ttftMs(request) ?? -1)), -1)
  return sql`request_group_insert(${iso(oldest - (oldest % minuteMs))}::text, ${read.requestId(head)}::text,
    ${iso(oldest)}::text, ${iso(newest)}::text, ${group.length}::integer, ${arrayText(names)}::text,
    ${most < 0 ? null : most}::integer, ${arrayText(shared)}::text, ${columnsOf(texts)})`
}

/** Groups of one minute each, their requests in their order. */
function groupsOf<T>(requests: readonly T[], { atMs }: RequestReader<T>): readonly (readonly T[])[] {
  const minutes = new Map<number, T[]>()
  for (const request of requests) {
    const minute = Math.floor(atMs(request) / minuteMs)
    const found = minutes.get(minute)
    if (found === undefined) minutes.set(minute, [request])
    else found.push(request)
  }
  return [...minutes.values()].flatMap((of) => inParts(of, groupRowsMax))
}

/**
 * All or none; waits for no disk. Who does not know whether they were written sends the same ones again, in the same order and with
 * more behind them or not. All that it needs of them is read before it waits.
 */
export async function insertRequestRecords<T>(
  { sql: client }: Pick<OpenDatabase, 'sql'>,
  requests: readonly T[],
  read: RequestReader<T>,
): Promise<void> {
  const calls = groupsOf(requests, read).map((group) => insertOf(group, read))
  await insertGroups(client, calls)
}
