import type { TSchema } from '@sinclair/typebox'
import type { BlockHash, Prompt } from '../../machines/placement/blocks.ts'
import type { ServingRoute } from '../../machines/rules/routing.ts'
import type { ModelWishName } from '../../polling/tell-runtime.ts'
import type { Accepted, ChunkIdentity, SettledEnd } from '../../protocol/chat/chunk-reader.ts'
import type { SplicedReader } from '../../protocol/chat/chunk-rewriter.ts'
import type { PublicChoice } from '../../protocol/chat/completion.ts'
import type { PromptEstimate } from '../../protocol/chat/token-estimate.ts'
import type { TokenUsage } from '../../protocol/chat/token-usage.ts'
import type { UpstreamBody } from '../../protocol/chat/upstream-request.ts'
import type { Json } from '../../protocol/json/json-object.ts'
import type { Envelope } from '../../protocol/json/problem-response.ts'
import type { FormBody } from '../../protocol/media/form-body.ts'
import type { FormRules } from '../../protocol/media/form-filter.ts'
import type { ChatRouting } from '../../protocol/wire/inference/chat.ts'
import type { Modality } from '../../protocol/wire/nodes/kinds-of-work.ts'
import type { HostedKind } from '../../protocol/wire/work-kinds.ts'

/** What all operations share of a request; its other members are known to its own operation alone. */
export interface InferenceRequest {
  readonly model: string
  /** Those that follow where `model` cannot answer, in their order. */
  readonly models?: readonly string[] | null
  /** Unchecked. Only its tags are read, and no node gets it. */
  readonly metadata?: unknown
  readonly stream?: boolean | null
  readonly stream_options?: object | null
  readonly max_tokens?: number | null
  readonly max_completion_tokens?: number | null
  readonly svc?: ChatRouting
}

/** A request that comes as a form, and names its model. */
export interface SentForm extends InferenceRequest {
  readonly form: FormBody
}

/** A node's whole answer by allow-list, as far as all operations share it. */
export interface WholeAnswer {
  /** Empty where the operation has none. */
  readonly choices: readonly PublicChoice[]
  /** null: the node reported nothing usable. */
  readonly usage: TokenUsage | null
  /** Of the prompt, found in the node's cache; null: it does not say. */
  readonly cachedTokens: number | null
  /** What its server reports of its times; absent: nothing is read of it. */
  readonly timings?: Json | null
  /** Numbers of each vector, where the answer has vectors. */
  readonly vectorLength?: number
  /** An agent's receipt as the node wrote it. Unchecked. */
  readonly svc: unknown
  /** Weight of what was generated, unrounded; counted only when asked. */
  readonly outputWeight: () => number
}

/** Turns a node's chunks into the client's events, and remembers their other facts. */
export interface StreamWriter {
  /** The finish chunk's choices, once seen. */
  readonly finish: readonly Readonly<Record<string, unknown>>[] | null
  readonly usage: TokenUsage | null
  readonly usageFinal: boolean
  /** Of the prompt, found in the node's cache; null: it has not said. */
  readonly cachedTokens: number | null
  readonly svc: unknown
  readonly outputWeight: number
  readonly contentSeen: boolean
  /** Of the client's own request, what its answer has to repeat; absent: nothing. */
  readonly repeatedBytes?: number
  /** Of the answer, until its end. */
  readonly keptBytes: number
  /** Keeps a silent connection open; must not look like an answer. */
  readonly keepAlive: string
  /** Before the first chunk of each try. `own`: its node is of the client's own account; absent: that changes nothing. */
  from?(own: boolean): void
  accept(data: string): Accepted
  /** Takes events of a usual shape as bytes, see `ChunkRewriter`; returns where the first other one begins. */
  splice?(input: Buffer, at: number, to: number, reader: SplicedReader): number
  /** The choices of a finished answer to which a bound receipt commits; null if they were too long to keep. */
  choices?(): readonly PublicChoice[] | null
  /** Sent at the finish where the client wants its usage apart. */
  finishChunk(): string
  /** The last bytes of a stream that ended well. */
  last(end: SettledEnd, usageApart: boolean): string
  /** The last bytes of one that failed. `error`: as in OpenAI's envelope; `bytesLeft`: for the repeated text. */
  failure(error: object, bytesLeft?: number): string
}

/** A request without a prompt: its wish for the model, and the whole answer once that is done. */
export interface Idle {
  readonly wish: ModelWishName
  readonly answer: string
}

/** How a request is cut for many nodes, and their answers put together. */
export interface OperationParts<B extends InferenceRequest = InferenceRequest> {
  /** Units that can be done apart. */
  count(body: B): number
  /** As many as the server of this route takes at once. */
  unitsMax(route: ServingRoute): number
  /** The request for the units from `from` up to `to`. */
  cut(body: B, from: number, to: number): InferenceRequest
  /** In the order of their units. */
  join(answers: readonly WholeAnswer[]): WholeAnswer
}
export type PartedOperation = Operation & { readonly parts: OperationParts }

/** Writes one of several answers into a stream and keeps how it ended. */
export interface CallWriter extends StreamWriter {
  /** null: it has not ended well. */
  readonly end: SettledEnd | null
  /** As in OpenAI's envelope; null: it has not failed. */
  readonly error: object | null
  /** The last bytes of a stream in which this answer ended last. `end`: of all of them. */
  lastOfAll(end: SettledEnd, usageApart: boolean): string
  failureOfAll(error: object): string
}

/** A request that is several calls, each for one answer: every node can do that, and each call is placed and charged by itself. */
export interface CallPlan {
  readonly count: number
  bodyOf(at: number): InferenceRequest
  textOf(at: number): string
  /** In the order of the calls. */
  join(answers: readonly WholeAnswer[]): WholeAnswer
  writer(identity: ChunkIdentity, at: number): CallWriter
}

/**
 * One kind of inference: one file here, one line in the registry. Everything that admits, places, tries, relays, meters,
 * charges and records is shared and knows of an operation what stands here.
 */
export interface Operation<B extends InferenceRequest = InferenceRequest> {
  /** Of the metrics and the receipt. */
  readonly name: string
  /** Below each base URL. */
  readonly path: `/${string}`
  /** Those under which it stands, the canonical one first; absent: all of the gateway's. */
  readonly bases?: readonly string[]
  readonly summary: string
  readonly description: string
  /** For OpenAPI; `read` checks it. */
  readonly schema: TSchema
  /** Of a whole answer, for OpenAPI; absent: the client's SDK knows it, as it is another's format. */
  readonly response?: TSchema
  readonly modality: Modality
  /** Of the node, where a server that does this kind of work may lack it; absent: none does. */
  readonly ownPath?: string
  /** Agents have a route for it. */
  readonly byAgents: boolean
  /** Agents give no receipt of it: the gateway's stands. */
  readonly unvouched?: true
  readonly receiptKind: HostedKind
  /** A client's nonce may bind its receipt to request and answer (§31). */
  readonly bindable?: true
  readonly envelope: Envelope
  /** Absent: its streams are event streams, in which comments may stand. */
  readonly streamType?: string
  /** Its answer grows with `max_tokens`; else only the prompt is metered. */
  readonly generates: boolean
  /** Of the ids of its answers. */
  readonly idPrefix: string
  /** Only one's own nodes serve it. */
  readonly ownOnly?: true
  /** Its request is a form, of which this is read. */
  readonly form?: FormRules
  /** The node's answer is passed on as it comes, and not read. */
  readonly passes?: true
  /** Throws a `Problem`, in a fixed order, before anything is taken or asked. `sent`: where the request is a form. */
  read(text: string, sent?: SentForm): B
  /** The body as the text that everything behind the door works with; absent: as the client wrote it. */
  written?(body: B): string
  /** null: the request has a prompt. Absent: it always has one. */
  idle?(identity: ChunkIdentity, body: B): Idle | null
  /** Its first field that the table lacks (§35); null: every field is known. Absent: its nodes are its own account's, or get what it names alone. */
  unlisted?(body: B): string | null
  estimate(body: B): PromptEstimate
  /** Tokens that the prompt surely has (§27). */
  tokensLeast(body: B): number
  /** What placement compares of the prompt (§29); null where no cache would help. */
  prompt(customerId: string, modelId: string, body: B, hash: BlockHash): Prompt | null
  /** `ceiling`: `max_tokens` to inject; null: none. */
  upstream(text: string, body: B, ceiling: number | null, route: ServingRoute): UpstreamBody
  /** null: it is an error, or no answer to this request. */
  readWhole(text: string, body: B, route: ServingRoute): WholeAnswer | null
  writeWhole(identity: ChunkIdentity, answer: WholeAnswer, end: SettledEnd, body: B): string
  /** Absent: it is one call, however large. */
  readonly parts?: OperationParts<B>
  /** null: the request is one call. Absent: it always is. */
  calls?(text: string, body: B): CallPlan | null
  /** Absent: it has no stream, and `read` refuses to be asked for one. */
  writer?(identity: ChunkIdentity, body: B, bound: boolean): StreamWriter
}
