import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { ChatRouting, messagesMax, modelName } from './chat.ts'

/** Blocks of one message, tools of one request, stop sequences: more are no request of a person or an agent. */
const blocksMax = 10_000
const toolsMax = 1_024
const stopsMax = 64

const open = { additionalProperties: true } as const
const orNull = <S extends TSchema>(schema: S) => Type.Optional(Type.Union([schema, Type.Null()]))
/** What a block of this type must have is said where it is translated. */
const Block = Type.Object({ type: Type.String({ maxLength: 64 }) }, open)
const Content = Type.Union([Type.String(), Type.Array(Block, { maxItems: blocksMax })])

const Tool = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 128 }),
    type: orNull(Type.String({ maxLength: 64 })),
    description: Type.Optional(Type.String()),
    input_schema: Type.Optional(Type.Object({}, open)),
  },
  open,
)

/** `POST /messages`: Anthropic's Messages, translated to a chat. */
export const MessagesRequest = Type.Object(
  {
    model: modelName,
    max_tokens: Type.Integer({ minimum: 1, maximum: 1_048_576 }),
    messages: Type.Array(
      Type.Object(
        {
          role: Type.Union([Type.Literal('user'), Type.Literal('assistant'), Type.Literal('system')]),
          content: Content,
        },
        open,
      ),
      { minItems: 1, maxItems: messagesMax },
    ),
    system: Type.Optional(Content),
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
    stop_sequences: orNull(Type.Array(Type.String(), { maxItems: stopsMax })),
    stream: orNull(Type.Boolean()),
    temperature: orNull(Type.Number({ minimum: 0, maximum: 2 })),
    top_p: orNull(Type.Number({ exclusiveMinimum: 0, maximum: 1 })),
    top_k: orNull(Type.Integer({ minimum: 0 })),
    thinking: orNull(Type.Object({ type: Type.String({ maxLength: 64 }) }, open)),
    output_config: orNull(
      Type.Object(
        {
          effort: orNull(Type.String({ maxLength: 16 })),
          format: orNull(Type.Object({ type: Type.Literal('json_schema'), schema: Type.Object({}, open) }, open)),
        },
        open,
      ),
    ),
    svc: Type.Optional(ChatRouting),
  },
  open,
)
export type MessagesRequest = Static<typeof MessagesRequest>
