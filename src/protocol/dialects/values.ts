import { type StringOptions, type TArray, type TSchema, type TString, Type } from '@sinclair/typebox'
import { wordsKey } from '../wire/shapes.ts'

/** What the values of fields are made of. `description`: what the type does not say. */
const described = (description?: string) => (description === undefined ? {} : { description })

export const flag = (description?: string) => Type.Boolean(described(description))
export const text = (description?: string) => Type.String(described(description))
export const shortText = (maxLength: number, description?: string) =>
  Type.String({ maxLength, ...described(description) })
export const number = (
  bounds: { minimum?: number; exclusiveMinimum?: number; maximum?: number } = {},
  description?: string,
) => Type.Number({ ...bounds, ...described(description) })
export const whole = (bounds: { minimum?: number; maximum?: number } = {}, description?: string) =>
  Type.Integer({ ...bounds, ...described(description) })
export const anything = (description?: string) => Type.Unknown(described(description))
/** With whichever members. */
export const object = (description?: string) =>
  Type.Object({}, { additionalProperties: true, ...described(description) })
export const list = <S extends TSchema>(items: S, description?: string): TArray<S> =>
  Type.Array(items, described(description))
export const texts = (description?: string): TArray<TString> => list(Type.String(), description)
export const tokenIds = () => list(Type.Integer({ minimum: 0 }), 'token ids')

const tokensMax = 1_048_576
/** Tokens of an answer. */
export const tokens = Type.Integer({ minimum: 1, maximum: tokensMax })
/** Not above 0: without a bound. */
export const tokensOfOllama = Type.Integer({ minimum: -2, maximum: tokensMax })
/** Likeliest tokens that may be asked for beside each. */
export const topProbabilitiesMax = 20
export const topProbabilities = Type.Integer({ minimum: 0, maximum: topProbabilitiesMax })

/** As a client of inference names a model. */
export const modelName = Type.String({
  minLength: 1,
  maxLength: 256,
  [wordsKey]: 'a model id from the model list',
} as StringOptions)
/** Models that one request may name, to be tried in their order. */
export const modelsMax = 8
export const models = (description?: string) =>
  Type.Array(modelName, { maxItems: modelsMax, ...described(description) })
