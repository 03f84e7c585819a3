import { type SQL, sql } from 'drizzle-orm'
import type { Sql } from 'postgres'
import { minuteMs } from '../../../time.ts'
import { type ArrayValue, arrayText, columnsOf } from '../../arrays.ts'
import type { OpenDatabase } from '../../client.ts'
import { prepared } from '../../prepared.ts'
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
]
const [idColumn, ...otherColumns] = requestColumns as readonly [RequestColumn, ...RequestColumn[]]

type Named = 'customer' | 'key' | 'model' | 'node' | 'code' | 'status'

/** What a filter may ask a group for. Most requests succeed: to look for those leaves nothing out. */
export const groupName = (of: Named, value: string | number): string => `${of}:${value}`
export const okStatus = 200

function namesOf(records: readonly RequestRecord[]): ReadonlySet<string> {
  const names = new Set<string>()
  const add = (of: Named, values: ReadonlySet<string | number | null>) => {
    for (const value of values) if (value !== null) names.add(groupName(of, value))
  }
  add('customer', new Set(records.map(({ customerId }) => customerId)))
  add('key', new Set(records.map(({ keyId }) => keyId)))
  add('model', new Set(records.map(({ model }) => model)))
  add('node', new Set(records.map(({ nodeId }) => nodeId)))
  add('code', new Set(records.map(({ code }) => code)))
  add('status', new Set(records.map(({ status }) => (status === okStatus ? null : status))))
  return names
}

function elementOf(record: RequestRecord, field: RequestColumn['field']): ArrayValue {
  const value = record[field]
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : value
}

/** Of each column the value that all have, and the text of an array where they differ. */
function columnsOfGroup(records: readonly RequestRecord[]): {
  readonly shared: readonly ArrayValue[]
  readonly texts: readonly string[]
} {
  const times = records.map(({ at }) => at.getTime() % minuteMs)
  const shared: ArrayValue[] = [null, null]
  const texts = [arrayText(records.map((record) => elementOf(record, idColumn.field))), arrayText(times)]
  for (const { field } of otherColumns) {
    const values = records.map((record) => elementOf(record, field))
    const [first = null] = values
    const one = values.every((value) => value === first)
    shared.push(one && first !== null ? String(first) : null)
    texts.push(one ? '' : arrayText(values))
  }
  return { shared, texts }
}

const iso = (ms: number) => new Date(ms).toISOString()

/** A call that writes requests of one minute. The same group again, with more behind it or not, is one group. */
function insertOf(records: readonly RequestRecord[]): SQL {
  const times = records.map(({ at }) => at.getTime())
  const [oldest, newest] = [Math.min(...times), Math.max(...times)]
  const { shared, texts } = columnsOfGroup(records)
  const most = records.reduce((so, { ttftMs }) => Math.max(so, ttftMs ?? -1), -1)
  return sql`request_group_insert(${iso(oldest - (oldest % minuteMs))}::text, ${records[0]?.requestId}::text,
    ${iso(oldest)}::text, ${iso(newest)}::text, ${records.length}::integer, ${arrayText([...namesOf(records)])}::text,
    ${most < 0 ? null : most}::integer, ${arrayText(shared)}::text, ${columnsOf(texts)})`
}

/** Groups of one minute each, their requests in their order. */
function groupsOf(records: readonly RequestRecord[]): readonly (readonly RequestRecord[])[] {
  const minutes = new Map<number, RequestRecord[]>()
  for (const record of records) {
    const minute = Math.floor(record.at.getTime() / minuteMs)
    const found = minutes.get(minute)
    if (found === undefined) minutes.set(minute, [record])
    else found.push(record)
  }
  return [...minutes.values()].flatMap((of) => inParts(of, groupRowsMax))
}

const inParts = <T>(values: readonly T[], size: number): readonly (readonly T[])[] =>
  Array.from({ length: Math.ceil(values.length / size) }, (_, at) => values.slice(at * size, (at + 1) * size))

/** Each number of groups is a statement of its own, which a connection keeps. */
const groupsPerStatement = 4

/**
 * All or none; waits for no disk. Who does not know whether they were written sends the same ones again, in the same order and with
 * more behind them or not.
 */
export async function insertRequestRecords(
  { sql: client }: Pick<OpenDatabase, 'sql'>,
  records: readonly RequestRecord[],
): Promise<void> {
  const [first = [], ...others] = inParts(groupsOf(records), groupsPerStatement)
  if (others.length === 0) return insertGroups(client, first)
  await client.begin(async (transaction) => {
    for (const groups of [first, ...others]) await insertGroups(transaction, groups)
  })
}

async function insertGroups(client: Pick<Sql, 'unsafe'>, groups: readonly (readonly RequestRecord[])[]): Promise<void> {
  if (groups.length > 0) await prepared(client).execute(sql`select ${sql.join(groups.map(insertOf), sql`, `)}`)
}
