import type { FailedTry, RequestRecord } from '../../db/queries/requests/request-records.ts'
import { idMs } from '../../ids.ts'
import type { ChatRecord } from '../chat/chat-command.ts'

/** What became of one request, as its handler hands it over: nothing is worked out on the request's own time. */
export interface FinishedRequest {
  readonly requestId: string
  readonly customerId: string
  readonly keyId: string | null
  readonly operation: string
  readonly stream: boolean
  readonly record: ChatRecord
}

/** A column of 32 bits holds 24 days. */
const wholeMs = (ms: number) => Math.min(2 ** 31 - 1, Math.max(0, Math.round(ms)))
const msOf = (ms: number | null) => (ms === null ? null : wholeMs(ms))
const triesMax = 32_767

const failedTryOf = (failed: FailedTry): FailedTry => ({
  ...failed,
  started_ms: wholeMs(failed.started_ms),
  duration_ms: wholeMs(failed.duration_ms),
})

/** The row of a finished request; its time is that of its id. */
export function rowOf({ requestId, customerId, keyId, operation, stream, record }: FinishedRequest): RequestRecord {
  const { usage, failedTries } = record
  return {
    requestId,
    at: new Date(idMs(requestId)),
    customerId,
    keyId,
    operation,
    stream,
    model: record.model,
    nodeId: record.nodeId,
    tries: Math.min(triesMax, record.attempts),
    queueMs: wholeMs(record.queueMs),
    loadMs: msOf(record.loadMs),
    sentMs: msOf(record.sentMs),
    ttftMs: msOf(record.ttftMs),
    durationMs: wholeMs(record.latencyMs),
    promptTokens: usage?.prompt_tokens ?? null,
    completionTokens: usage?.completion_tokens ?? null,
    cachePercent: record.cachePercent,
    status: record.status,
    code: record.code,
    costWei: record.costWei === null ? null : record.costWei.toString(),
    receiptHash: record.receiptHash,
    failedTries: failedTries === null ? null : failedTries.map(failedTryOf),
  }
}
