import { Type } from '@sinclair/typebox'
import { strategyNames } from '../../machines/mixture/strategies/registry.ts'
import { ChatRequest, ChatRouting } from '../../protocol/wire/inference/chat.ts'
import { mixtureConfig } from '../../protocol/wire/inference/mixture.ts'

/** The body of a chat with its mixture spelled out: the schema of the request path leaves that to the mixture's own checks. */
export const DescribedChatRequest = Type.Object(
  {
    ...ChatRequest.properties,
    svc: Type.Optional(
      Type.Object(
        { ...ChatRouting.properties, mixture: Type.Optional(mixtureConfig(strategyNames)) },
        { additionalProperties: true },
      ),
    ),
  },
  { additionalProperties: true },
)
