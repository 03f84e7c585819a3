import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { checkOf, checksOf } from '../../dialects/fields.ts'
import { modelName } from '../../dialects/values.ts'
import { blocksOrText } from '../../dialects/vendor-fields.ts'
import { ChatRouting, messagesMax } from './chat.ts'

/** Of one request: more are no request of a person or an agent. */
const toolsMax = 1_024

const open = { additionalProperties: true } as const
const orNull = <S extends TSchema>(schema: S) => Type.Optional(Type.Union([schema, Type.Null()]))

const Tool = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 128 }),
    type: orNull(Type.String({ maxLength: 64 })),
    description: Type.Optional(Type.String()),
    input_schema: Type.Optional(Type.Object({}, open)),
    strict: orNull(Type.Boolean({ description: 'Whether inputs must fit the schema exactly' })),
  },
  open,
)

/** `POST /messages`: Anthropic's Messages, translated to a chat. */
export const MessagesRequest = Type.Object(
  {
    model: modelName,
    max_tokens: checkOf('messages', 'max_tokens'),
    messages: Type.Array(
      Type.Object(
        {
          role: Type.Union([Type.Literal('user'), Type.Literal('assistant'), Type.Literal('system')]),
          content: blocksOrText,
        },
        open,
      ),
      { minItems: 1, maxItems: messagesMax },
    ),
    system: Type.Optional(checkOf('messages', 'system')),
    tools: Type.Optional(Type.Array(Tool, { maxItems: toolsMax })),
    tool_choice: Type.Optional(
      Type.Object(
        {
          type: Type.Union(['auto', 'any', 'tool', 'none'].map((type) => Type.Literal(type))),
          name: Type.Optional(Type.String({ maxLength: 128 })),
          disable_parallel_tool_use: orNull(Type.Boolean()),
        },
        open,
      ),
    ),
    ...checksOf('messages', 'stop_sequences'),
    stream: orNull(Type.Boolean()),
    ...checksOf('messages', 'temperature', 'top_p', 'top_k', 'thinking', 'output_config', 'output_format'),
    ...checksOf('messages', 'models', 'fallbacks'),
    svc: Type.Optional(ChatRouting),
  },
  open,
)
export type MessagesRequest = Static<typeof MessagesRequest>
