import type { ProblemCode } from '../../../errors.ts'
import { longBytesMin, OutputMeter, skippedLinesMax } from '../../../protocol/chat/answer-bounds.ts'
import type { SplicedReader } from '../../../protocol/chat/chunk-rewriter.ts'
import { type SseSink, SseSplitter } from '../../../protocol/chat/sse.ts'
import type { StreamWriter } from '../operation.ts'

/** Events of a node's stream, which come at once, even in the middle of a chunk. */
export interface ReadingOwner {
  /** The first chunk of an answer is there. */
  started(): void
  /** For the client, before what is gathered. Absent: all is gathered. */
  passed?(text: string): void
  /** All of the answer is there. */
  complete(): void
  /** The stream cannot be read on. `said`: by the node, in the place of an answer. */
  broken(code: ProblemCode, said?: string): void
  /** A line of the node that is no JSON was passed over. */
  skipped(): void
}

/**
 * The node's bytes on their way to the client's text: cuts them into events, has each rewritten, holds the finish chunk
 * for the usage, and bounds what one answer may be (§27). It knows neither the client nor time.
 */
export class StreamReading implements SseSink, SplicedReader {
  /** `performance.now()` of the node's last bytes, of the first content and of the finish chunk; 0, null: not yet. */
  nodeAtMs = 0
  firstContentMs: number | null = null
  finishAtMs = 0
  private splitter: SseSplitter | null = null
  private open = false
  private readonly output = new OutputMeter()
  private skippedLines = 0
  /** Text gathered from one read of the node: one write to the client, nothing held back. */
  private gathered = ''
  private gatheredBytes = 0

  /** `includeUsage`: the client asked for a usage chunk of its own. */
  constructor(
    private readonly owner: ReadingOwner,
    private readonly rewriter: StreamWriter,
    private readonly includeUsage: boolean,
  ) {}

  /** A try's answer begins. A fresh splitter: a broken event of one node must not run into the next node's first. */
  begin(): void {
    this.splitter = new SseSplitter(this)
    this.nodeAtMs = performance.now()
    this.open = true
  }

  /** All further bytes of the node, including the rest of the present chunk, belong to no answer. */
  close(): void {
    this.open = false
  }

  part(input: Buffer, from: number, to: number): void {
    this.output.onBytes(to - from)
    const { splitter } = this
    if (splitter === null) return
    const at = this.splice(splitter, input, from, to)
    if (at < to && !splitter.push(input, at, to)) this.owner.broken('upstream_error')
  }

  /** Most reads are one event that differs from the last in its text alone: where the first other one begins. */
  private splice(splitter: SseSplitter, input: Buffer, from: number, to: number): number {
    const { rewriter } = this
    if (rewriter.splice === undefined || !this.open || rewriter.finish !== null || !splitter.isBetweenEvents)
      return from
    return rewriter.splice(input, from, to, this)
  }

  /** Kept here for no moment: a stream that lives for long and holds each new text is work for the collector. */
  spliced(text: string, bytes: number): void {
    const { owner } = this
    owner.started()
    this.firstContentMs ??= this.nodeAtMs
    if (owner.passed === undefined || this.hasText || this.bytesLeft < bytes) return this.gather(text, bytes)
    this.output.wrote(bytes)
    owner.passed(text)
  }

  private gather(text: string, bytes: number): void {
    this.gathered = this.gathered === '' ? text : this.gathered + text
    this.gatheredBytes += bytes
  }

  /** No bytes come any more: an event that lacks its blank line still counts. */
  end(): void {
    this.splitter?.end()
  }

  errorLine(payload: string): void {
    this.owner.broken('upstream_error', payload)
  }

  /** An event of the node. */
  data(payload: string): void {
    if (!this.open) return
    if (payload === '[DONE]') {
      if (this.rewriter.finish !== null) this.owner.complete()
      return
    }
    const accepted = this.rewriter.accept(payload)
    if (accepted.kind === 'malformed') return this.skip()
    if (accepted.kind === 'failed') return this.owner.broken('upstream_error', payload)
    if (accepted.kind === 'chunk') {
      this.owner.started()
      this.gather(accepted.text, Buffer.byteLength(accepted.text))
      if (this.firstContentMs === null && this.rewriter.contentSeen) this.firstContentMs = this.nodeAtMs
    }
    // Some writers pass on at once what the finish chunk says: then it is a chunk as well.
    if (this.rewriter.finish !== null) this.finishing()
  }

  /** A model server may write a broken line now and then. Beyond `skippedLinesMax` of them its stream counts as broken. */
  private skip(): void {
    this.owner.skipped()
    if (++this.skippedLines > skippedLinesMax) this.owner.broken('upstream_error')
  }

  /** The finish chunk and the usage may come in one chunk, in two, or the second never. */
  private finishing(): void {
    if (this.finishAtMs === 0) {
      this.owner.started()
      this.finishAtMs = this.nodeAtMs
      if (this.includeUsage) {
        const text = this.rewriter.finishChunk()
        this.gather(text, Buffer.byteLength(text))
      }
    }
    if (this.rewriter.usageFinal) this.owner.complete()
  }

  get isFinished(): boolean {
    return this.rewriter.finish !== null
  }

  get isLong(): boolean {
    return this.output.nodeBytes > longBytesMin
  }

  /** Of an event that has not ended, and of the answer. */
  get keptBytes(): number {
    return (this.splitter?.keptBytes ?? 0) + this.rewriter.keptBytes
  }

  /** How many bytes may be written in addition to the gathered ones; below 0 if too much is gathered. */
  get bytesLeft(): number {
    return this.output.bytesLeft(this.gatheredBytes) + (this.rewriter.repeatedBytes ?? 0)
  }

  get hasText(): boolean {
    return this.gathered !== ''
  }

  /** The gathered bytes, for the client. */
  take(): string {
    const text = this.gathered
    this.output.wrote(this.gatheredBytes)
    this.drop()
    return text
  }

  drop(): void {
    this.gathered = ''
    this.gatheredBytes = 0
  }
}
