import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { ChatMetadata, ChatRouting, messagesMax, modelName } from './chat.ts'
import { embeddingInputsMax } from './embeddings.ts'

/** Tools of one request, pictures and calls of one message, stop sequences: more are no request of a person or an agent. */
const toolsMax = 1_024
const imagesMax = 64
const callsMax = 1_024
const stopsMax = 64

const open = { additionalProperties: true } as const
const orNull = <S extends TSchema>(schema: S) => Type.Optional(Type.Union([schema, Type.Null()]))
const number = orNull(Type.Number())
const flag = orNull(Type.Boolean())

const Options = Type.Object(
  {
    temperature: orNull(Type.Number({ minimum: 0, maximum: 2 })),
    top_p: orNull(Type.Number({ minimum: 0, maximum: 1 })),
    top_k: orNull(Type.Integer()),
    min_p: number,
    typical_p: number,
    tfs_z: number,
    seed: orNull(Type.Integer()),
    repeat_last_n: orNull(Type.Integer()),
    repeat_penalty: number,
    presence_penalty: number,
    frequency_penalty: number,
    mirostat: orNull(Type.Integer()),
    mirostat_tau: number,
    mirostat_eta: number,
    penalize_newline: flag,
    /** Not above 0: without a bound. */
    num_predict: orNull(Type.Integer({ minimum: -2, maximum: 1_048_576 })),
    stop: orNull(Type.Union([Type.String(), Type.Array(Type.String(), { maxItems: stopsMax })])),
  },
  open,
)
export type OllamaOptions = Static<typeof Options>

const shared = {
  model: modelName,
  options: orNull(Options),
  keep_alive: orNull(Type.Union([Type.String({ maxLength: 32 }), Type.Number()])),
  svc: Type.Optional(ChatRouting),
}
const generating = {
  ...shared,
  stream: orNull(Type.Boolean({ description: 'True where it is left out' })),
  format: orNull(Type.Union([Type.Literal(''), Type.Literal('json'), Type.Object({}, open)])),
  think: orNull(Type.Union([Type.Boolean(), Type.String({ maxLength: 16 })])),
  logprobs: flag,
  top_logprobs: orNull(Type.Integer({ minimum: 0, maximum: 20 })),
}
const images = orNull(Type.Array(Type.String({ minLength: 1 }), { maxItems: imagesMax }))

const ToolCall = Type.Object(
  {
    id: orNull(Type.String({ maxLength: 256 })),
    function: Type.Object({ name: Type.String({ maxLength: 256 }), arguments: orNull(Type.Object({}, open)) }, open),
  },
  open,
)
const Message = Type.Object(
  {
    role: Type.Union(['system', 'user', 'assistant', 'tool'].map((role) => Type.Literal(role))),
    content: orNull(Type.String()),
    images,
    tool_calls: orNull(Type.Array(ToolCall, { maxItems: callsMax })),
    tool_name: orNull(Type.String({ maxLength: 256 })),
    tool_call_id: orNull(Type.String({ maxLength: 256 })),
  },
  open,
)
export type OllamaMessage = Static<typeof Message>

/** `POST /api/chat`. Without messages nothing is asked: Ollama would load the model. */
export const OllamaChatRequest = Type.Object(
  {
    ...generating,
    messages: orNull(Type.Array(Message, { maxItems: messagesMax })),
    tools: orNull(Type.Array(Type.Object({}, open), { maxItems: toolsMax })),
  },
  open,
)
export type OllamaChatRequest = Static<typeof OllamaChatRequest>

/** `POST /api/generate`. */
export const OllamaGenerateRequest = Type.Object(
  { ...generating, prompt: orNull(Type.String()), system: orNull(Type.String()), images },
  open,
)
export type OllamaGenerateRequest = Static<typeof OllamaGenerateRequest>

/** `POST /api/embed`. */
export const OllamaEmbedRequest = Type.Object(
  {
    ...shared,
    input: Type.Union([
      Type.String({ minLength: 1 }),
      Type.Array(Type.String({ minLength: 1 }), { minItems: 1, maxItems: embeddingInputsMax }),
    ]),
    dimensions: orNull(Type.Integer({ minimum: 1, maximum: 65_536 })),
  },
  open,
)
export type OllamaEmbedRequest = Static<typeof OllamaEmbedRequest>

const vector = Type.Array(Type.Number())
export const OllamaEmbedResponse = Type.Object({
  model: Type.String(),
  embeddings: Type.Array(vector),
  total_duration: Type.Integer({ description: 'Nanoseconds, as the next one' }),
  load_duration: Type.Integer(),
  prompt_eval_count: Type.Integer(),
  svc: ChatMetadata,
})

/** `POST /api/embeddings`: of one text, as it was before `/api/embed`. */
export const OllamaEmbeddingsRequest = Type.Object({ ...shared, prompt: Type.String({ minLength: 1 }) }, open)

export const OllamaEmbeddingsResponse = Type.Object({ embedding: vector, svc: ChatMetadata })

/** `POST /api/show`. */
export const OllamaShowRequest = Type.Object({ model: modelName }, open)
