import { Problem, type ProblemCode } from '../../errors.ts'
import { ClientStream } from '../../transport/client-stream.ts'
import type { BodySink, NodeResponse, NodeTransport, TransportError } from '../../transport/transport.ts'
import type { Exchange } from '../chat/exchange.ts'
import type { Attempt } from '../relay/attempt.ts'
import type { Ticking } from '../relay/ticker.ts'
import { askUsage } from './node-usage.ts'
import type { SealedBinding } from './sealed-binding.ts'

/** Of one sealed answer, as of any other that is passed on. */
const sealedBytesMax = 64 * 1024 * 1024

export interface SealedRelayParts {
  readonly exchange: Exchange
  readonly attempt: Attempt
  readonly transport: NodeTransport
  readonly binding: SealedBinding
  readonly response: NodeResponse
}

/** A node's sealed bytes on their way to the client, as they come, held back while the client does not read. */
export class SealedRelay implements BodySink, Ticking {
  private readonly client: ClientStream<Uint8Array>
  private readonly firstByteMs = performance.now()
  tickPlace = -1
  private passed = 0
  private over = false

  constructor(private readonly parts: SealedRelayParts) {
    const { exchange, response } = parts
    const { port } = exchange
    this.client = new ClientStream<Uint8Array>(port.config.SVC_CLIENT_QUEUE_BYTES_MAX, () => this.clientGone())
    this.client.source = response.flow
    port.ticker.add(this)
  }

  get stream(): ReadableStream<Uint8Array> {
    return this.client.stream
  }

  begin(): void {
    this.parts.response.read(this)
  }

  bytes(chunk: Buffer): void {
    if (this.over) return
    const { exchange, attempt, binding } = this.parts
    this.passed += chunk.length
    if (this.passed > sealedBytesMax) {
      attempt.failedByContent('')
      this.broken('upstream_error')
      return attempt.signal.abort()
    }
    binding.answered(chunk)
    this.client.write(chunk, performance.now())
    exchange.keeps(this.client.queued)
  }

  ended(): void {
    if (this.over) return
    this.end()
    const { attempt, binding, response } = this.parts
    binding.whole()
    this.client.close()
    const { startedMs } = attempt
    const none = { ttftMs: null, promptTokens: 0, completionTokens: 0, cachedTokens: null }
    attempt.release({ kind: 'ok', durationMs: performance.now() - startedMs, ...none })
    void this.settle(response.status, null, true)
  }

  failed(error: TransportError): void {
    if (this.over) return
    const { attempt } = this.parts
    const failure = attempt.failedBy(error)
    failure.strike?.()
    this.broken(attempt.cause === null ? 'node_lost' : failure.code)
  }

  tick(nowMs: number): void {
    const { stalledAtMs } = this.client
    if (stalledAtMs > 0 && nowMs - stalledAtMs >= this.parts.exchange.port.config.SVC_SLOW_CLIENT_TIMEOUT_MS)
      this.clientGone()
  }

  /** Its client must not take what it got for all of the answer. */
  private broken(code: ProblemCode): void {
    this.end()
    this.client.cut()
    const gone = this.parts.attempt.cause === 'client_gone'
    void this.settle(gone ? 499 : new Problem(code).status, gone ? null : code, false)
  }

  private clientGone(): void {
    if (this.over) return
    const { attempt } = this.parts
    attempt.cause ??= 'client_gone'
    this.end()
    this.client.cut()
    attempt.signal.abort()
    attempt.release({ kind: 'neutral' })
    void this.settle(499, null, false)
  }

  private end(): void {
    this.over = true
    this.parts.exchange.port.ticker.delete(this)
  }

  /** What the node has used is asked for, metered and kept; the client waits for none of it. A refusal has used nothing. */
  private async settle(status: number, code: ProblemCode | null, whole: boolean): Promise<void> {
    const { exchange, attempt, transport } = this.parts
    const { startedMs } = exchange.command
    if (status >= 400 && whole) return exchange.finish(status, code, null, null)
    const nodeUsage = code === null || attempt.cause !== null ? await askUsage(transport, attempt.callId) : null
    const { usage, estimated } = exchange.usageOf(nodeUsage?.usage ?? null, () => 0)
    attempt.span?.endCall({ model: attempt.route.modelId, usage, finishReasons: [] }, code)
    const reported = {
      usage,
      estimated: estimated || nodeUsage?.estimated === true,
      vouched: { svc: nodeUsage?.svc },
      whole,
      choices: null,
    }
    exchange.record(exchange.conclude(attempt, reported, this.firstByteMs - startedMs))
    exchange.finish(status, code, usage, null)
  }
}
