import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { checkOf, checksOf } from '../../dialects/fields.ts'
import { modelName } from '../../dialects/values.ts'
import { ChatMetadata, ChatRouting, messagesMax } from './chat.ts'
import { embeddingInputsMax } from './embeddings.ts'

/** Tools of one request, pictures and calls of one message: more are no request of a person or an agent. */
const toolsMax = 1_024
const imagesMax = 64
const callsMax = 1_024

const open = { additionalProperties: true } as const
const orNull = <S extends TSchema>(schema: S) => Type.Optional(Type.Union([schema, Type.Null()]))

/** Its `options`. */
export const OllamaOptions = Type.Object(
  checksOf(
    'ollama',
    'temperature',
    'top_p',
    'top_k',
    'min_p',
    'typical_p',
    'tfs_z',
    'seed',
    'repeat_last_n',
    'repeat_penalty',
    'presence_penalty',
    'frequency_penalty',
    'mirostat',
    'mirostat_tau',
    'mirostat_eta',
    'penalize_newline',
    'num_predict',
    'stop',
  ),
  open,
)
export type OllamaOptions = Static<typeof OllamaOptions>

const shared = {
  model: modelName,
  options: orNull(OllamaOptions),
  ...checksOf('ollama', 'keep_alive', 'models'),
  svc: Type.Optional(ChatRouting),
}
const generating = {
  ...shared,
  stream: orNull(Type.Boolean({ description: 'True where it is left out' })),
  ...checksOf('ollama', 'format', 'think', 'logprobs', 'top_logprobs'),
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
  { ...generating, prompt: orNull(Type.String()), ...checksOf('ollama', 'system'), images },
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
    dimensions: orNull(checkOf('embeddings', 'dimensions')),
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
