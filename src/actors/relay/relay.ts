import { problemFor } from '../../db/outage.ts'
import { helpUrl, Problem, type ProblemCode } from '../../errors.ts'
import { textBytes } from '../../host/budget.ts'
import { streamError } from '../../protocol/chat/stream-error.ts'
import { type ClientEnd, ClientStream, writeEnd } from '../../transport/client-stream.ts'
import type { NodeResponse, TransportError } from '../../transport/transport.ts'
import type { StreamWriter } from '../operations/operation.ts'
import { type ReadingOwner, StreamReading } from '../operations/reading/stream-reading.ts'
import type { AbortCause, Attempt, AttemptFailure } from './attempt.ts'
import { Opening } from './opening.ts'
import type { RelayEnd, RelayedRequest, RelayOwner, RelayPort } from './relay-port.ts'
import type { Ticking } from './ticker.ts'
import { TryBody } from './try-body.ts'

/** A node that has answered in full may take this long to end its body. */
const lingerMs = 2_000

/** What a stream keeps is counted after this many bytes from its node, not with every chunk. */
const countedBytes = 16 * 1024

const loadingComment = ': svc loading\n\n'
/** Of a node of the client's own account; a name is one line of text. */
const wakingComment = (name: string) => `: svc waking ${name.replaceAll(/\s+/g, ' ')}\n\n`

type Phase = 'waiting' | 'streaming' | 'ended'

/**
 * One stream, from the node's bytes to the client's (§6): commits the status late, writes what is read of the node as it
 * comes, keeps silent connections alive, and turns every failure after the commit into an error event, never a silent end.
 *
 * | event                                  | waiting                             | streaming                | ended |
 * |----------------------------------------|-------------------------------------|--------------------------|-------|
 * | a chunk of the node                    | streaming                           | –                        | –     |
 * | its finish and usage, or the hold over | ended: complete                     | ended: complete          | –     |
 * | its error, end, cut or broken event    | –: the try failed, another may come | ended: error event       | –     |
 * | no first chunk in time                 | –: the try is cut, another may come |                          |       |
 * | time over in all, between chunks       | as its cut                          | ended: error event       |       |
 * | the gateway stops                      | as its cut                          | ended: error event       | –     |
 * | no try is left                         | ended: plain error; committed: event |                         |       |
 * | the client left, or reads nothing      | ended: the node is cut              | ended: the node is cut   | –     |
 * | the node's body does not end           |                                     |                          | cut   |
 *
 * Beside them stands `committed`: the status is 200 and can no longer change, with the first chunk or when it had waited
 * for long enough. One ticker has all deadlines; no stream has a timer or a closure of its own.
 */
export class Relay implements Ticking, ReadingOwner {
  private readonly client: ClientEnd
  private reading: StreamReading
  /** The client asked for a usage chunk of its own. */
  private readonly includeUsage: boolean
  private phase: Phase = 'waiting'
  tickPlace = -1
  private attempt: Attempt | null = null
  private firstChunk: ((failure: AttemptFailure | null) => void) | null = null
  private readonly opening = new Opening()
  /** Bytes of the node since the kept bytes were last counted. */
  private uncounted = 0
  private firstChunkByMs = Number.POSITIVE_INFINITY
  private lingerUntilMs = 0
  private completing = false

  constructor(
    private readonly port: RelayPort,
    private readonly owner: RelayOwner,
    private readonly request: RelayedRequest,
    private rewriter: StreamWriter,
    /** Of a stream in which others write, too; null: this one has it to itself. */
    client: ClientEnd | null = null,
  ) {
    const options: { readonly include_usage?: unknown } = request.body.stream_options ?? {}
    this.includeUsage = options.include_usage === true
    this.reading = new StreamReading(this, rewriter, this.includeUsage)
    this.client = client ?? new ClientStream(port.config.SVC_CLIENT_QUEUE_BYTES_MAX, () => this.clientGone())
    port.ticker.add(this)
  }

  get stream(): ReadableStream<string> {
    return this.client.stream
  }

  /** Resolves when the first chunk is there or the status can wait no longer; later failures go into the stream. */
  open(): Promise<void> {
    return this.opening.begin(performance.now() + this.port.config.SVC_HEADER_COMMIT_MS)
  }

  /** A node answers. */
  dispatched(): void {
    if (!this.opening.committed) this.commit()
  }

  /** No node does. */
  undispatched(error: unknown): void {
    if (!this.opening.committed) return this.opening.refuse(error)
    this.fail(problemFor(error))
  }

  expects(attempt: Attempt): boolean {
    return this.attempt === attempt
  }

  /** A try begins: its deadlines count from here. `firstChunkByMs`: then the route is given up. `own`: the client's own account's. */
  expect(attempt: Attempt, firstChunkByMs: number, own: boolean): void {
    this.attempt = attempt
    this.rewriter.from?.(own)
    this.firstChunkByMs = firstChunkByMs
  }

  /** It is another model's turn, of whose answer nothing is there: this writes it. */
  writeBy(writer: StreamWriter): void {
    this.rewriter = writer
    this.reading = new StreamReading(this, writer, this.includeUsage)
  }

  /** The expected try failed before it had an answer, and has been counted. */
  letGo(): void {
    this.attempt = null
    this.reading.close()
    this.client.source = null
    this.firstChunkByMs = Number.POSITIVE_INFINITY
  }

  /** Reads the answer of the expected try; resolves with null at its first chunk, or with why there was none. */
  attach(attempt: Attempt, response: NodeResponse): Promise<AttemptFailure | null> {
    this.reading.begin()
    return new Promise((resolve) => {
      this.firstChunk = resolve
      this.client.source = response.flow
      response.read(new TryBody(this, attempt))
    })
  }

  private commit(): void {
    this.client.lastWriteMs = performance.now()
    this.opening.commit()
  }

  /** Commits before there is a chunk. Bun sends the headers with the first bytes of the body, so there must be some. */
  private commitEarly(): void {
    this.commit()
    this.client.write(this.keepAlive(), performance.now())
  }

  /** The comment that a waiting client gets: no names, and of other requests only their number. */
  private keepAlive(): string {
    const { ticket, operation } = this.request
    if (operation.streamType !== undefined) return this.rewriter.keepAlive
    const place = ticket?.place
    if (place != null && ticket?.waking != null) return wakingComment(ticket.waking)
    if (this.attempt?.waitsForLoad === true || ticket?.rousing === true || (place != null && ticket?.loading === true))
      return loadingComment
    return place == null ? this.rewriter.keepAlive : `: svc queued ${place.ahead + 1} of ${place.waiting}\n\n`
  }

  part(input: Buffer, from: number, to: number): void {
    this.reading.nodeAtMs = performance.now()
    if (this.phase === 'ended') return
    this.reading.part(input, from, to)
    this.flush()
    this.uncounted += to - from
    if (this.uncounted >= countedBytes) this.count()
  }

  /** A chunk may have ended the answer and released its kept bytes. */
  private count(): void {
    this.uncounted = 0
    if (this.phase !== 'ended') this.owner.keeps(this.reading.keptBytes + textBytes(this.client.queued))
  }

  ended(): void {
    if (this.phase === 'ended') return this.port.ticker.delete(this)
    this.reading.end()
    this.flush()
    if (this.reading.isFinished) this.complete()
    else this.broken('node_lost')
  }

  failed(error: TransportError): void {
    const attempt = this.attempt
    if (this.phase === 'ended' || attempt === null) return this.port.ticker.delete(this)
    if (this.firstChunk !== null) return this.settleFirst(attempt.failedBy(error))
    // The answer was complete but for its usage: a cut connection takes nothing away.
    if (this.reading.isFinished && attempt.cause === null) return this.complete()
    if (attempt.cause === null) return this.broken('node_lost')
    const failure = attempt.failedByCause(attempt.cause)
    failure.strike?.()
    this.broken(failure.code, '', failure.problem)
  }

  skipped(): void {
    this.owner.skipped()
  }

  started(): void {
    if (this.firstChunk === null) return
    this.phase = 'streaming'
    this.settleFirst(null)
  }

  passed(text: string): void {
    this.client.write(text, this.reading.nodeAtMs)
  }

  private settleFirst(failure: AttemptFailure | null): void {
    const settle = this.firstChunk
    this.firstChunk = null
    this.firstChunkByMs = Number.POSITIVE_INFINITY
    if (failure !== null) this.letGo()
    settle?.(failure)
  }

  private flush(): void {
    const { reading } = this
    if (reading.hasText && !this.outputExceeded()) this.client.write(reading.take(), reading.nodeAtMs)
  }

  /** The output would exceed the bound for the node's bytes: drops the gathered text, and the stream fails. */
  private outputExceeded(): boolean {
    if (this.phase === 'ended' || this.reading.bytesLeft >= 0) return false
    this.reading.drop()
    this.broken('upstream_error')
    return true
  }

  /** Of a long answer in a turn of its own: what ends it may repeat all of it. */
  complete(): void {
    if (this.outputExceeded() || this.completing) return
    this.completing = this.reading.isLong
    if (!this.completing) return this.settle()
    this.reading.close()
    this.flush()
    setImmediate(() => {
      if (this.phase !== 'ended') this.settle()
    })
  }

  private settle(): void {
    const { terminal, unbuilt, promised } = this.end('complete', null)
    if (terminal === null) this.tell(new Problem(unbuilt))
    else if (promised === null) this.finish(terminal)
    else {
      this.flush()
      promised.then(
        (text) => this.finish(text),
        (error: unknown) => this.tell(problemFor(error)),
      )
    }
    // The last bytes of the node are read, not cut: its connection then serves the next request.
    this.lingerUntilMs = performance.now() + lingerMs
    this.port.ticker.add(this)
  }

  private finish(terminal: string): void {
    this.writeEnd(this.reading.take() + terminal, this.reading.nodeAtMs)
  }

  /**
   * The node failed, and `said` why: before its first chunk another node may be tried; after it the client gets an
   * error event.
   */
  broken(code: ProblemCode, said = '', problem = new Problem(code)): void {
    const attempt = this.attempt
    if (this.phase === 'ended' || attempt === null) return
    if (this.firstChunk !== null) {
      const failure = attempt.failedByContent(said)
      attempt.signal.abort()
      return this.settleFirst(failure)
    }
    this.flush()
    this.fail(problem)
    attempt.signal.abort()
  }

  /** Ends a committed stream with an error event and no `[DONE]`. */
  fail(problem: Problem): void {
    if (this.phase === 'ended') return
    this.end('failed', problem.code)
    this.tell(problem)
  }

  private tell(problem: Problem): void {
    const error = streamError(problem, this.request.requestId, helpUrl(this.port.baseUrl(), problem.code))
    this.writeEnd(this.rewriter.failure(error, this.reading.bytesLeft), performance.now())
  }

  /** The last event may repeat the whole answer, and is kept until the client has read it. */
  private writeEnd(text: string, nowMs: number): void {
    const kept = this.owner.leaves(textBytes(this.client.queued + text.length))
    writeEnd(this.client, text, nowMs, kept === null ? null : () => kept.close())
  }

  /** The client is gone: stops the node now and settles its work. */
  clientGone(cut = false): void {
    if (this.phase === 'ended') return
    const { attempt } = this
    // Settled before the call is cut: the cut comes back as its failure, which no client must see.
    if (attempt !== null) attempt.cause ??= 'client_gone'
    this.end('client_gone', null)
    attempt?.signal.abort()
    this.settleFirst({ code: 'node_lost', failover: false })
    if (cut) this.client.cut()
    else this.client.close()
  }

  /** Nothing was sent and nothing will be: the caller gets a plain error instead. */
  abandon(): void {
    if (this.phase === 'ended') return
    this.phase = 'ended'
    this.reading.close()
    this.port.ticker.delete(this)
  }

  shutDown(): void {
    if (this.phase === 'ended') return
    this.attempt?.abort('shutdown')
    if (this.opening.committed) this.fail(new Problem('server_shutdown'))
  }

  private end(kind: RelayEnd['kind'], code: ProblemCode | null) {
    this.phase = 'ended'
    this.reading.close()
    this.port.ticker.delete(this)
    return this.owner.settle({
      kind,
      code,
      attempt: this.attempt,
      usage: this.rewriter.usage,
      cachedTokens: this.rewriter.cachedTokens,
      svc: this.rewriter.svc,
      outputWeight: this.rewriter.outputWeight,
      firstContentMs: this.reading.firstContentMs,
      finish: this.rewriter.finish,
      writer: this.rewriter,
      usageApart: this.includeUsage,
      bytesLeft: this.reading.bytesLeft,
    })
  }

  tick(nowMs: number): void {
    const { reading } = this
    const { config } = this.port
    if (this.phase === 'ended') {
      if (nowMs < this.lingerUntilMs) return
      this.attempt?.signal.abort()
      return this.port.ticker.delete(this)
    }
    if (this.opening.isDue(nowMs)) this.commitEarly()
    if (nowMs - this.request.startedMs >= config.SVC_TOTAL_TIMEOUT_MS) return this.timeOut('total_timeout')
    if (nowMs >= this.firstChunkByMs) return this.timeOut('first_chunk_timeout')
    if (this.phase === 'streaming') {
      if (reading.finishAtMs > 0 && nowMs - reading.finishAtMs >= config.SVC_FINISH_HOLD_MS) return this.complete()
      if (this.client.stalledAtMs > 0) {
        if (nowMs - this.client.stalledAtMs >= config.SVC_SLOW_CLIENT_TIMEOUT_MS) this.clientGone(true)
        return
      }
      if (nowMs - reading.nodeAtMs >= config.SVC_INTER_CHUNK_TIMEOUT_MS) return this.timeOut('stream_idle')
    }
    if (this.opening.committed && nowMs - this.client.lastWriteMs >= config.SVC_KEEP_ALIVE_MS) {
      this.client.write(this.keepAlive(), nowMs)
    }
  }

  private timeOut(cause: AbortCause): void {
    const attempt = this.attempt
    this.firstChunkByMs = Number.POSITIVE_INFINITY
    // A transport that does not answer is told by its signal; the pump's failure then comes back to `failed`.
    if (attempt !== null) attempt.abort(cause)
    else if (this.opening.committed) this.fail(new Problem('upstream_timeout'))
  }
}
