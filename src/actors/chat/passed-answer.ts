import { struck } from '../../confidences.ts'
import { Problem, type ProblemCode } from '../../errors.ts'
import type { Route } from '../../machines/rules/routing.ts'
import type { UpstreamBody } from '../../protocol/chat/upstream-request.ts'
import { HeldWords } from '../../protocol/media/held-words.ts'
import { failureIn, jsonUsage, passedType } from '../../protocol/media/passed-answer.ts'
import { ClientStream } from '../../transport/client-stream.ts'
import type { BodySink, NodeResponse, TransportError } from '../../transport/transport.ts'
import type { Attempt, AttemptFailure } from '../relay/attempt.ts'
import type { Ticking } from '../relay/ticker.ts'
import type { Exchange } from './exchange.ts'
import { callNode, failedAnswer } from './node-call.ts'

/** Of an answer that is passed on (§28). */
const passedBytesMax = 64 * 1024 * 1024
/** How much of a JSON answer is kept to read its usage. */
const keptBytesMax = 1024 * 1024
const jsonType = 'application/json'
/** In the place of `struck`, whatever the encoding is. */
const struckBytes = '[...]'

export interface PassedAnswer {
  readonly contentType: string
  readonly stream: ReadableStream<Uint8Array>
}

/** Sound or pictures on their way from a node to the client: bytes as they come, held back while the client does not read. */
class Passing implements BodySink, Ticking {
  private readonly client: ClientStream<Uint8Array>
  private readonly firstByteMs = performance.now()
  tickPlace = -1
  private passed = 0
  /** Of JSON, while it is short. */
  private kept: Buffer[] | null
  private begun: ((failure: AttemptFailure | null) => void) | null = null
  private readonly words: HeldWords
  private over = false

  constructor(
    private readonly exchange: Exchange,
    private readonly attempt: Attempt,
    private readonly response: NodeResponse,
    private readonly contentType: string,
  ) {
    this.kept = contentType === jsonType ? [] : null
    this.words = new HeldWords(contentType, (text) => attempt.confided.strike(text).replaceAll(struck, struckBytes))
    const { port } = exchange
    this.client = new ClientStream(port.config.SVC_CLIENT_QUEUE_BYTES_MAX, () => this.clientGone())
    this.client.source = response.flow
    port.ticker.add(this)
  }

  get answer(): PassedAnswer {
    return { contentType: this.contentType, stream: this.client.stream }
  }

  /** Resolves with its first bytes, or with why there is no answer. */
  begin(): Promise<AttemptFailure | null> {
    return new Promise((resolve) => {
      this.begun = resolve
      this.response.read(this)
    })
  }

  bytes(chunk: Buffer): void {
    if (this.over) return
    this.passed += chunk.length
    if (this.passed > passedBytesMax) return this.cut()
    if (this.passed > keptBytesMax) this.kept = null
    this.kept?.push(chunk)
    this.pass(this.words.push(chunk))
    this.exchange.keeps(this.client.queued + (this.kept === null ? 0 : this.passed))
  }

  private pass(words: Buffer): void {
    if (words.length === 0) return
    const failure = this.begun === null ? null : failureIn(words.toString('utf8'), this.contentType)
    if (failure !== null) return this.fail(this.attempt.failedByContent(failure))
    this.start()
    this.client.write(words, performance.now())
  }

  ended(): void {
    if (this.over) return
    this.pass(this.words.end())
    if (this.over) return
    if (this.passed === 0) return this.fail(this.attempt.failedByContent(''))
    this.settle(null)
    this.client.close()
  }

  failed(error: TransportError): void {
    if (this.over) return
    if (this.begun !== null) return this.fail(this.attempt.failedBy(error))
    const failure = this.attempt.failedBy(error)
    failure.strike?.()
    this.settle(this.attempt.cause === null ? 'node_lost' : failure.code)
    this.client.cut()
  }

  tick(nowMs: number): void {
    const { stalledAtMs } = this.client
    if (stalledAtMs > 0 && nowMs - stalledAtMs >= this.exchange.port.config.SVC_SLOW_CLIENT_TIMEOUT_MS)
      this.clientGone()
  }

  private start(): void {
    const begun = this.begun
    this.begun = null
    begun?.(null)
  }

  /** Nothing was passed on yet: another node may be tried. */
  private fail(failure: AttemptFailure): void {
    const begun = this.begun
    this.end()
    this.attempt.signal.abort()
    begun?.(failure)
  }

  /** The node sends more than was requested. */
  private cut(): void {
    this.attempt.failedByContent('')
    this.settle('upstream_error')
    this.client.cut()
    this.attempt.signal.abort()
  }

  private clientGone(): void {
    if (this.over) return
    this.attempt.cause ??= 'client_gone'
    this.settle(null)
    this.client.cut()
    this.attempt.signal.abort()
  }

  private end(): void {
    this.over = true
    this.begun = null
    this.exchange.port.ticker.delete(this)
  }

  /** What passed is metered, however it ended. */
  private settle(code: ProblemCode | null): void {
    this.end()
    const { exchange, attempt } = this
    const { startedMs } = exchange.command
    const reported = this.kept === null ? null : jsonUsage(Buffer.concat(this.kept).toString('utf8'))
    const { usage, estimated } = exchange.usageOf(reported, () => 0)
    const gone = attempt.cause === 'client_gone'
    if (code === null && !gone) {
      const durationMs = performance.now() - attempt.startedMs
      attempt.release({
        kind: 'ok',
        ttftMs: null,
        durationMs,
        promptTokens: 0,
        completionTokens: 0,
        cachedTokens: null,
      })
    } else attempt.release({ kind: 'neutral' })
    attempt.span?.endCall({ model: attempt.route.modelId, usage, finishReasons: [] }, null)
    exchange.record(
      exchange.conclude(
        attempt,
        { usage, estimated, vouched: null, whole: false, choices: null },
        this.firstByteMs - startedMs,
      ),
    )
    if (gone) exchange.finish(499, null, usage, null)
    else exchange.finish(code === null ? 200 : new Problem(code).status, code, usage, null)
  }
}

/** One try of a request whose answer is passed on: resolves at its first bytes. */
export async function tryPassed(
  exchange: Exchange,
  route: Route,
  upstream: UpstreamBody,
): Promise<PassedAnswer | { readonly failure: AttemptFailure }> {
  const { form } = upstream
  const ended = exchange.ended()
  if (ended !== null) return { failure: ended }
  const attempt = exchange.begin(route, false)
  // Of a long form a part has gone with this call and is kept nowhere: no other node can get it.
  const failed = (failure: AttemptFailure) => ({
    failure: form?.spent === true ? { ...failure, failover: false } : failure,
  })
  try {
    const response = await callNode(exchange, attempt, upstream)
    if (response.status !== 200) return failed(await failedAnswer(attempt, response))
    const contentType = passedType(response.headers.get('content-type'))
    if (contentType === null || attempt.confided.isIn(contentType)) {
      response.discard()
      return failed(attempt.failedByContent(''))
    }
    const passing = new Passing(exchange, attempt, response, contentType)
    const failure = await passing.begin()
    return failure === null ? passing.answer : failed(failure)
  } catch (error) {
    const fault = form?.fault ?? null
    return failed(fault === null ? attempt.failedBy(error) : attempt.failedByRequest(fault))
  }
}
