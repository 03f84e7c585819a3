/**
 * Token estimate without a tokenizer (decisions §7): weights per code point, conservative for English and for CJK.
 * Used for context checks, quotas, and where a node reports no usage.
 */

const asciiOnly = /^[\u0000-\u007f]*$/
/** Tokens per ASCII character: English has about four characters to a token. */
export const asciiWeight = 0.3
/** Below this many UTF-16 units the plain loop is faster than the test (measured). */
const asciiTestUnitsMin = 64

const isLowSurrogate = (unit: number) => unit >= 0xdc00 && unit <= 0xdfff

/** Unrounded weight of a text. */
export function textWeight(text: string): number {
  if (text.length >= asciiTestUnitsMin && asciiOnly.test(text)) return (3 * text.length) / 10
  // In tenths: sums of 0.3 drift above the whole number they stand for.
  let tenths = 0
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit < 0x80) tenths += 3
    else if (unit < 0x2e80) tenths += 6
    else if (unit >= 0xd800 && unit <= 0xdbff && isLowSurrogate(text.charCodeAt(i + 1))) {
      tenths += 20
      i++
    } else tenths += 12
  }
  return tenths / 10
}

/** Far more than the rounding errors of any sum of weights, far less than the least weight. */
const roundingError = 1e-6

/** Whole tokens of a sum of weights. */
export const wholeTokens = (weight: number) => Math.ceil(weight - roundingError)

/** No text weighs more per UTF-16 unit: a cheap ceiling that spares the exact count where it cannot matter. */
export const textWeightPerUnitMax = 1.2

const perMessage = 4
const perRequest = 3
const imagePart = 1_024

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

function contentWeight(content: unknown): number {
  if (typeof content === 'string') return textWeight(content)
  if (content === null || content === undefined) return 0
  if (!Array.isArray(content)) return 0.3 * JSON.stringify(content).length
  let weight = 0
  for (const part of content) {
    if (!isObject(part)) weight += 0.3 * (JSON.stringify(part) ?? '').length
    else if (part.type === 'text' && typeof part.text === 'string') weight += textWeight(part.text)
    else if (part.type === 'image_url' || part.type === 'input_image') weight += imagePart
    else weight += 0.3 * JSON.stringify(part).length
  }
  return weight
}

/** Whole tokens of a prompt: its messages, tool definitions and response format. */
export function promptTokens(body: {
  readonly messages: readonly { readonly content?: unknown; readonly tool_calls?: unknown }[]
  readonly tools?: unknown
  readonly response_format?: unknown
}): number {
  let weight = perRequest
  for (const message of body.messages) {
    weight += perMessage + contentWeight(message.content)
    if (message.tool_calls !== undefined) weight += 0.3 * JSON.stringify(message.tool_calls).length
  }
  for (const extra of [body.tools, body.response_format]) {
    if (extra !== undefined && extra !== null) weight += 0.3 * JSON.stringify(extra).length
  }
  return wholeTokens(weight)
}
