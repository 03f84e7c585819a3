import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { formed, modelId } from '../shapes.ts'

/** No vocabulary has more than some hundred thousand. */
export const tokenIdMax = 2_147_483_647
export const isTokenId = (value: unknown): value is number =>
  Number.isInteger(value) && Number(value) >= 0 && Number(value) <= tokenIdMax
/** Tokens of one request that become a text again: as many as an array of JSON may have here. */
export const detokenizedMax = 100_000
export const TokenId = Type.Integer({ minimum: 0, maximum: tokenIdMax })

/** Where an agent asks the tokenizer of one of its model servers, for the gateway alone (§22). */
export const nodeTokensPath = `/${brand}/v1/tokens`

/** One of `chat`, `text` and `tokens`. Members of a later gateway are passed over. */
export const AgentTokensRequest = Type.Object({
  runtime_id: formed('^rt_[0-9A-Z]{26}$', 'the id of a runtime'),
  model: modelId,
  chat: Type.Optional(Type.Object({}, { additionalProperties: true })),
  text: Type.Optional(Type.String()),
  /** Of a text. */
  special: Type.Optional(Type.Boolean()),
  strings: Type.Optional(Type.Boolean()),
  tokens: Type.Optional(Type.Array(TokenId, { maxItems: detokenizedMax })),
})
export type AgentTokensRequest = Static<typeof AgentTokensRequest>
