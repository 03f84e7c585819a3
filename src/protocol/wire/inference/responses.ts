import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { checksOf } from '../../dialects/fields.ts'
import { modelName } from '../../dialects/values.ts'
import { ChatRouting, messagesMax } from './chat.ts'

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
    ...checksOf('responses', 'instructions', 'max_output_tokens', 'metadata', 'parallel_tool_calls', 'reasoning'),
    stream: orNull(Type.Boolean()),
    ...checksOf('responses', 'temperature', 'text'),
    tool_choice: Type.Optional(
      Type.Union([Type.String({ maxLength: 16 }), Type.Object({ type: Type.String() }, open), Type.Null()]),
    ),
    tools: orNull(Type.Array(Type.Object({ type: Type.String({ maxLength: 64 }) }, open), { maxItems: toolsMax })),
    ...checksOf('responses', 'top_p', 'top_logprobs', 'models'),
    svc: Type.Optional(ChatRouting),
  },
  open,
)
export type ResponsesRequest = Static<typeof ResponsesRequest>
