import type { StreamWriter } from '../../actors/operations/operation.ts'
import { type ReadingOwner, StreamReading } from '../../actors/operations/reading/stream-reading.ts'
import { Problem, type ProblemCode } from '../../errors.ts'
import { openAiError } from '../../protocol/json/error-envelopes.ts'
import { paddedEvents } from '../../protocol/sealed/padding.ts'
import { secondMs } from '../../time.ts'
import type { NodeResponse } from '../../transport/transport.ts'
import { CallerStream } from '../chat/caller-stream.ts'
import type { SealedCall } from './sealed-call.ts'

/** If the gateway has not read more than this, the agent stops reading from the runtime, bytes. */
const queueMax = 64 * 1024
/** How long a complete answer waits for its usage. */
const usageWaitMs = 2 * secondMs
/** How long a runtime may take to end the body after its whole answer. */
const lingerMs = 2 * secondMs

export interface SealedTimes {
  /** The silence after which an empty frame is sent, ms. */
  readonly keepAliveMs: number
  /** A stream's head is sent after this time at the latest, ms, even if the runtime has sent nothing. */
  readonly headMs: number
}
export const sealedTimes: SealedTimes = { keepAliveMs: 15 * secondMs, headMs: 10 * secondMs }

export interface SealedStreamOptions {
  readonly times: SealedTimes
  readonly separateUsage: boolean
  readonly padded: boolean
}

/**
 * A runtime's stream on its way out, in its client's dialect and sealed frame by frame as chunks come. What fails before the
 * head has gone out is a refusal with its status, later an event, both inside the seal.
 */
export class SealedStream implements ReadingOwner {
  private readonly client: CallerStream<Uint8Array>
  private readonly reading: StreamReading
  private readonly head = Promise.withResolvers<ReadableStream<Uint8Array>>()
  private headSent = false
  private over = false
  private bodyOver = false
  private firstMs: number | null = null
  private lastWriteMs = Date.now()
  private finishing: ReturnType<typeof setTimeout> | null = null
  private alive: ReturnType<typeof setTimeout>
  private readonly headTimer: ReturnType<typeof setTimeout>

  constructor(
    private readonly call: SealedCall,
    private readonly writer: StreamWriter,
    private readonly options: SealedStreamOptions,
  ) {
    const { keepAliveMs, headMs } = options.times
    this.client = new CallerStream<Uint8Array>(queueMax, () => this.gone())
    this.reading = new StreamReading(this, writer, options.separateUsage)
    this.alive = setTimeout(() => this.keepAlive(), keepAliveMs)
    this.headTimer = setTimeout(() => this.sendHead(), headMs)
    call.stream = this
  }

  /** Resolves with the frames once the answer has begun. Rejects with the `Problem` that came in its place. */
  get frames(): Promise<ReadableStream<Uint8Array>> {
    return this.head.promise
  }

  /** The runtime answers. */
  read(response: NodeResponse): void {
    if (this.over) return response.discard()
    this.client.source = response.flow
    this.reading.begin()
    response.read({
      bytes: (chunk) => this.part(chunk, 0, chunk.length),
      part: (input, from, to) => this.part(input, from, to),
      ended: () => this.ended(),
      failed: () => this.ended(),
    })
  }

  private part(input: Buffer, from: number, to: number): void {
    if (this.over) return
    this.call.spoke = true
    this.reading.part(input, from, to)
    this.flush()
  }

  /** Cut or not: if its finish was there, the answer is complete. */
  private ended(): void {
    this.bodyOver = true
    if (this.over) return
    this.reading.end()
    if (this.reading.isFinished) this.complete()
    else this.fail(new Problem('upstream_error'))
  }

  started(): void {
    this.firstMs ??= Date.now()
    this.sendHead()
    if (this.writer.finish !== null) this.finishing ??= setTimeout(() => this.complete(), usageWaitMs)
  }

  complete(): void {
    if (this.over) return
    this.started()
    this.flush()
    if (this.over) return
    const settled = this.call.settle(this.writer.usage, this.writer.outputWeight, this.firstMs ?? Date.now())
    this.write(this.writer.last(settled, this.options.separateUsage))
    const reason = this.writer.finish?.[0]?.finish_reason
    this.end(typeof reason === 'string' ? reason : 'stop', true)
    if (!this.bodyOver) setTimeout(() => this.call.parts.signal.abort(), lingerMs)
  }

  broken(code: ProblemCode, said?: string): void {
    this.fail(said === undefined ? new Problem(code) : this.call.refusal(null, said))
  }

  skipped(): void {}

  /** Called when the agent stops. */
  cut(): void {
    this.fail(new Problem('server_shutdown'))
  }

  fail(problem: Problem): void {
    if (this.over) return
    if (this.headSent) {
      this.flush()
      this.call.settle(this.writer.usage, this.writer.outputWeight, this.firstMs ?? Date.now())
      const { error } = openAiError(problem, this.call.parts.order.requestId, null) as { readonly error: object }
      this.write(this.writer.failure(error))
    } else this.head.reject(problem)
    this.end('error', this.headSent)
    this.call.parts.signal.abort()
  }

  private gone(): void {
    if (this.over) return
    this.call.settle(this.writer.usage, this.writer.outputWeight, this.firstMs ?? Date.now())
    this.end('aborted', false)
    this.call.parts.signal.abort()
  }

  /** The caller has left before there was a stream that it could leave. */
  abandon(reason: unknown): void {
    if (this.over) return
    this.head.reject(reason)
    this.gone()
  }

  private sendHead(): void {
    if (this.headSent || this.over) return
    this.headSent = true
    clearTimeout(this.headTimer)
    this.head.resolve(this.client.stream)
  }

  private keepAlive(): void {
    const { keepAliveMs } = this.options.times
    const silentMs = Date.now() - this.lastWriteMs
    const isDue = this.headSent && silentMs >= keepAliveMs
    if (isDue) {
      this.lastWriteMs = Date.now()
      this.client.write(this.call.parts.sealer.keepAlive())
    }
    this.alive = setTimeout(() => this.keepAlive(), isDue ? keepAliveMs : Math.max(1, keepAliveMs - silentMs))
  }

  private flush(): void {
    if (this.over || !this.reading.hasText) return
    if (this.reading.bytesLeft < 0) {
      this.reading.drop()
      return this.fail(new Problem('upstream_error'))
    }
    this.write(this.reading.take())
  }

  private write(text: string): void {
    if (text === '') return
    this.lastWriteMs = Date.now()
    this.client.write(this.call.parts.sealer.frame(this.options.padded ? paddedEvents(text) : text))
  }

  private end(finish: string, whole: boolean): void {
    this.over = true
    this.reading.close()
    clearTimeout(this.alive)
    clearTimeout(this.headTimer)
    if (this.finishing !== null) clearTimeout(this.finishing)
    // The rest of the runtime's body is read without waiting for the caller.
    this.client.source?.resume()
    this.client.source = null
    this.client.close()
    this.call.end(finish, whole)
  }
}
