import type { Access } from '../../actors/accounts/access.ts'
import { type ChatRecord, type ChatRecorder, uncalled } from '../../actors/chat/chat-command.ts'
import type { Operation } from '../../actors/operations/operation.ts'
import type { ChatSample } from '../../actors/telemetry/metrics.ts'
import type { Span } from '../../actors/telemetry/tracing.ts'
import { newId, type RequestId } from '../../ids.ts'
import type { PeerDirectory } from '../frame/client-address.ts'
import type { HttpContext } from '../frame/context.ts'
import { clientRequestId, logRequest } from '../frame/request-log.ts'

/** How an operation is known outside of it. */
export interface InferencePlace {
  readonly context: HttpContext
  readonly operation: Operation
  /** The canonical path: metrics, traces and log lines know the operation by it. */
  readonly route: string
  readonly measure: (sample: ChatSample) => void
}

/** A mixture is a chat, but counts as a kind of its own for an operator who looks for slow requests. */
const mixtureName = 'mixture'

/** One request as its log line knows it. The general hooks are left out here: they cost as much as the routing. */
export class InferenceLine implements ChatRecorder {
  readonly requestId: RequestId = newId('req')
  readonly startedMs = performance.now()
  readonly address: string
  /** Read at once: a line that kept its request would keep all of its headers for as long as a stream runs. */
  private readonly clientRequestId: string | null
  /** null: traces are off, or not wanted for this request. */
  readonly span: Span | null
  access: Access | null = null
  stream = false
  mixed = false
  /** Of the record alone: neither the log line nor a metric has them. */
  tags: string | null = null
  private recorded = false

  constructor(
    private readonly place: InferencePlace,
    request: Request,
    server: PeerDirectory | null,
  ) {
    const { context, route } = place
    this.clientRequestId = clientRequestId(request)
    this.address = context.clientAddress(request, server)
    const { tracing } = context.gateway
    this.span =
      tracing === null
        ? null
        : tracing.request({
            method: 'POST',
            route,
            url: request.url,
            requestId: this.requestId,
            traceparent: request.headers.get('traceparent'),
          })
  }

  record(record: ChatRecord): void {
    if (this.recorded) return
    this.recorded = true
    const { route, measure, context } = this.place
    const { gateway } = context
    if (this.span !== null) this.span.endRequest(record.status, record.code)
    measure({
      status: record.status,
      durationS: record.latencyMs / 1_000,
      ttftS: record.ttftMs === null ? null : record.ttftMs / 1_000,
      promptTokens: record.usage?.prompt_tokens ?? 0,
      completionTokens: record.usage?.completion_tokens ?? 0,
      model: record.model,
      nodeId: record.nodeId,
      queueS: record.queueMs / 1_000,
      cacheShare: record.cachePercent === null ? null : record.cachePercent / 100,
      stream: this.stream,
      code: record.code,
    })
    logRequest(gateway.log, {
      requestId: this.requestId,
      route,
      method: 'POST',
      status: record.status,
      code: record.code,
      latencyMs: record.latencyMs,
      keyId: this.access?.keyId ?? null,
      addressHash: gateway.hashAddress(this.address),
      clientRequestId: this.clientRequestId,
      jobId: record.jobId,
      model: record.model,
      nodeId: record.nodeId,
      tries: record.attempts,
      ttftMs: record.ttftMs,
      promptTokens: record.usage?.prompt_tokens ?? null,
      completionTokens: record.usage?.completion_tokens ?? null,
      stranger: this.access === null,
    })
    const { access } = this
    gateway.demands.ended(record)
    // A stranger leaves a line and a count, and cannot fill the table.
    if (access === null) return
    gateway.requests.write({
      requestId: this.requestId,
      customerId: access.customerId,
      keyId: access.keyId,
      operation: this.mixed ? mixtureName : this.place.operation.name,
      stream: this.stream,
      tags: this.tags,
      record,
    })
  }

  /** A refusal before the request reached the pool. */
  refused(status: number, code: ChatRecord['code']): void {
    const latencyMs = performance.now() - this.startedMs
    this.record({
      model: null,
      status,
      code,
      latencyMs,
      ttftMs: null,
      usage: null,
      attempts: 0,
      jobId: null,
      ...uncalled,
    })
  }
}
