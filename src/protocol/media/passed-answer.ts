import { isErrorBody } from '../chat/chunk-reader.ts'
import { type TokenUsage, tokenCount } from '../chat/token-usage.ts'
import { foreignJson } from '../json/foreign-json.ts'
import { isObject } from '../json/json-object.ts'

const type = /^([a-z]+)\/[a-z0-9.+-]{1,64}$/
/** Types that a browser must not treat as a page or a script of the gateway. */
const textTypes: ReadonlySet<string> = new Set(['plain', 'vtt', 'srt', 'event-stream'].map((name) => `text/${name}`))

/** The content type under which an answer may be passed on; null for one that no client of media asks for. */
export function passedType(contentType: string | null): string | null {
  const name = (contentType ?? '').split(';')[0]?.trim().toLowerCase() ?? ''
  const family = type.exec(name)?.[1]
  if (name === 'application/json' || name === 'application/octet-stream' || name === 'application/x-subrip') return name
  if (family === 'audio' || (family === 'image' && name !== 'image/svg+xml')) return name
  return textTypes.has(name) ? `${name}; charset=utf-8` : null
}

/**
 * OpenAI counts here as in its Responses; a server that counts as in chats is accepted, too. null if it reports no
 * usage.
 */
function readUsage(value: unknown): TokenUsage | null {
  if (!isObject(value)) return null
  const prompt = tokenCount(value.input_tokens) ?? tokenCount(value.prompt_tokens)
  const completion = tokenCount(value.output_tokens) ?? tokenCount(value.completion_tokens) ?? 0
  return prompt === null
    ? null
    : { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
}

/** Of an answer in JSON that was short enough to be kept. */
export function jsonUsage(text: string): TokenUsage | null {
  const body = foreignJson(text)
  return isObject(body) ? readUsage(body.usage) : null
}

const jsonType = 'application/json'
export const isEvents = (contentType: string): boolean => contentType.startsWith('text/event-stream')
export const isJson = (contentType: string): boolean => contentType === jsonType
const errorFirst = /^\s*\{\s*"error"\s*:\s*(?!null\b)/
const errorEvent = /^(?:event: ?error\r?\n)?data: ?(\{\s*"error"[^\r\n]*)/

/**
 * Some servers send an error with status 200. Reads its message from the first bytes of an answer; null if it is not an
 * error.
 */
export function failureIn(text: string, contentType: string): string | null {
  if (isEvents(contentType)) return errorEvent.exec(text)?.[1] ?? null
  if (!isJson(contentType)) return null
  const body = foreignJson(text)
  const fails = body === undefined ? errorFirst.test(text) : isObject(body) && isErrorBody(body)
  return fails ? text : null
}

/** Whether the data of events may be the node's own words, and not the model's. */
export const mayFail = (text: string): boolean => text.includes('"error"') || /^event: ?error/m.test(text)
