import { type Static, Type } from '@sinclair/typebox'
import { ChatMetadata, ChatRouting, modelName, Usage } from './chat.ts'

const promptTokensMax = 100_000
/** `n`, and `best_of`: answers to each prompt. */
const answersMax = 16
/** Prompts, each as often as it is answered, of one request. */
export const completionCallsMax = 128
const token = Type.Integer({ minimum: 0 })
const answers = Type.Union([Type.Integer({ minimum: 1, maximum: answersMax }), Type.Null()])
const tokens = Type.Union([Type.Integer({ minimum: 1, maximum: 1_048_576 }), Type.Null()])

/** `POST /completions`: a prompt or a list of them, as text or as tokens. Fields that are not listed pass through to the node, unknown ones to own nodes alone. */
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
    suffix: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    max_tokens: Type.Optional(tokens),
    max_completion_tokens: Type.Optional(tokens),
    temperature: Type.Optional(Type.Union([Type.Number({ minimum: 0, maximum: 2 }), Type.Null()])),
    stream: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
    stream_options: Type.Optional(Type.Union([Type.Object({}, { additionalProperties: true }), Type.Null()])),
    n: Type.Optional(answers),
    best_of: Type.Optional(answers),
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
