import type { ProblemCode } from '../../errors.ts'
import type { Grant } from '../../host/budget.ts'
import type { RequestId } from '../../ids.ts'
import type { TokenUsage } from '../../protocol/chat/token-usage.ts'
import type { Config } from '../../settings/config.ts'
import type { InferenceRequest, Operation, StreamWriter } from '../operations/operation.ts'
import type { Ticket } from '../pool/waiting-line.ts'
import type { Attempt } from './attempt.ts'
import type { Ticker } from './ticker.ts'

/** What a stream has to know of the request that it answers. */
export interface RelayedRequest {
  readonly requestId: RequestId
  /** `performance.now()`. */
  readonly startedMs: number
  readonly operation: Pick<Operation, 'streamType'>
  readonly body: Pick<InferenceRequest, 'stream_options'>
  /** Its place in the line for a slot; absent until it has to wait. */
  readonly ticket?: Ticket | undefined
}

/** How a stream ended, told once. */
export interface RelayEnd {
  readonly kind: 'complete' | 'failed' | 'client_gone'
  readonly code: ProblemCode | null
  readonly attempt: Attempt | null
  /** As the node reported it; null where it did not. */
  readonly usage: TokenUsage | null
  /** Of the prompt, found in the node's cache; null where it does not say. */
  readonly cachedTokens: number | null
  /** The node's own `svc`, unchecked. */
  readonly svc: unknown
  /** Weight of the text that passed, unrounded. */
  readonly outputWeight: number
  readonly firstContentMs: number | null
  /** Choices of the node's finish chunk; null where none came. */
  readonly finish: readonly Readonly<Record<string, unknown>>[] | null
  readonly writer: StreamWriter
  /** The client wants its usage in a chunk of its own. */
  readonly usageApart: boolean
  /** How long the last event may be, bytes. */
  readonly bytesLeft: number
}

export interface SettledStream {
  /** Built before anything is charged; null: this stream has none, or it could not be built, and nothing is charged. */
  readonly terminal: string | null
  /** Why `terminal` could not be built. */
  readonly unbuilt: ProblemCode
  /** Resolves with the terminal chunk as it may be sent; null: it goes as it is, at once. */
  readonly promised: Promise<string> | null
}

export interface RelayPort {
  readonly config: Config
  readonly ticker: Ticker
  /** The gateway's own, whose pages explain each code. */
  readonly baseUrl: () => string
}

/** The request that a stream answers. */
export interface RelayOwner {
  /** The receipt is made here. */
  settle(end: RelayEnd): SettledStream
  /** False: memory does not suffice for these bytes, and the call has been ended. */
  keeps(bytes: number): boolean
  /** So much is still to be read by the client of an answer that has ended. Returns what gives it back; null: too little to count. */
  leaves(bytes: number): Grant | null
  /** A line of the node that is no JSON was passed over. */
  skipped(): void
}
