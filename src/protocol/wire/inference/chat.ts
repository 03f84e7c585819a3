import { type Static, Type } from '@sinclair/typebox'
import { checksOf } from '../../dialects/fields.ts'
import { modelName } from '../../dialects/values.ts'
import { hash, Instant, literals, slug } from '../shapes.ts'
import { MixtureTrace } from './mixture.ts'

/** Of the specification. */
export const chatRoles = ['system', 'user', 'assistant', 'tool'] as const
/** By which newer clients of OpenAI say `system`, and are understood (§5). */
export const developerRole = 'developer'

/**
 * One message; further fields (`tool_calls`, `name`, …) pass through. Whether `content` may be absent depends on other
 * members: `fitMessages` decides.
 */
const ChatMessage = Type.Object(
  { role: literals([...chatRoles, developerRole]), content: Type.Optional(Type.Unknown()) },
  { additionalProperties: true },
)

/** Router metadata; consumed by the gateway, no node ever sees it. Unknown keys are ignored. */
export const ChatRouting = Type.Object(
  {
    model_profile_id: Type.Optional(slug()),
    job_id: Type.Optional(slug()),
    max_price_wei: Type.Optional(Type.String({ description: 'Accepted, but without effect on your own nodes' })),
    dispatch_mode: Type.Optional(Type.Unknown({ description: 'Only `pooled_sync`' })),
    node_id: Type.Optional(slug()),
    mixture: Type.Optional(Type.Unknown()),
  },
  { additionalProperties: true },
)

export type ChatRouting = Static<typeof ChatRouting>

/** More are no conversation (§27). */
export const messagesMax = 20_000

/** `POST /v1/api/chat/completions`, as far as the gateway checks it. Other fields of the table pass through to the node, unknown ones to own nodes alone. */
export const ChatRequest = Type.Object(
  {
    model: modelName,
    messages: Type.Array(ChatMessage, {
      minItems: 1,
      maxItems: messagesMax,
      examples: [[{ role: 'user', content: 'Hi' }]],
    }),
    ...checksOf('chat', 'max_tokens', 'max_completion_tokens', 'temperature', 'top_p'),
    stream: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
    ...checksOf('chat', 'stream_options', 'n', 'models'),
    svc: Type.Optional(ChatRouting),
  },
  { additionalProperties: true },
)
export type ChatRequest = Static<typeof ChatRequest>

export const Usage = Type.Object(
  { prompt_tokens: Type.Integer(), completion_tokens: Type.Integer(), total_tokens: Type.Integer() },
  { additionalProperties: true },
)

/** The log's promise that it holds the receipt within 60 s (§36). */
const ReceiptPromise = Type.Object({
  hash,
  log: Type.String({ description: 'The name of the public log' }),
  promised_at: Instant,
  signature_ed25519: Type.String({
    description: 'By the log’s key, over the promise, or over the root of the batch that it is in',
  }),
  batch: Type.Optional(
    Type.Object({
      index: Type.Integer({ minimum: 0, maximum: 255 }),
      size: Type.Integer({ minimum: 2, maximum: 256 }),
      proof: Type.Array(Type.String(), { maxItems: 8, description: 'From the leaf up, base64' }),
    }),
  ),
})

/** `svc` of an answer and of a stream's terminal chunk. */
export const ChatMetadata = Type.Object({
  runtime_id: Type.String(),
  runtime_kind: Type.String(),
  latency_ms: Type.Integer({ description: 'Time from the start of the request to its last byte' }),
  ttft_ms: Type.Integer({
    description: 'Time to the first content, or without a stream to the first byte of the node',
  }),
  receipt_hash: hash,
  request_id: Type.String(),
  usage_estimated: Type.Optional(
    Type.Boolean({ description: 'True if the node reported no usage and the gateway estimated it' }),
  ),
  external: Type.Optional(
    Type.Boolean({ description: 'True if a hosted provider answered: the prompt has left the own nodes' }),
  ),
  receipt_salt: Type.Optional(
    Type.String({
      description: 'Of the commitments in the receipt, where the request had a nonce. No other request is given it',
    }),
  ),
  receipt_hashes: Type.Optional(
    Type.Array(hash, { description: 'Where several calls gave the answer: their receipts, in the order of the calls' }),
  ),
  receipt: Type.Optional(
    Type.Unsafe<Static<typeof ReceiptPromise>>({
      ...ReceiptPromise,
      description:
        'Of billed work, and where the request had a nonce: the promise that the public log holds the receipt within 60 s',
    }),
  ),
  receipts: Type.Optional(
    Type.Array(ReceiptPromise, {
      description: 'Likewise, where several calls gave the answer, in the order of the calls',
    }),
  ),
  mixture: Type.Optional(MixtureTrace),
})
export type ChatMetadata = Static<typeof ChatMetadata>

const finishReason = Type.Union(
  ['stop', 'length', 'tool_calls', 'content_filter', 'error'].map((reason) => Type.Literal(reason)),
)

export const ChatCompletion = Type.Object({
  id: Type.String(),
  object: Type.Literal('chat.completion'),
  created: Type.Integer(),
  model: Type.String(),
  choices: Type.Array(
    Type.Object({
      index: Type.Integer(),
      message: Type.Object({ role: Type.String(), content: Type.Unknown() }, { additionalProperties: true }),
      finish_reason: finishReason,
      logprobs: Type.Optional(Type.Unknown()),
    }),
  ),
  usage: Usage,
  svc: ChatMetadata,
})

export const ChatChunk = Type.Object({
  id: Type.String(),
  object: Type.Literal('chat.completion.chunk'),
  created: Type.Integer(),
  model: Type.String(),
  choices: Type.Array(
    Type.Object({
      index: Type.Integer(),
      delta: Type.Object({}, { additionalProperties: true }),
      finish_reason: Type.Union([finishReason, Type.Null()]),
      logprobs: Type.Optional(Type.Unknown()),
    }),
  ),
  usage: Type.Optional(Usage),
  svc: Type.Optional(ChatMetadata),
})
