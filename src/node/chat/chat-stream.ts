import { Problem, type ProblemCode } from '../../errors.ts'
import { ulid } from '../../ids.ts'
import { OutputMeter, skippedLinesMax } from '../../protocol/chat/answer-bounds.ts'
import { BoundRewriter } from '../../protocol/chat/bound-rewriter.ts'
import { ChunkRewriter } from '../../protocol/chat/chunk-rewriter.ts'
import { SseSplitter } from '../../protocol/chat/sse.ts'
import { usageText } from '../../protocol/chat/token-usage.ts'
import { reportsAsked } from '../../protocol/dialects/members/server-reports.ts'
import { openAiError } from '../../protocol/json/error-envelopes.ts'
import type { NodeResponse } from '../../transport/transport.ts'
import { CallerStream } from './caller-stream.ts'
import type { ChatCall } from './chat-call.ts'

/** If the caller has not read more than this, the agent stops reading from the runtime, UTF-16 units. */
const queueMax = 64 * 1024
/** How long a complete answer waits for its usage. */
const usageWaitMs = 2_000
/** How long a runtime may take to end the body after its whole answer. Its connection then serves the next call. */
const lingerMs = 2_000

/**
 * A runtime's stream on its way out: chunks by the gateway's own rewriter, then one terminal chunk with usage and the
 * signed receipt. A failure is an error event and no `[DONE]`; a reader that leaves ends the runtime's call.
 */
export class ChatStream {
  private readonly client: CallerStream
  private readonly rewriter: ChunkRewriter
  /** null if the caller does not need the whole answer's text. */
  private readonly bound: BoundRewriter | null
  private readonly splitter: SseSplitter
  /** True if the caller asked for a separate usage chunk. */
  private readonly separateUsage: boolean
  private readonly output = new OutputMeter()
  private skippedLines = 0
  private gathered = ''
  private over = false
  private finishing: ReturnType<typeof setTimeout> | null = null
  private lingering: ReturnType<typeof setTimeout> | null = null
  private bodyOver = false

  constructor(
    private readonly call: ChatCall,
    response: NodeResponse,
  ) {
    const { stream_options: options } = call.input.body
    this.separateUsage = (options as { readonly include_usage?: unknown } | null | undefined)?.include_usage === true
    const created = Math.floor(Date.now() / 1_000)
    const identity = { id: `chatcmpl-${ulid()}`, created, model: call.modelId }
    const asked = reportsAsked(call.input.body)
    this.bound = call.input.order?.binding == null ? null : new BoundRewriter(identity, asked)
    this.rewriter = this.bound ?? new ChunkRewriter(identity, asked)
    this.splitter = new SseSplitter({
      data: (payload) => this.event(payload),
      errorLine: (payload) => this.refused(payload),
    })
    this.client = new CallerStream(queueMax, () => this.gone())
    this.client.source = response.flow
    response.read({
      bytes: (chunk) => this.bytes(chunk),
      ended: () => this.ended(),
      failed: () => this.failed(),
    })
  }

  get stream(): ReadableStream<string> {
    return this.client.stream
  }

  /** Called when the agent stops. */
  cut(): void {
    this.fail('server_shutdown')
  }

  private bytes(chunk: Buffer): void {
    if (this.over) return
    this.call.spoke = true
    this.output.onBytes(chunk.length)
    if (!this.splitter.push(chunk)) this.fail('upstream_error')
    this.flush()
  }

  private event(payload: string): void {
    if (this.over) return
    if (payload === '[DONE]') {
      if (this.rewriter.finish !== null) this.complete()
      return
    }
    const accepted = this.rewriter.accept(payload)
    if (accepted.kind === 'failed') return this.refused(payload)
    if (accepted.kind === 'malformed' && ++this.skippedLines > skippedLinesMax) return this.fail('upstream_error')
    if (accepted.kind === 'chunk') this.gathered += accepted.text
    else if (this.rewriter.finish !== null) this.awaitUsage()
  }

  /** The finish chunk and the usage may come in one chunk or in two, or the usage may never come. */
  private awaitUsage(): void {
    if (this.finishing === null) {
      this.finishing = setTimeout(() => this.complete(), usageWaitMs)
      if (this.separateUsage) this.gathered += this.rewriter.finishChunk()
    }
    if (this.rewriter.usageFinal) this.complete()
  }

  private ended(): void {
    if (this.endBody()) return
    this.splitter.end()
    if (this.rewriter.finish !== null) this.complete()
    else this.fail('upstream_error')
  }

  private failed(): void {
    if (this.endBody()) return
    if (this.rewriter.finish !== null) this.complete()
    else this.fail('upstream_error')
  }

  /** Called when the runtime has ended. Returns true if nothing else is missing. */
  private endBody(): boolean {
    this.bodyOver = true
    if (this.lingering !== null) clearTimeout(this.lingering)
    return this.over
  }

  private complete(): void {
    if (this.over || this.outputExceeded()) return
    const choices = this.bound?.choices() ?? null
    const { usage, svc } = this.call.conclude(this.rewriter.usage, this.rewriter.outputWeight, choices)
    this.gathered += this.rewriter.terminal(
      `,"usage":${usageText(usage)},"svc":${JSON.stringify(svc)}`,
      this.separateUsage,
    )
    this.end()
    if (!this.bodyOver) this.lingering = setTimeout(() => this.call.signal.abort(), lingerMs)
  }

  /** Handles an error that came instead of a chunk. */
  private refused(payload: string): void {
    this.failWith(this.call.refusal(null, payload) ?? new Problem('upstream_error'))
  }

  private fail(code: ProblemCode): void {
    this.failWith(new Problem(code))
  }

  private failWith(problem: Problem): void {
    if (this.over) return
    const { error } = openAiError(problem, this.call.input.requestId, null) as { readonly error: object }
    this.gathered += this.rewriter.failure(error)
    this.end()
    this.call.signal.abort()
  }

  private gone(): void {
    if (this.over) return
    this.gathered = ''
    this.end()
    this.call.signal.abort()
  }

  private end(): void {
    this.over = true
    if (this.finishing !== null) clearTimeout(this.finishing)
    this.flush()
    // The caller has the whole answer, so the rest of the runtime's body is read without waiting for the caller.
    this.client.source?.resume()
    this.client.source = null
    this.client.close()
    this.call.release()
  }

  /** The output would exceed the bound for the runtime's bytes: drops the gathered text, and the stream fails. */
  private outputExceeded(): boolean {
    if (this.over || this.output.bytesLeft(Buffer.byteLength(this.gathered)) >= 0) return false
    this.gathered = ''
    this.fail('upstream_error')
    return true
  }

  private flush(): void {
    if (this.gathered === '' || this.outputExceeded()) return
    this.output.wrote(Buffer.byteLength(this.gathered))
    const text = this.gathered
    this.gathered = ''
    this.client.write(text)
  }
}
