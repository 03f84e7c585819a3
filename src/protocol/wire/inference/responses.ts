import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { ChatRouting, messagesMax, modelName } from './chat.ts'

/** Likeliest tokens that may be asked for beside each. */
export const topProbabilitiesMax = 20
/** Of one request, those in namespaces counted one by one. */
export const toolsMax = 1_024
const open = { additionalProperties: true } as const
const orNull = <S extends TSchema>(schema: S) => Type.Optional(Type.Union([schema, Type.Null()]))
/** What an item of its type must have is said where it is translated. */
const Item = Type.Object({ type: Type.Optional(Type.String({ maxLength: 64 })) }, open)

/** `POST /responses`: OpenAI's Responses without a store, translated to a chat. */
export const ResponsesRequest = Type.Object(
  {
    model: modelName,
    input: Type.Union([Type.String(), Type.Array(Item, { minItems: 1, maxItems: messagesMax })]),
    instructions: orNull(Type.String()),
    max_output_tokens: orNull(Type.Integer({ minimum: 1, maximum: 1_048_576 })),
    metadata: orNull(Type.Object({}, open)),
    parallel_tool_calls: orNull(Type.Boolean()),
    reasoning: orNull(Type.Object({ effort: orNull(Type.String({ maxLength: 16 })) }, open)),
    stream: orNull(Type.Boolean()),
    temperature: orNull(Type.Number({ minimum: 0, maximum: 2 })),
    text: orNull(
      Type.Object(
        {
          format: orNull(Type.Object({ type: Type.String() }, open)),
          verbosity: orNull(Type.String({ maxLength: 16 })),
        },
        open,
      ),
    ),
    tool_choice: Type.Optional(
      Type.Union([Type.String({ maxLength: 16 }), Type.Object({ type: Type.String() }, open), Type.Null()]),
    ),
    tools: orNull(Type.Array(Type.Object({ type: Type.String({ maxLength: 64 }) }, open), { maxItems: toolsMax })),
    top_p: orNull(Type.Number({ exclusiveMinimum: 0, maximum: 1 })),
    top_logprobs: orNull(Type.Integer({ minimum: 0, maximum: topProbabilitiesMax })),
    include: Type.Optional(
      Type.Unknown({ description: 'Any of `message.output_text.logprobs`, `reasoning.encrypted_content`' }),
    ),
    prompt_cache_key: Type.Optional(Type.Unknown({ description: 'A hint for placement; no node gets it' })),
    svc: Type.Optional(ChatRouting),
  },
  open,
)
export type ResponsesRequest = Static<typeof ResponsesRequest>
