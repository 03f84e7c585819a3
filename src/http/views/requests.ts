import type { Role } from '../../actors/accounts/access.ts'
import type { RequestRecord } from '../../actors/requests/request-log.ts'
import { brand } from '../../brand.ts'
import { requestSteps } from '../../machines/charts/chat-request.ts'
import type { Explanation } from '../../protocol/wire/admin/explanation.ts'
import type { AdminRequest, CustomerRequest, RequestStory } from '../../protocol/wire/admin/requests.ts'
import { tagsOf } from '../../protocol/wire/inference/tags.ts'
import { isoTime } from '../../time.ts'
import { type CsvCell, cellsOf } from '../frame/csv.ts'

/** As its own customer sees it: no node. */
export function customerRequestView(row: RequestRecord): CustomerRequest {
  return {
    request_id: row.requestId,
    at: isoTime(row.at),
    key_id: row.keyId,
    operation: row.operation,
    stream: row.stream,
    model: row.model,
    tries: row.tries,
    queue_ms: row.queueMs,
    load_ms: row.loadMs,
    sent_ms: row.sentMs,
    ttft_ms: row.ttftMs,
    duration_ms: row.durationMs,
    prompt_tokens: row.promptTokens,
    completion_tokens: row.completionTokens,
    cache_percent: row.cachePercent,
    status: row.status,
    code: row.code,
    tags: [...tagsOf(row.tags)],
    cost_wei: row.costWei,
    receipt_hash: row.receiptHash,
  }
}

export function adminRequestView(row: RequestRecord, role: Role): AdminRequest {
  const open = role !== 'viewer'
  return {
    ...customerRequestView(row),
    key_id: open ? row.keyId : null,
    tags: open ? [...tagsOf(row.tags)] : [],
    customer_id: open ? row.customerId : null,
    node_id: row.nodeId,
  }
}

/** The call that answered is the row's own; those that failed stand beside it. */
function attemptsOf(row: RequestRecord): RequestStory['attempts'] {
  const failed = (row.failedTries ?? []).map((failure) => ({ ...failure }))
  if (row.nodeId === null || row.sentMs === null || failed.length >= row.tries) return failed
  const duration_ms = Math.max(0, row.durationMs - row.sentMs)
  return [...failed, { node_id: row.nodeId, code: row.code, started_ms: row.sentMs, duration_ms }]
}

const outcomeOf = ({ status, code }: RequestRecord) =>
  status === 499 ? 'left' : status >= 400 || code !== null ? 'failed' : 'served'

/** Its way through the chart of requests. A mixture has a chart that ran. */
function statesOf(row: RequestRecord, attempts: RequestStory['attempts']): RequestStory['states'] {
  if (row.operation === 'mixture') return []
  const tries = attempts.map(({ started_ms, duration_ms, code }) => ({
    startedMs: started_ms,
    durationMs: duration_ms,
    failed: code !== null,
  }))
  const facts = { tries, ttftMs: row.ttftMs, durationMs: row.durationMs, outcome: outcomeOf(row) } as const
  return requestSteps(facts).map(({ state, event, atMs }) => ({ state, event, at_ms: atMs }))
}

/** `cause`: what its code means, `why`: why its nodes were chosen. */
export function requestStoryView(
  row: RequestRecord,
  cause: RequestStory['cause'],
  why: Explanation | null,
  role: Role,
  nowMs: number,
): RequestStory {
  const attempts = attemptsOf(row)
  return {
    object: `${brand}.admin.request`,
    generated_at: isoTime(nowMs),
    request: adminRequestView(row, role),
    cause,
    attempts,
    states: statesOf(row, attempts),
    explain: why,
  }
}

const commonColumns = [
  'request_id',
  'at',
  'key_id',
  'operation',
  'stream',
  'model',
  'tries',
  'queue_ms',
  'load_ms',
  'sent_ms',
  'ttft_ms',
  'duration_ms',
  'prompt_tokens',
  'completion_tokens',
  'cache_percent',
  'status',
  'code',
  'cost_wei',
  'receipt_hash',
] as const
/** The tags came last: who reads a table by the places of its columns goes on as before. */
export const customerRequestColumns: readonly (keyof CustomerRequest)[] = [...commonColumns, 'tags']
export const adminRequestColumns: readonly (keyof AdminRequest)[] = [...commonColumns, 'customer_id', 'node_id', 'tags']

/** Of a line of CSV: its tags in one cell, a space between two. */
export const requestCells = <T extends CustomerRequest>(view: T, columns: readonly (keyof T & string)[]) =>
  cellsOf({ ...view, tags: view.tags.join(' ') } as unknown as Record<keyof T & string, CsvCell>, columns)
