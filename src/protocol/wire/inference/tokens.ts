import { type Static, Type } from '@sinclair/typebox'
import { modelName } from '../../dialects/values.ts'
import { detokenizedMax, TokenId } from '../nodes/tokens.ts'
import { nullable, nullableInteger } from '../shapes.ts'
import { ChatRequest, ChatRouting } from './chat.ts'
import { MessagesRequest } from './messages.ts'
import { ResponsesRequest } from './responses.ts'

const open = { additionalProperties: true } as const
const { messages, svc } = ChatRequest.properties

/** How a count came to be, and where. */
export const CountMetadata = Type.Object({
  request_id: Type.String(),
  usage_estimated: Type.Boolean({
    description: 'True if no node has counted, so that the number is the estimate of the gateway',
  }),
  runtime_id: Type.Optional(Type.String({ description: 'Of the model server that has counted' })),
  runtime_kind: Type.Optional(Type.String()),
})
export type CountMetadata = Static<typeof CountMetadata>

/** `POST /messages/count_tokens`: Messages without what only an answer needs. */
export const CountTokensRequest = Type.Composite(
  [
    Type.Omit(MessagesRequest, ['max_tokens']),
    Type.Object({ max_tokens: Type.Optional(Type.Union([Type.Integer(), Type.Null()])) }),
  ],
  open,
)
export const TokensCount = Type.Object({ input_tokens: Type.Integer(), svc: CountMetadata })
export type TokensCount = Static<typeof TokensCount>

/** `POST /responses/input_tokens`: Responses, of which OpenAI requires nothing. */
export const InputTokensRequest = Type.Composite(
  [
    Type.Omit(ResponsesRequest, ['model', 'input']),
    Type.Object({
      model: Type.Optional(nullable(modelName)),
      input: Type.Optional(nullable(ResponsesRequest.properties.input)),
    }),
  ],
  open,
)
export const InputTokensCount = Type.Object({
  object: Type.Literal('response.input_tokens'),
  input_tokens: Type.Integer(),
  svc: CountMetadata,
})
export type InputTokensCount = Static<typeof InputTokensCount>

/** `POST /tokenize`, as vLLM has it: a text or a chat. */
export const TokenizeRequest = Type.Object(
  {
    model: modelName,
    prompt: Type.Optional(Type.String({ description: 'A text; either this or `messages`' })),
    messages: Type.Optional({ ...messages, description: 'A chat, of which the template of the model makes a text' }),
    tools: Type.Optional(Type.Unknown()),
    add_special_tokens: Type.Optional(
      nullable(
        Type.Boolean({ description: 'Of a text, default true: with the tokens that the model expects around it' }),
      ),
    ),
    return_token_strs: Type.Optional(nullable(Type.Boolean({ description: 'Also say each token as a text' }))),
    add_generation_prompt: Type.Optional(
      nullable(Type.Boolean({ description: 'Of a chat, default true: up to where the answer begins' })),
    ),
    continue_final_message: Type.Optional(nullable(Type.Boolean({ description: 'Leave the last message open' }))),
    chat_template_kwargs: Type.Optional(nullable(Type.Object({}, open))),
    svc,
  },
  open,
)
export type TokenizeRequest = Static<typeof TokenizeRequest>

const NodeMetadata = Type.Object({
  request_id: Type.String(),
  runtime_id: Type.String(),
  runtime_kind: Type.String(),
})
export const TokenizeResponse = Type.Object({
  count: Type.Integer(),
  max_model_len: { ...nullableInteger, description: 'The context of the model; null: unknown' },
  tokens: Type.Array(TokenId),
  token_strs: nullable(Type.Array(Type.String(), { description: 'null: not asked for, or not known to the node' })),
  svc: NodeMetadata,
})
export type TokenizeResponse = Static<typeof TokenizeResponse>

/** `POST /detokenize`, as vLLM has it. */
export const DetokenizeRequest = Type.Object(
  { model: modelName, tokens: Type.Array(TokenId, { maxItems: detokenizedMax }), svc: Type.Optional(ChatRouting) },
  open,
)
export type DetokenizeRequest = Static<typeof DetokenizeRequest>
export const DetokenizeResponse = Type.Object({ prompt: Type.String(), svc: NodeMetadata })
export type DetokenizeResponse = Static<typeof DetokenizeResponse>
