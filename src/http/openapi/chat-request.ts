import { Type } from '@sinclair/typebox'
import { strategyNames } from '../../machines/mixture/strategies/registry.ts'
import { ChatRequest, ChatRouting, chatRoles, developerRole, messagesMax } from '../../protocol/wire/inference/chat.ts'
import { mixtureConfig } from '../../protocol/wire/inference/mixture.ts'
import { literals } from '../../protocol/wire/shapes.ts'

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

/** The body of a chat with its messages and its mixture spelled out: the request path's schema leaves both to checks of their own. */
export const DescribedChatRequest = Type.Object(
  {
    ...ChatRequest.properties,
    messages: Type.Array(Type.Union(messageForms), { minItems: 1, maxItems: messagesMax }),
    svc: Type.Optional(
      Type.Object(
        { ...ChatRouting.properties, mixture: Type.Optional(mixtureConfig(strategyNames)) },
        { additionalProperties: true },
      ),
    ),
  },
  { additionalProperties: true },
)
