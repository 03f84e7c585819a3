import type { FailedTry } from '../../db/queries/requests/request-records.ts'
import type { Problem, ProblemCode } from '../../errors.ts'
import { CountedKeeper } from '../../host/counted-keeper.ts'
import { newId, ulid } from '../../ids.ts'
import type { Work } from '../../machines/placement/reading.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { ChunkIdentity } from '../../protocol/chat/chunk-reader.ts'
import { type PromptEstimate, wholeTokens } from '../../protocol/chat/token-estimate.ts'
import type { TokenUsage } from '../../protocol/chat/token-usage.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { Binding, type ReceiptBinding } from '../../protocol/receipts/binding.ts'
import type { ChatMetadata } from '../../protocol/wire/inference/chat.ts'
import type { Roster } from '../../roster.ts'
import { CallSignal } from '../../transport/call-signal.ts'
import type { Dispatched } from '../dispatch/dispatched.ts'
import type { Admission } from '../limits/limits.ts'
import { addSlot } from '../promises/promised-end.ts'
import { Attempt, type AttemptFailure } from '../relay/attempt.ts'
import type { Relay } from '../relay/relay.ts'
import type { Ticking } from '../relay/ticker.ts'
import { type ChatCommand, outputAsked } from './chat-command.ts'
import type { ChatPort } from './chat-port.ts'
import { type Conclusion, type ReportedWork, receiptOf, saysEstimated } from './exchange-receipt.ts'
import { failedTry, recordOf, tracedCall } from './exchange-record.ts'
import { billedCeiling, isBilled, PaidCall, quoteOf } from './paid-call.ts'

/** A body shorter than this costs less kept than estimated, UTF-16 units. */
const promptKeptMax = 4_096

/** The requests that have not ended. */
export type OpenRequests = Roster<'openPlace', Exchange>

/** What one request carries from its admission to its end. */
export class Exchange extends CountedKeeper implements Ticking, Dispatched<ChatCommand> {
  readonly created = Math.floor(Date.now() / 1_000)
  readonly id: string
  private estimate: PromptEstimate | null = null
  private finishedOnce = false
  /** null: the client wants no bound receipt. */
  binding: ReceiptBinding | null
  admission: Admission | null = null
  /** Tokens of the day's quota that were reserved. */
  reserved = 0
  attempts = 0
  /** A sub-call of a mixture: no silent retry (specification, mixture rule 1), not by the transport either. */
  sentOnce = false
  attempt: Attempt | null = null
  work: Work | null = null
  relay: Relay | null = null
  /** Of a request that several nodes do side by side. */
  parts: { readonly costWei?: bigint | null; abort(cause: 'client_gone' | 'shutdown' | 'total_timeout'): void } | null =
    null
  readonly ending = new CallSignal()
  openPlace = -1
  tickPlace = -1
  private stopped = false
  /** null for a free call. */
  paid: PaidCall | null = null
  /** The money of a model or node that was tried before; null: none was, or it cost nothing. */
  private left: PaidCall | null = null
  /** Of billed work: resolves when debit and receipt are on the disk. */
  durable: Promise<unknown> | null = null
  /** For the request's record (§32). */
  queueMs = 0
  loadWaitMs = 0
  wakeWaitMs = 0
  receiptHash: string | null = null
  failedTries: FailedTry[] | null = null

  constructor(
    readonly port: ChatPort,
    readonly command: ChatCommand,
    readonly table: RoutingTable,
    /** null: it is a part of another request, which is counted. */
    private readonly open: OpenRequests | null,
  ) {
    super(port.memory, command.access.customerId)
    this.id = command.operation.idPrefix + ulid()
    const { clientNonce: nonce } = command
    this.binding = nonce === null ? null : Binding.of(nonce, foreignJson(command.text))
  }

  /** One more call for this request: the first goes by the request's own id (§14). `timed`: its first token will be seen. */
  begin(route: Route, timed: boolean): Attempt {
    const { command, port } = this
    // The node that was tried before may have had a price that this one has not.
    if (this.paid !== null && !this.isBilled(route)) this.leaveMoney()
    this.attempts++
    const callId = this.attempts === 1 ? command.requestId : newId('req')
    const { operation, access } = command
    this.attempt = new Attempt(port.router, route, callId, access.keyId ?? '', this.work, timed, operation)
    if (command.span != null) this.attempt.span = command.span.call(tracedCall(this, route, callId))
    return this.attempt
  }

  /** A call that did not serve the request: rare, so that only such a request has a list. */
  tryFailed(code: ProblemCode): void {
    const { attempt, command } = this
    if (attempt === null) return
    this.failedTries ??= []
    this.failedTries.push(failedTry(command, attempt, code))
  }

  /** Undoes the count of a call that was not sent; has no effect on one that was. */
  withdraw(): void {
    if (this.attempt?.unsent !== true) return
    this.attempt.release({ kind: 'neutral' })
    this.attempt = null
    this.attempts--
  }

  /** Sets money aside for this route, once, null: at once. See `afford` of a call. */
  afford(route: Route): Promise<void> | null {
    const bounds = { promptEstimate: this.prompt(), outputMax: this.billedOutput(route) }
    this.paid ??= new PaidCall(this.port, this.command, bounds, this.left)
    return this.paid.reserve(route)
  }

  /** `performance.now()`: no node is called for it any more. The first chunk of a stream has a deadline of its own. */
  get callsUntilMs(): number {
    const { SVC_TOTAL_TIMEOUT_MS: totalMs, SVC_TTFT_TIMEOUT_MS: firstMs } = this.port.config
    const { startedMs } = this.command
    return startedMs + this.wakeWaitMs + (this.relay === null ? totalMs : Math.min(firstMs, totalMs))
  }

  ended(): AttemptFailure | null {
    if (this.command.signal.aborted) return { code: 'node_lost', failover: false }
    if (this.stopped) return { code: 'server_shutdown', failover: false }
    return performance.now() < this.callsUntilMs ? null : { code: 'upstream_timeout', failover: false }
  }

  /** The node is the caller's own account's. */
  owns(route: Route | undefined): boolean {
    return route?.customerId === this.command.access.customerId
  }

  /** What can cost nothing is free: an embedding of a model whose output alone has a price. */
  isBilled(route: Route): boolean {
    if (!isBilled(route, this.command.access.customerId)) return false
    return quoteOf(route, this.prompt(), this.billedOutput(route)) > 0n
  }

  /** `max_tokens` of a billed request: as given, else a bound that is injected. */
  billedOutput(route: Route): number {
    const { operation, access } = this.command
    if (!operation.generates) return 0
    const { SVC_OUTPUT_TOKENS_DEFAULT: usual } = this.port.config
    return outputAsked(this.command) ?? billedCeiling(route, usual, access.policy.maxTokensPerRequest)
  }

  /** Prompt tokens, estimated once, on first use. */
  prompt(): number {
    return this.promptEstimate().tokens
  }

  promptEstimate(): PromptEstimate {
    this.estimate ??= this.command.operation.estimate(this.command.body)
    return this.estimate
  }

  /** The answer has begun: what may still be asked of the prompt is its estimate. */
  forgetPrompt(): void {
    const { command } = this
    if (command.text.length < promptKeptMax) return
    this.prompt()
    const { model, stream_options: options, svc } = command.body
    const jobId = svc?.job_id
    command.text = ''
    command.body = {
      model,
      ...(options === undefined ? {} : { stream_options: options }),
      ...(jobId === undefined ? {} : { svc: { job_id: jobId } }),
    }
  }

  /** What all of the answer is known by. */
  identity(): ChunkIdentity {
    return { id: this.id, created: this.created, model: this.command.body.model }
  }

  modelId(name = this.command.body.model): string | null {
    return this.table.byModel.get(name)?.[0]?.modelId ?? null
  }

  /** It is this model's turn: what was waited for and set aside for the one before does not count for it. */
  turnTo(model: string, attempt: Attempt | null): void {
    const { command } = this
    ;(command.body as { model: string }).model = model
    command.ticket = undefined
    this.attempt = attempt
    this.work = null
    this.leaveMoney()
  }

  /** What was set aside is not for the call that comes. */
  protected leaveMoney(): void {
    this.paid?.leave()
    this.left = this.paid ?? this.left
    this.paid = null
  }

  /** A whole answer has one deadline; a stream's relay watches its own. */
  tick(nowMs: number): void {
    if (nowMs - this.command.startedMs < this.port.config.SVC_TOTAL_TIMEOUT_MS) return
    this.attempt?.abort('total_timeout')
    this.parts?.abort('total_timeout')
  }

  protected override endForMemory(refusal: Problem): void {
    this.attempt?.outOfMemory(refusal)
  }

  /** The signal of the client aborts. */
  handleEvent(): void {
    this.abort('client_gone')
  }

  /** The client is gone, or the gateway stops. */
  abort(cause: 'client_gone' | 'shutdown'): void {
    this.parts?.abort(cause)
    this.stopped ||= cause === 'shutdown'
    this.ending.abort()
    this.withdraw()
    if (this.relay === null) this.attempt?.abort(cause)
    else if (cause === 'client_gone') this.relay.clientGone()
    else this.relay.shutDown()
  }

  usageOf(reported: TokenUsage | null, outputWeight: () => number): { usage: TokenUsage; estimated: boolean } {
    if (reported !== null) {
      return { usage: this.paid?.clamp(reported, outputWeight()) ?? reported, estimated: false }
    }
    const prompt = this.prompt()
    const estimate = wholeTokens(outputWeight())
    const completion = this.paid === null ? estimate : this.paid.bound(estimate)
    const usage = { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
    return { usage, estimated: true }
  }

  /** The receipt and the metadata of an answer that a node gave, whole or in part. Nothing is written or charged yet. */
  conclude(attempt: Attempt, reported: ReportedWork, ttftMs: number): Conclusion {
    const { command } = this
    const { route } = attempt
    const latencyMs = performance.now() - command.startedMs
    const { receipt, invalid } = receiptOf(this, attempt, reported, latencyMs)
    if (invalid) this.port.failed('receipt_invalid')
    const metadata: ChatMetadata = {
      runtime_id: route.runtimeId,
      runtime_kind: route.runtimeKind,
      latency_ms: Math.round(latencyMs),
      ttft_ms: Math.round(ttftMs),
      receipt_hash: receipt.hash,
      request_id: command.requestId,
    }
    if (reported.estimated || (route.agent !== null && saysEstimated(reported.vouched))) metadata.usage_estimated = true
    if (route.external) metadata.external = true
    if (this.binding !== null) metadata.receipt_salt = this.binding.saltText
    if (this.binding !== null || this.paid !== null) addSlot(metadata, this.port.promises)
    return { route, usage: reported.usage, receipt, metadata }
  }

  /** The receipt is kept and the work charged: once the answer stands as it will be sent (§27). */
  record({ route, usage, receipt }: Conclusion): void {
    this.receiptHash = receipt.hash
    if (this.paid === null) return this.port.receipt(receipt)
    this.durable = this.paid.charge(route, usage, receipt)
    // A waiting caller gets the failure. For a client that has left, the ledger has already logged it.
    this.durable.catch(() => {})
  }

  /** When the charge stands: until then a client's key may depend on it. */
  private giveBackLeft(): void {
    const { left, durable } = this
    if (left === null) return
    const giveBack = () => left.release()
    if (durable === null) giveBack()
    else durable.then(giveBack, giveBack)
  }

  /** Another account's node cannot use up an account's quota by its own claims (§5, usage). */
  private tokensUsed(usage: TokenUsage | null): number {
    const reported = usage?.total_tokens ?? 0
    return this.owns(this.attempt?.route) ? reported : Math.min(reported, this.reserved)
  }

  finish(status: number, code: ProblemCode | null, usage: TokenUsage | null, ttftMs: number | null): void {
    if (this.finishedOnce) return
    this.finishedOnce = true
    this.port.ticker.delete(this)
    this.open?.delete(this)
    this.dropKept()
    this.admission?.settle(this.tokensUsed(usage))
    if (this.durable === null) this.paid?.release()
    this.giveBackLeft()
    this.command.recorder.record(recordOf(this, { status, code, usage, ttftMs }))
  }
}
