import { Type } from '@sinclair/typebox'
import { strategyNames } from '../../machines/mixture/strategies/registry.ts'
import { ChatRequest, ChatRouting, chatRoles, developerRole, messagesMax } from '../../protocol/wire/inference/chat.ts'
import { mixtureConfig } from '../../protocol/wire/inference/mixture.ts'
import { literals, nullable } from '../../protocol/wire/shapes.ts'
import { describedRequest } from './described-request.ts'

const open = { additionalProperties: true } as const
const content = Type.Unknown({ description: 'Text, an array of parts (text, image_url, …) or null' })

/** The specification's message first, then the two that go beyond it (§5). `fitMessages` reads all three. */
const messageForms = [
  Type.Object({ role: literals(chatRoles), content }, open),
  Type.Object(
    { role: Type.Literal(developerRole), content },
    { ...open, description: 'Extension: nodes are sent this message with the role `system`' },
  ),
  Type.Object(
    {
      role: Type.Literal('assistant'),
      content: Type.Optional(content),
      tool_calls: Type.Array(Type.Object({}, open), { minItems: 1 }),
    },
    { ...open, description: 'Extension: beside calls of tools `content` may be absent; nodes are sent null' },
  ),
]

const passed = 'OpenAI: the gateway passes it on, and the node checks it.'
const tool = Type.Object(
  { type: Type.String() },
  { ...open, description: 'A function, by its `name` and `parameters`' },
)

/** A chat with its messages, its tools and its mixture spelled out: the request path's schema leaves them to checks of their own. */
const SpelledChat = Type.Object(
  {
    ...ChatRequest.properties,
    messages: Type.Array(Type.Union(messageForms), { minItems: 1, maxItems: messagesMax }),
    tools: Type.Optional({ ...nullable(Type.Array(tool)), description: passed }),
    tool_choice: Type.Optional({
      ...nullable(Type.Union([Type.String(), Type.Object({}, open)])),
      description: passed,
    }),
    svc: Type.Optional(
      Type.Object(
        { ...ChatRouting.properties, mixture: Type.Optional(mixtureConfig(strategyNames)) },
        { additionalProperties: true },
      ),
    ),
  },
  { additionalProperties: true },
)

/** The body of a chat. */
export const DescribedChatRequest = describedRequest('chat', SpelledChat)
