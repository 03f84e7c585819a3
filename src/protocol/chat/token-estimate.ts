/**
 * Token estimate without a tokenizer (§7): weights per code point, conservative for English and for CJK.
 * Used for quotas and quotes, where a node reports no usage, and to try routes of a small context last.
 */

/** Tokens per ASCII character: English has about four characters to a token. */
export const asciiWeight = 0.3
/** Below this many UTF-16 units the plain loop is faster than the test (measured). */
const asciiTestUnitsMin = 64
/** Any other character takes more bytes in UTF-8 than units in UTF-16. A fiftieth of a regular expression's time (measured). */
const isAscii = (text: string) => Buffer.byteLength(text) === text.length

const isLowSurrogate = (unit: number) => unit >= 0xdc00 && unit <= 0xdfff

/** Unrounded weight of a text. */
export function textWeight(text: string): number {
  if (text.length >= asciiTestUnitsMin && isAscii(text)) return (3 * text.length) / 10
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
/** A picture, a sound or a film, whatever its size: for quotas and quotes, where something must stand for it. */
const mediaPartTokens = 1_024

type Json = Readonly<Record<string, unknown>>
const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null

/** What names of parts and of their members hold media: an address or bytes, no text. */
const media: ReadonlySet<string> = new Set(
  ['image', 'audio', 'video'].flatMap((kind) => [kind, `${kind}_url`, `input_${kind}`]),
)
/** Members of a text part that count by themselves, or are the same for all. */
const partOwn: ReadonlySet<string> = new Set(['type', 'text'])
/** The same for a message. */
const messageOwn: ReadonlySet<string> = new Set(['role', 'content'])
/** Names that every model's template knows; any other name of a member may itself be a text for the model. */
const messageNames: ReadonlySet<string> = new Set(
  'name tool_calls tool_call_id function_call refusal reasoning reasoning_content thinking'.split(' '),
)
/** Members of a request that a node gets and no prompt holds, or that no node gets. */
const requestOwn: ReadonlySet<string> = new Set([
  ...'model messages stop logit_bias stream_options tool_choice reasoning_effort verbosity modalities'.split(' '),
  ...'svc user safety_identifier metadata store prompt_cache_key service_tier'.split(' '),
])

/** Numbers, truth values and null carry no text. */
function valueWeight(value: unknown): number {
  if (typeof value === 'string') return textWeight(value)
  return isObject(value) ? textWeight(JSON.stringify(value)) : 0
}

/**
 * The weight of a model's output in a message or a delta: its texts, at any depth. Zero means that no output passed.
 */
export function outputWeight(message: Json): number {
  let weight = 0
  for (const name in message) if (name !== 'role') weight += textsWeight(message[name])
  return weight
}

function textsWeight(value: unknown): number {
  if (typeof value === 'string') return textWeight(value)
  let weight = 0
  // By index: the names of a long list's items would be made into texts, one by one.
  if (Array.isArray(value)) for (const item of value) weight += textsWeight(item)
  else if (isObject(value)) for (const name in value) weight += textsWeight(value[name])
  return weight
}

function membersWeight(members: Json, own: ReadonlySet<string>, names?: ReadonlySet<string>): number {
  let weight = 0
  for (const name in members) {
    if (own.has(name)) continue
    weight += valueWeight(members[name])
    if (names !== undefined && !names.has(name)) weight += textWeight(name)
  }
  return weight
}

/** `media`: the number of media parts, instead of their weight. */
interface Weight {
  text: number
  media: number
}

function addPart(part: unknown, sum: Weight): void {
  if (!isObject(part)) sum.text += valueWeight(part)
  else if (part.type === 'text' && typeof part.text === 'string') {
    sum.text += textWeight(part.text) + membersWeight(part, partOwn)
  } else if (typeof part.type === 'string' && media.has(part.type)) {
    sum.media++
    for (const name in part) if (name !== 'type' && !media.has(name)) sum.text += valueWeight(part[name])
  } else sum.text += valueWeight(part)
}

function addMessage(message: Json, sum: Weight): void {
  const { content } = message
  sum.text += perMessage + membersWeight(message, messageOwn, messageNames)
  if (Array.isArray(content)) for (const part of content) addPart(part, sum)
  else sum.text += valueWeight(content)
}

/** A chat request, as far as it weighs something. */
export interface Prompt {
  readonly messages: readonly { readonly content?: unknown }[]
  readonly tools?: unknown
  readonly response_format?: unknown
}

export interface PromptEstimate {
  /** Of all of it. */
  readonly tokens: number
  /** Without the media, whose size in a context is unknown. */
  readonly textTokens: number
}

/**
 * The estimate for all text that a node reads: every member of a message, known or not, and of the request besides its
 * settings.
 */
export function estimatePrompt(body: Prompt): PromptEstimate {
  const sum: Weight = { text: perRequest + membersWeight(body as unknown as Json, requestOwn), media: 0 }
  for (const message of body.messages) addMessage(message, sum)
  return { tokens: wholeTokens(sum.text + mediaPartTokens * sum.media), textTokens: wholeTokens(sum.text) }
}

/** Whole tokens of a prompt, its media included. */
export const promptTokens = (body: Prompt): number => estimatePrompt(body).tokens

/**
 * The smallest weight of a UTF-16 unit, in hundredths of a token. No tokenizer makes fewer tokens of a real text
 * (§27).
 */
const unitHundredthsLeast = 12

/**
 * The smallest possible number of prompt tokens. It only counts the texts of message contents, which every model
 * reads.
 */
export function promptTokensLeast({ messages }: Prompt): number {
  let units = 0
  for (const { content } of messages) {
    if (typeof content === 'string') units += content.length
    else if (Array.isArray(content)) {
      for (const part of content) if (isObject(part) && typeof part.text === 'string') units += part.text.length
    }
  }
  return Math.floor((units * unitHundredthsLeast) / 100)
}
