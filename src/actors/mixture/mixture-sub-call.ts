import { Problem } from '../../errors.ts'
import type { Grant } from '../../host/budget.ts'
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
import type { ChatCommand } from '../chat/chat-command.ts'
import type { ChatPort } from '../chat/chat-port.ts'
import { Exchange } from '../chat/exchange.ts'
import { type ReceivedAnswer, receiveWhole } from '../chat/whole-answer.ts'
import { ticketOf } from '../dispatch/dispatched.ts'
import { chat } from '../operations/chat.ts'
import type { Ticket } from '../pool/waiting-line.ts'
import type { AbortCause, AttemptFailure } from '../relay/attempt.ts'
import type { ModelCallSample } from '../telemetry/model-metrics.ts'
import type { Span } from '../telemetry/tracing.ts'
import { WakeWait } from '../wake/wake-wait.ts'

export interface SubCallPort extends ChatPort {
  readonly subCall: (sample: ModelCallSample) => void
}

/** One call of a mixture before a node is chosen for it. */
export interface SubCallOrder {
  readonly placement: PlacementRequest
  readonly planned: PlannedExpert
  /** Builds the request for the node. The prompt of an aggregator depends on the context length of its node. */
  readonly prepare: (route: Route) => { readonly body: ChatRequest; readonly upstream: UpstreamBody }
  readonly dispatched: (call: DispatchedCall) => void
  /** What its answer keeps of memory, which others need until the mixture has ended. */
  readonly kept: (grant: Grant | null) => void
}

const noNode: SubCallResult = { status: 'no_node', call: null }

/** A normal request to one own node, without failover, retry or fallback, and with its own id and receipt. */
export class SubCall {
  private readonly controller = new AbortController()
  private readonly exchange: Exchange
  /** null: it has not waited for a slot. */
  private ticket: Ticket | null = null

  constructor(
    private readonly port: SubCallPort,
    /** The span of the mixture. */
    private readonly parent: ChatCommand<ChatRequest>,
    private readonly order: SubCallOrder,
    /** The span of the mixture. */
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
      clientNonce: null,
      signal: this.controller.signal,
      span,
      session: null,
      recorder: {
        record: ({ model, nodeId, latencyMs, ttftMs, queueMs, cachePercent, usage }) =>
          port.subCall({
            model,
            nodeId,
            queueS: queueMs / 1_000,
            cacheShare: cachePercent === null ? null : cachePercent / 100,
            durationS: latencyMs / 1_000,
            ttftS: ttftMs === null ? null : ttftMs / 1_000,
            promptTokens: usage?.prompt_tokens ?? 0,
            completionTokens: usage?.completion_tokens ?? 0,
          }),
      },
    }
    this.exchange = new Exchange(port, command, port.router.table(), null)
    this.exchange.sentOnce = true
  }

  abort(cause: AbortCause): void {
    this.controller.abort()
    this.exchange.attempt?.abort(cause)
  }

  /** Never rejects. A defect becomes the status `error`. */
  async run(failed: (error: unknown) => void): Promise<SubCallResult> {
    try {
      const { planned } = this.order
      // If another request took the planned slot meanwhile, this call waits for a slot like any other.
      const free = planned.kind === 'placed' && hasSlot(planned.route) ? planned.route : null
      const route = free ?? (planned.kind === 'no_node' ? null : await this.waitForRoute())
      if (route === null || !this.isHome(route)) return noNode
      if (route.load.reading.dozing) await this.port.rouser.rouse(route)
      return await this.call(route)
    } catch (error) {
      if (this.controller.signal.aborted) return { status: 'upstream_error', call: null }
      failed(error)
      // Frees the slot after any failure. If it is already free, this does nothing.
      this.exchange.attempt?.release({ kind: 'neutral' })
      this.exchange.finish(500, 'internal_error', null, null)
      return { status: 'error', call: null }
    }
  }

  /** Checks the ownership again at this moment: a prompt never goes to another account's node. */
  private isHome(route: Route): boolean {
    const { customerId } = this.parent.access
    return isOwn(route, customerId) && this.port.router.table().owners.get(route.nodeId) === customerId
  }

  /** All own nodes that serve the model are full, or sleep: the call waits as briefly as any request (§5, §39). */
  private async waitForRoute(): Promise<Route | null> {
    const waking = new WakeWait(this.port)
    try {
      return await this.routeWhenFree(waking)
    } finally {
      waking.end()
    }
  }

  private async routeWhenFree(waking: WakeWait): Promise<Route | null> {
    const { router, config } = this.port
    const untilMs = performance.now() + config.SVC_QUEUE_WAIT_MS
    const ticket = ticketOf(this.exchange.command)
    this.ticket = ticket
    const { placement: wanted } = this.order
    let seen = place(router.table(), { ...wanted, nowMs: Date.now() })
    for (;;) {
      const { signal } = this.controller
      const waited =
        seen.kind === 'asleep'
          ? await waking.wait(seen.route, wanted.modelId, ticket, signal)
          : await router.waitForSlot(wanted.modelId, ticket, untilMs - performance.now(), signal)
      signal.throwIfAborted()
      if (waited !== 'slot') return null
      const request = { ...wanted, nowMs: Date.now() }
      const table = router.table()
      seen = place(table, request)
      this.port.decided(this.parent, { table, request, placement: seen }, true)
      if (seen.kind === 'placed') return seen.route
      if (seen.kind === 'refused') return null
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
    const receiving = receiveWhole(exchange, route, upstream)
    // Only now the slot is taken, and the next who waits may look.
    if (this.ticket !== null) this.port.router.servedFromQueue(order.placement.modelId, this.ticket)
    const received = await receiving
    if ('failure' in received) return this.failed(call, received.failure)
    const { usage, conclusion, firstContentMs, completion } = received
    const { metadata: svc } = conclusion
    exchange.record(conclusion)
    order.kept(exchange.handOver(exchange.keptBytes))
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
    // A call that ended because its client left is not a failure of the node.
    if (!parent.signal.aborted) port.failed(code)
    exchange.finish(parent.signal.aborted ? 499 : new Problem(code).status, code, null, null)
    return { status: 'upstream_error', call }
  }
}

/** A sub-call asks for one choice, and `publicCompletion` returns at least one. */
const choiceOf = ({ choices }: ReceivedAnswer['completion']) => choices[0] as AnswerChoice
