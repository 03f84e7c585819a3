import type { Confidences } from '../confidences.ts'
import type { CancelSignal } from './call-signal.ts'

/**
 * The one shape by which the gateway reaches a node (§22). Chat, probes and jobs never know how a node is
 * connected; a tunnel is another file with this shape.
 */
export interface NodeTransport {
  /** Resolves with the head of the answer. Rejects with `TransportError` only. */
  fetch(path: string, init: NodeRequest): Promise<NodeResponse>
  /** The same without a promise. Absent: it is not worth one here. */
  ask?(path: string, init: NodeRequest, receiver: AnswerReceiver): void
  /** What the node was told in confidence, to be struck from its words. Absent: no key of its own. */
  readonly confided?: Confidences
  close(): void
}

/** Hears exactly one of the two, once. Never throws. */
export interface AnswerReceiver {
  answered(response: NodeResponse): void
  /** By a `TransportError`. */
  refused(error: unknown): void
}

export interface NodeRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: RequestBody
  /** In the place of `body`, to a server that is reached directly; needs `once`, since it could not be sent again. */
  readonly stream?: BodyStream
  /** Ends the call in whatever state it is, the node's connection included. One for each call, or not much longer-lived. */
  readonly signal: CancelSignal
  /**
   * True: the node gets it once at most. It has a connection of its own, because a kept one that is found closed cannot
   * say whether the request had reached the node, and is otherwise followed by a second try.
   */
  readonly once?: boolean
  /** Whose request it is: a kept connection carries the requests of one key alone. Absent: a poll, which belongs to no key. */
  readonly isolationKey?: string
}

/** A text, its pieces in order (a long text is not copied to be joined), or bytes that are no text. */
export type RequestBody = string | readonly string[] | Uint8Array

/** In one piece, for what hashes or copies it. */
export const wholeBody = (body: RequestBody): string | Uint8Array =>
  typeof body === 'string' || body instanceof Uint8Array ? body : body.join('')

/** A body that comes while it is sent. */
export interface BodyStream {
  /** Bytes; null: not known yet. */
  readonly length: number | null
  /** The next bytes; null at the end. Where it rejects, the call ends as if it were aborted. */
  next(): Promise<Uint8Array | null>
}

/** One answer. Its body is read once, by `read` or `text`, or given up by `discard`. */
export interface NodeResponse {
  readonly status: number
  readonly headers: { get(name: string): string | null }
  /** Hands the body to the sink as it comes, what has come already at once. */
  read(sink: BodySink): void
  readonly flow: BodyFlow
  /** The whole body as UTF-8. Rejects with `TransportError` beyond `bytesMax`. */
  text(bytesMax: number): Promise<string>
  discard(): void
}

/** Takes a node's bytes as they come, then exactly one of `ended` and `failed`. Never throws. */
export interface BodySink {
  bytes(chunk: Buffer): void
  /** In the place of `bytes`, for a reader that needs no view of its own: those of `input` from `from` to `to`. */
  part?(input: Buffer, from: number, to: number): void
  ended(): void
  failed(error: TransportError): void
}

/**
 * Hands on a part of what was read from a socket. A view for each chunk of a stream costs a tenth of its processor time and makes the
 * collector's pauses longer (bench/notebook), so only readers without `part` get one.
 */
export function handPart(sink: BodySink, input: Buffer, from: number, to: number): void {
  if (sink.part !== undefined) sink.part(input, from, to)
  else sink.bytes(viewOf(input, from, to))
}

export const viewOf = (input: Buffer, from: number, to: number): Buffer =>
  from === 0 && to === input.length ? input : input.subarray(from, to)

/** Holds a node back, or lets it go. */
export interface BodyFlow {
  pause(): void
  resume(): void
}

/**
 * Why a call got no answer, or no whole one. `refused` and `closed` make the node stale at once; `exhausted` says nothing
 * of the node: this process has no descriptor left to connect with.
 */
export type TransportFailure =
  | 'refused'
  | 'closed'
  | 'dns'
  | 'tls'
  | 'timeout'
  | 'aborted'
  | 'malformed'
  | 'too_large'
  | 'exhausted'

export class TransportError extends Error {
  override readonly name = 'TransportError'
  constructor(readonly failure: TransportFailure) {
    // The cause is left out on purpose: socket errors name the node's address.
    super(`node transport: ${failure}`)
  }
}
