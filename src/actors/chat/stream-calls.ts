import { problemFor } from '../../db/outage.ts'
import { helpUrl, Problem, type ProblemCode } from '../../errors.ts'
import { streamError } from '../../protocol/chat/stream-error.ts'
import { usageSum } from '../../protocol/chat/token-usage.ts'
import { type ClientEnd, ClientStream, writeEnd } from '../../transport/client-stream.ts'
import type { BodyFlow } from '../../transport/transport.ts'
import { dispatch } from '../dispatch/dispatch.ts'
import type { CallWriter } from '../operations/operation.ts'
import { promisedEnd } from '../promises/promised-end.ts'
import { Relay } from '../relay/relay.ts'
import type { RelayedRequest } from '../relay/relay-port.ts'
import type { Exchange } from './exchange.ts'
import { metadataOf } from './exchange-receipt.ts'
import type { ManyCalls } from './many-calls.ts'
import { StreamOwner, tryStream } from './stream-answer.ts'
import { placementRequest } from './wanted.ts'

/** What a call's own stream said of its failure, as in OpenAI's envelope. */
class CallFailed extends Error {
  constructor(readonly failure: object) {
    super('a call of a stream failed')
  }
}

/** The client's end of one call: a place in the stream of all. */
class CallEnd implements ClientEnd {
  private readonly over = Promise.withResolvers<void>()
  private flow: BodyFlow | null = null

  constructor(private readonly all: StreamOfCalls) {}

  /** Resolves when the call has written its last. */
  get closed(): Promise<void> {
    return this.over.promise
  }

  get stream(): ReadableStream<string> {
    return this.all.stream
  }

  get source(): BodyFlow | null {
    return this.flow
  }

  set source(flow: BodyFlow | null) {
    this.flow = flow
    if (this.stalledAtMs > 0) flow?.pause()
  }

  get stalledAtMs(): number {
    return this.all.client.stalledAtMs
  }

  get queued(): number {
    return this.all.queuedEach
  }

  get lastWriteMs(): number {
    return this.all.client.lastWriteMs
  }

  set lastWriteMs(ms: number) {
    this.all.client.lastWriteMs = ms
  }

  write(text: string, nowMs: number): void {
    if (text !== '') this.all.write(text, nowMs)
  }

  close(): void {
    this.over.resolve()
  }

  closeWhenRead(read: () => void): void {
    this.close()
    read()
  }

  cut(): void {
    this.all.cut()
    this.close()
  }
}

/**
 * Several answers in one stream. Each comes by a relay of its own, with its deadlines, its failover before the first byte and its
 * charge; they share the client's end, which holds all their nodes back while the client does not read. The answer that ends last
 * brings the usage of all. The status waits for the first of them, and their first failure ends the stream.
 */
export class StreamOfCalls implements BodyFlow {
  readonly client: ClientStream
  private readonly opening = Promise.withResolvers<void>()
  private readonly ends = new Map<CallEnd, CallWriter>()
  /** Of the calls that are done, in their order. */
  private readonly writers: CallWriter[] = []
  private left: number
  private over = false
  private firstContentMs: number | null = null
  private last: CallWriter | null = null

  constructor(private readonly calls: ManyCalls) {
    const { exchange, plan } = calls
    this.left = plan.count
    this.client = new ClientStream(exchange.port.config.SVC_CLIENT_QUEUE_BYTES_MAX, () => this.leave())
    this.client.source = this
  }

  get stream(): ReadableStream<string> {
    return this.client.stream
  }

  /** The part of one call in what the client has not taken, UTF-16 units. */
  get queuedEach(): number {
    return Math.ceil(this.client.queued / Math.max(1, this.ends.size))
  }

  /** Resolves when the status can wait no longer; rejects where nothing was sent and nothing will be. */
  open(): Promise<void> {
    this.calls
      .run((call, at) => this.follow(call, at))
      .then(
        () => this.finish(),
        (error: unknown) => this.fail(error),
      )
    return this.opening.promise
  }

  private async follow(call: Exchange, at: number): Promise<void> {
    const { calls } = this
    const { exchange, plan } = calls
    const { port } = exchange
    const writer = plan.writer(exchange.identity(), at)
    const end = new CallEnd(this)
    const { startedMs, operation, body } = call.command
    const request: RelayedRequest = {
      requestId: exchange.command.requestId,
      startedMs,
      operation,
      body,
      get ticket() {
        return call.command.ticket
      },
    }
    const relay = new Relay(port, new StreamOwner(call), request, writer, end)
    call.relay = relay
    this.ends.set(end, writer)
    const opened = relay.open()
    void this.send(call, relay)
    try {
      await opened
      this.commit(writer)
      await end.closed
    } finally {
      relay.abandon()
      this.ends.delete(end)
    }
    if (writer.error !== null) throw new CallFailed(writer.error)
    if (writer.end === null) throw new Problem('service_unavailable')
    this.writers[at] = writer
    this.last = writer
    if (--this.left > 0) this.write(writer.finishChunk(), performance.now())
  }

  /** The relay gets the outcome. */
  private async send(call: Exchange, relay: Relay): Promise<void> {
    const { calls } = this
    try {
      await dispatch(call, placementRequest(call), (route, firstChunkMs) =>
        tryStream(call, relay, route, calls.bodyFor(call, route), firstChunkMs),
      )
      call.forgetPrompt()
      relay.dispatched()
    } catch (error) {
      relay.undispatched(error)
    }
  }

  private commit(writer: CallWriter): void {
    this.last ??= writer
    this.calls.begun = true
    this.opening.resolve()
  }

  write(text: string, nowMs: number): void {
    if (this.over) return
    // A comment is no content.
    if (this.firstContentMs === null && !text.startsWith(':')) {
      this.firstContentMs = nowMs - this.calls.exchange.command.startedMs
    }
    this.client.write(text, nowMs)
  }

  pause(): void {
    for (const end of this.ends.keys()) end.source?.pause()
  }

  resume(): void {
    for (const end of this.ends.keys()) end.source?.resume()
  }

  /** The client reads nothing any more. */
  cut(): void {
    this.client.cut()
    this.leave()
  }

  private async finish(): Promise<void> {
    const { calls, client, last } = this
    const { exchange } = calls
    await calls.end()
    if (this.over || last === null) return
    const ends = this.writers.map(({ end }) => end).filter((end) => end !== null)
    const usage = usageSum(ends.map((end) => end.usage))
    const metadata = metadataOf(
      exchange,
      ends.map((end) => end.metadata),
    )
    const { include_usage: apart }: { readonly include_usage?: unknown } = exchange.command.body.stream_options ?? {}
    const written = last.lastOfAll({ usage, metadata }, apart === true)
    const text = await (promisedEnd(exchange, written, metadata) ?? written)
    if (this.over) return
    this.over = true
    writeEnd(client, text, performance.now())
    exchange.finish(200, null, usage, this.firstContentMs)
  }

  /** After the status failures are events; before it the caller tells them. */
  private fail(error: unknown): void {
    const { calls, client, last } = this
    const { exchange } = calls
    void calls.end()
    if (this.over) return
    if (exchange.command.signal.aborted) return this.leave()
    this.over = true
    if (!calls.begun || last === null) return this.opening.reject(error)
    const { requestId } = exchange.command
    const problem =
      error instanceof CallFailed ? new Problem((error.failure as { code: ProblemCode }).code) : problemFor(error)
    const failure =
      error instanceof CallFailed
        ? error.failure
        : streamError(problem, requestId, helpUrl(exchange.port.baseUrl(), problem.code))
    writeEnd(client, last.failureOfAll(failure), performance.now())
    exchange.finish(problem.status, problem.code, calls.usage, this.firstContentMs)
  }

  private leave(): void {
    if (this.over) return
    this.over = true
    const { calls, client } = this
    calls.abort('client_gone')
    void calls.end()
    client.close()
    this.opening.reject(new Problem('service_unavailable'))
    calls.exchange.finish(499, null, calls.usage, this.firstContentMs)
  }
}
