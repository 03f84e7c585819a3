import { Problem } from '../../errors.ts'
import { newId, type RequestId } from '../../ids.ts'
import { type PlacementRequest, place } from '../../machines/rules/placement.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'
import { type TokenUsage, usageSum } from '../../protocol/chat/token-usage.ts'
import type { UpstreamBody } from '../../protocol/chat/upstream-request.ts'
import type { CallPlan } from '../operations/operation.ts'
import { CallsMoney } from './calls-money.ts'
import type { ChatCommand, ChatRecord } from './chat-command.ts'
import type { ChatPort } from './chat-port.ts'
import { Exchange } from './exchange.ts'
import type { PaidCall } from './paid-call.ts'
import { bodyFor } from './wanted.ts'

/** Calls of one request at once. */
const callsAtOnceMax = 16

/** One call of a request that is several. */
class OneCall extends Exchange {
  constructor(
    port: ChatPort,
    command: ChatCommand,
    table: RoutingTable,
    private readonly moneyFor: (route: Route) => Promise<PaidCall | null>,
  ) {
    super(port, command, table, null)
  }

  override async afford(route: Route): Promise<void> {
    this.paid = await this.moneyFor(route)
  }

  /** What no call has used goes back at the end of all: until then that of the first one keeps the client's key in use. */
  protected override leaveMoney(): void {
    this.paid = null
  }

  override finish(...end: Parameters<Exchange['finish']>): void {
    if (this.durable === null) this.leaveMoney()
    super.finish(...end)
  }
}

/**
 * A request that is several calls: each is placed, tried and metered as any request, so that every node can do it. The first call of
 * a request waits for a slot like any other; further ones begin only where one is free, so that a long list takes no more places in
 * the line than a single prompt. The first failure ends all of them.
 */
export class ManyCalls {
  private readonly money: CallsMoney
  private readonly running = new Map<number, Exchange>()
  /** Of the calls that have ended. */
  private readonly records: ChatRecord[] = []
  private readonly ids: readonly RequestId[]
  private readonly done = Promise.withResolvers<void>()
  private work: ((call: Exchange, at: number) => Promise<void>) | null = null
  /** The next call to begin. */
  private next = 0
  private over = false
  /** The client has the status of its stream. */
  begun = false

  constructor(
    readonly exchange: Exchange,
    readonly plan: CallPlan,
    private readonly request: PlacementRequest,
    /** `max_tokens` to inject into each. */
    private readonly ceiling: number | null,
  ) {
    const { requestId } = exchange.command
    // The first one goes by the request's own id (§14).
    this.ids = Array.from({ length: plan.count }, (_, at) => (at === 0 ? requestId : newId('req')))
    const left = () => this.ids.keys().filter((at) => at >= this.next || this.running.has(at))
    this.money = new CallsMoney(exchange, { wanted: () => [...left()], commandOf: (at) => this.commandOf(at, '') })
  }

  /** Resolves when `work` is done for all calls, and rejects with the first failure. */
  run(work: (call: Exchange, at: number) => Promise<void>): Promise<void> {
    this.work = work
    this.begin()
    return this.done.promise
  }

  private commandOf(at: number, text: string): ChatCommand {
    const { command } = this.exchange
    return {
      ...command,
      requestId: this.ids[at] as RequestId,
      // Each has the time of a request for itself; the request's own clock bounds them all.
      startedMs: performance.now(),
      body: this.plan.bodyOf(at),
      text,
      idempotencyKey: null,
      recorder: { record: (record) => void this.records.push(record) },
    }
  }

  private begin(): void {
    while (!this.over && this.next < this.plan.count && this.mayBegin()) this.start(this.next++)
  }

  private mayBegin(): boolean {
    const { running, exchange } = this
    if (running.size === 0) return true
    const most = Math.min(callsAtOnceMax, exchange.admission?.slots ?? callsAtOnceMax)
    if (running.size >= most) return false
    const placement = place(exchange.port.router.table(), { ...this.request, nowMs: Date.now() })
    // While a model is being loaded, one call waits for it.
    return placement.kind === 'placed' && !placement.route.load.reading.cold
  }

  private start(at: number): void {
    const { port } = this.exchange
    const command = this.commandOf(at, this.plan.textOf(at))
    const call = new OneCall(port, command, port.router.table(), (route) => this.money.of(at, route))
    this.running.set(at, call)
    const ended = this.work?.(call, at) ?? Promise.resolve()
    ended.then(
      () => {
        this.running.delete(at)
        if (this.next === this.plan.count && this.running.size === 0) this.done.resolve()
        else this.begin()
      },
      (error: unknown) => {
        this.running.delete(at)
        this.drop(call)
        this.fail(error)
      },
    )
  }

  /** What this route is sent. */
  bodyFor(call: Exchange, route: Route): UpstreamBody {
    return bodyFor(call, route, this.ceiling)
  }

  /** The call gave nothing that stands. */
  drop(call: Exchange): void {
    call.attempt?.release({ kind: 'neutral' })
    call.finish(new Problem('upstream_error').status, 'upstream_error', null, null)
  }

  /** One call has failed for good: the others are of no use. */
  fail(error: unknown): void {
    if (this.over) return
    this.over = true
    this.done.reject(error)
    for (const call of this.running.values()) {
      call.abort('client_gone')
      // This also ends one that waits for a slot.
      call.abort('shutdown')
    }
  }

  /** No call begins any more, and what runs is of no use. */
  get ended(): boolean {
    return this.over
  }

  abort(cause: 'client_gone' | 'shutdown' | 'total_timeout'): void {
    const stopped = this.begun ? 'server_shutdown' : 'service_unavailable'
    this.fail(new Problem(cause === 'total_timeout' ? 'upstream_timeout' : stopped))
  }

  get costWei(): bigint | null {
    return this.money.costWei
  }

  /** Of the calls that have ended; null: none gave anything. */
  get usage(): TokenUsage | null {
    const usages = this.records.map(({ usage }) => usage).filter((usage) => usage !== null)
    return usages.length === 0 ? null : usageSum(usages)
  }

  /** All calls have ended. Resolves when the request's idempotency key says that they were charged, which is durable by then. */
  end(): Promise<void> {
    this.over = true
    const { exchange, records, usage } = this
    exchange.attempts = records.reduce((sum, { attempts }) => sum + attempts, 0)
    const hash =
      records.find(({ costWei, receiptHash }) => costWei !== null && receiptHash !== null)?.receiptHash ?? null
    return this.money.end(hash === null || usage === null ? null : { receiptHash: hash, usage })
  }
}
