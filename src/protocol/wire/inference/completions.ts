import { type Static, Type } from '@sinclair/typebox'
import { checksOf } from '../../dialects/fields.ts'
import { modelName } from '../../dialects/values.ts'
import { ChatMetadata, ChatRouting, Usage } from './chat.ts'

const promptTokensMax = 100_000
/** Prompts, each as often as it is answered, of one request. */
export const completionCallsMax = 128
const token = Type.Integer({ minimum: 0 })

/** `POST /completions`: a prompt or a list of them, as text or as tokens. Other fields of the table pass through to the node, unknown ones to own nodes alone. */
export const CompletionRequest = Type.Object(
  {
    model: modelName,
    prompt: Type.Union([
      Type.String(),
      // A list is of one kind: texts, the tokens of one text, or lists of tokens.
      Type.Array(Type.Union([Type.String(), token, Type.Array(token, { minItems: 1, maxItems: promptTokensMax })]), {
        minItems: 1,
        maxItems: promptTokensMax,
      }),
    ]),
    ...checksOf('completions', 'suffix', 'max_tokens', 'max_completion_tokens', 'temperature'),
    stream: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
    ...checksOf('completions', 'stream_options', 'n', 'best_of', 'models'),
    svc: Type.Optional(ChatRouting),
  },
  { additionalProperties: true },
)
export type CompletionRequest = Static<typeof CompletionRequest>

export const TextCompletion = Type.Object({
  id: Type.String(),
  object: Type.Literal('text_completion'),
  created: Type.Integer(),
  model: Type.String(),
  choices: Type.Array(
    Type.Object({
      index: Type.Integer(),
      text: Type.String(),
      finish_reason: Type.Union([Type.String(), Type.Null()]),
      logprobs: Type.Unknown(),
    }),
  ),
  usage: Usage,
  svc: ChatMetadata,
})
