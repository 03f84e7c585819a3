import { textBytes } from '../../host/budget.ts'
import type { Route } from '../../machines/rules/routing.ts'
import { longBytesMin } from '../../protocol/chat/answer-bounds.ts'
import type { UpstreamBody } from '../../protocol/chat/upstream-request.ts'
import { CountedText } from '../../transport/counted-text.ts'
import { type AnswerReceiver, type BodySink, type NodeResponse, TransportError } from '../../transport/transport.ts'
import { promisedEnd } from '../promises/promised-end.ts'
import type { Attempt, AttemptFailure } from '../relay/attempt.ts'
import type { Exchange } from './exchange.ts'
import { afford, failedAnswer, nodeRequest, wayToNode } from './node-call.ts'
import {
  answerBytesMax,
  concluded,
  type ReadAnswer,
  type ReceivedAnswer,
  readWhole,
  sentAnswer,
  tryReceived,
  type WholeTry,
  writeAnswer,
} from './whole-answer.ts'

/**
 * One try of a whole answer that the node does not stream. It needs one object and one promise from the request's
 * bytes to the answer's; `tryReceived` has five nested suspended functions. What waits stands in methods of its own: one with a closure in it
 * makes an object for its variables at each call.
 */
class WholeCall extends CountedText implements AnswerReceiver, BodySink {
  private readonly attempt: Attempt
  private firstByteMs = 0
  private response: NodeResponse | null = null
  private over = false

  constructor(
    private readonly exchange: Exchange,
    route: Route,
    private readonly resolve: (result: WholeTry) => void,
    private readonly reject: (error: unknown) => void,
  ) {
    super(exchange, exchange.port.largeWork, answerBytesMax)
    this.attempt = exchange.begin(route, false)
  }

  begin(upstream: UpstreamBody): void {
    const { exchange, attempt } = this
    if (!exchange.isBilled(attempt.route)) return this.send(upstream)
    try {
      const affording = afford(exchange, attempt)
      if (affording === null) this.send(upstream)
      else this.sendAfter(affording, upstream)
    } catch (error) {
      this.fail(error)
    }
  }

  private sendAfter(affording: Promise<AttemptFailure | null>, upstream: UpstreamBody): void {
    affording.then(
      (unsent) => (unsent === null ? this.send(upstream) : this.end({ failure: unsent })),
      (error: unknown) => this.fail(error),
    )
  }

  private send(upstream: UpstreamBody): void {
    const { exchange, attempt } = this
    const transport = wayToNode(exchange, attempt)
    if (transport === null) return this.refused(new TransportError('aborted'))
    try {
      const request = nodeRequest(exchange, attempt, upstream)
      if (transport.ask !== undefined) transport.ask(upstream.path, request, this)
      else this.take(transport.fetch(upstream.path, request))
    } catch (error) {
      this.refused(error)
    }
  }

  private take(fetched: Promise<NodeResponse>): void {
    fetched.then(
      (response) => this.answered(response),
      (error: unknown) => this.refused(error),
    )
  }

  answered(response: NodeResponse): void {
    if (response.status === 200) {
      this.firstByteMs = performance.now()
      this.response = response
      response.read(this)
    } else this.failedBy(response)
  }

  private failedBy(response: NodeResponse): void {
    failedAnswer(this.attempt, response).then(
      (failure) => this.end({ failure }),
      (error: unknown) => this.refused(error),
    )
  }

  refused(error: unknown): void {
    if (!this.over) this.end({ failure: this.attempt.failedBy(error) })
  }

  bytes(chunk: Buffer): void {
    const { response } = this
    if (this.over || response === null) return
    const fault = this.add(response, chunk)
    if (fault === null) return
    this.refused(new TransportError(fault))
    response.discard()
  }

  failed(error: TransportError): void {
    this.refused(error)
  }

  ended(): void {
    if (this.small) this.read()
    else this.readInTurn()
  }

  private readInTurn(): void {
    this.whole(() => this.read())
  }

  /** Of a long answer reading, committing and writing each have a turn of the event loop. */
  private read(): void {
    if (this.over) return
    const long = this.size > longBytesMin
    const read = this.readAnswer()
    if (read === null) return
    // Nothing that still comes changes it.
    this.over = true
    if (long) setImmediate(WholeCall.concludeLong, this, read)
    else this.conclude(read, false)
  }

  private static concludeLong(call: WholeCall, read: ReadAnswer): void {
    call.conclude(read, true)
  }

  private static writeLong(call: WholeCall, received: ReceivedAnswer): void {
    call.write(received)
  }

  private conclude(read: ReadAnswer, long: boolean): void {
    const { exchange, attempt } = this
    try {
      const received = concluded(exchange, attempt, read, this.firstByteMs)
      if (long) setImmediate(WholeCall.writeLong, this, received)
      else this.write(received)
    } catch (error) {
      this.fail(error)
    }
  }

  private write(received: ReceivedAnswer): void {
    const { exchange } = this
    try {
      const body = writeAnswer(exchange, received)
      const promised = promisedEnd(exchange, body, received.conclusion.metadata)
      if (promised === null) this.sent(body, received)
      else this.sendPromised(promised, received)
    } catch (error) {
      this.fail(error)
    }
  }

  private sendPromised(promised: Promise<string>, received: ReceivedAnswer): void {
    promised.then(
      (text) => this.sent(text, received),
      (error: unknown) => this.fail(error),
    )
  }

  private sent(body: string, received: ReceivedAnswer): void {
    const { exchange } = this
    try {
      const kept = exchange.handOver(textBytes(body.length))
      exchange.finish(200, null, received.usage, null)
      this.end(sentAnswer(exchange, body, kept))
    } catch (error) {
      this.fail(error)
    }
  }

  private fail(error: unknown): void {
    this.over = true
    this.reject(error)
  }

  /** null: it was no answer, and the try is over. */
  private readAnswer(): ReadAnswer | null {
    const { exchange, attempt } = this
    try {
      const read = readWhole(this.takeText(), exchange.command, attempt.route)
      if (!('said' in read)) return read
      this.end({ failure: attempt.failedByContent(read.said) })
    } catch (error) {
      this.refused(error)
    }
    return null
  }

  private end(result: WholeTry): void {
    this.over = true
    this.drop()
    this.resolve(result)
  }
}

/** One try of a request without a stream. */
export function tryWhole(exchange: Exchange, route: Route, upstream: UpstreamBody): Promise<WholeTry> {
  if (upstream.stream || upstream.form !== undefined) return tryReceived(exchange, route, upstream)
  const ended = exchange.ended()
  if (ended !== null) return Promise.resolve({ failure: ended })
  return new Promise((resolve, reject) => new WholeCall(exchange, route, resolve, reject).begin(upstream))
}
