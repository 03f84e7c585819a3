import { Problem } from '../../errors.ts'
import { newId } from '../../ids.ts'
import type {
  AnswerChoice,
  DispatchedCall,
  MeteredCall,
  PlannedExpert,
  SubCallResult,
} from '../../machines/mixture/types.ts'
import { hasSlot, isOwn } from '../../machines/rules/eligibility.ts'
import { type PlacementRequest, place } from '../../machines/rules/placement.ts'
import type { Route } from '../../machines/rules/routing.ts'
import type { UpstreamBody } from '../../protocol/chat/upstream-request.ts'
import type { ChatRequest } from '../../protocol/wire/inference/chat.ts'
import type { AbortCause, AttemptFailure } from '../chat/attempt.ts'
import type { ChatCommand } from '../chat/chat-command.ts'
import { type ChatPort, Exchange } from '../chat/exchange.ts'
import { type ReceivedAnswer, receiveWhole } from '../chat/whole-answer.ts'
import { chat } from '../operations/chat.ts'
import type { ModelCallSample } from '../telemetry/model-metrics.ts'
import type { Span } from '../telemetry/tracing.ts'

export interface SubCallPort extends ChatPort {
  readonly subCall: (sample: ModelCallSample) => void
}

/** One call of a mixture, before it has a machine. */
export interface SubCallOrder {
  readonly placement: PlacementRequest
  readonly planned: PlannedExpert
  /** What is asked of the node; an aggregator's prompt depends on what its machine can hold. */
  readonly prepare: (route: Route) => { readonly body: ChatRequest; readonly upstream: UpstreamBody }
  readonly dispatched: (call: DispatchedCall) => void
}

const noNode: SubCallResult = { status: 'no_node', call: null }

/** A normal request to one own machine: no failover, no retry, no fallback; a receipt and an id of its own. */
export class SubCall {
  private readonly controller = new AbortController()
  private readonly exchange: Exchange

  constructor(
    private readonly port: SubCallPort,
    /** The mixture's. */
    private readonly parent: ChatCommand<ChatRequest>,
    private readonly order: SubCallOrder,
    /** The mixture's. */
    span: Span | null,
  ) {
    const command: ChatCommand = {
      operation: chat,
      requestId: newId('req'),
      startedMs: performance.now(),
      access: parent.access,
      body: { ...parent.body, model: order.placement.modelId },
      text: '',
      pin: null,
      query: '',
      idempotencyKey: null,
      signal: this.controller.signal,
      span,
      finished: ({ model, nodeId, latencyMs, ttftMs, usage }) =>
        port.subCall({
          model,
          nodeId,
          durationS: latencyMs / 1_000,
          ttftS: ttftMs === null ? null : ttftMs / 1_000,
          promptTokens: usage?.prompt_tokens ?? 0,
          completionTokens: usage?.completion_tokens ?? 0,
        }),
    }
    this.exchange = new Exchange(port, command, port.router.table(), () => {})
    this.exchange.sentOnce = true
  }

  abort(cause: AbortCause): void {
    this.controller.abort()
    this.exchange.attempt?.abort(cause)
  }

  /** Never rejects: a defect is the status `error`. */
  async run(failed: (error: unknown) => void): Promise<SubCallResult> {
    try {
      const { planned } = this.order
      // Where somebody else took the planned slot meanwhile, this call waits for one like any other.
      const free = planned.kind === 'placed' && hasSlot(planned.route) ? planned.route : null
      const route = free ?? (planned.kind === 'no_node' ? null : await this.waitForRoute())
      return route === null || !this.isHome(route) ? noNode : await this.call(route)
    } catch (error) {
      if (this.controller.signal.aborted) return { status: 'upstream_error', call: null }
      failed(error)
      // Whatever broke, its slot is free again; where it was free already, this does nothing.
      this.exchange.attempt?.release({ kind: 'neutral' })
      this.exchange.finish(500, 'internal_error', null, null)
      return { status: 'error', call: null }
    }
  }

  /** Ownership as it is now, whatever was planned: an answer to a prompt never comes from a foreign machine. */
  private isHome(route: Route): boolean {
    const { customerId } = this.parent.access
    return isOwn(route, customerId) && this.port.router.table().owners.get(route.nodeId) === customerId
  }

  /** Own machines serve the model and all are full: the same short wait as for any request (§5). */
  private async waitForRoute(): Promise<Route | null> {
    const { router, config, random } = this.port
    const untilMs = performance.now() + config.SVC_QUEUE_WAIT_MS
    for (;;) {
      const { placement: wanted } = this.order
      const leftMs = untilMs - performance.now()
      const waited = await router.waitForSlot(wanted.modelId, leftMs, this.controller.signal)
      this.controller.signal.throwIfAborted()
      if (waited !== 'slot') return null
      const request = { ...wanted, nowMs: Date.now() }
      const table = router.table()
      const placement = place(table, request, random)
      this.port.decided(this.parent, { table, request, placement }, true)
      if (placement.kind === 'placed') return placement.route
      if (placement.kind === 'refused') return null
    }
  }

  private async call(route: Route): Promise<SubCallResult> {
    const { exchange, order } = this
    const { requestId, startedMs } = exchange.command
    const { nodeId, runtimeId, runtimeKind } = route
    const call: DispatchedCall = { requestId, nodeId, runtimeId, runtimeKind }
    const { body, upstream } = order.prepare(route)
    exchange.command.body = body
    order.dispatched(call)
    const received = await receiveWhole(exchange, route, upstream)
    if ('failure' in received) return this.failed(call, received.failure)
    const { usage, conclusion, firstContentMs, completion } = received
    const { metadata: svc } = conclusion
    exchange.record(conclusion)
    exchange.finish(200, null, usage, firstContentMs)
    const metered: MeteredCall = {
      ...call,
      usage,
      usageEstimated: svc.usage_estimated === true,
      receiptHash: svc.receipt_hash,
      latencyMs: performance.now() - startedMs,
    }
    return { status: 'ok', choice: choiceOf(completion), call: metered }
  }

  private failed(call: DispatchedCall, { code, strike }: AttemptFailure): SubCallResult {
    const { port, exchange, parent } = this
    strike?.()
    // A call that ended because its client left is no failure of the node.
    if (!parent.signal.aborted) port.failed(code)
    exchange.finish(parent.signal.aborted ? 499 : new Problem(code).status, code, null, null)
    return { status: 'upstream_error', call }
  }
}

/** A sub-call asks for one choice; `publicCompletion` answers with at least one. */
const choiceOf = ({ choices }: ReceivedAnswer['completion']) => choices[0] as AnswerChoice
