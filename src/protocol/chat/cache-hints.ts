import { isObject, type Json } from '../json/json-object.ts'

const hintName = 'cache_control'
/** In JSON: a text that speaks of it has its quotes escaped. */
const hintKey = `"${hintName}"`

/** How many messages of a translated chat stand before the client's first mark, tools apart; no writer of JSON sees it. */
export const markedMessages: unique symbol = Symbol('markedMessages')

/** True for a part, a message or a tool up to which the client wants a cache (§28). */
export const isMarked = (value: unknown): boolean => isObject(value) && value[hintName] != null

function cleaned(value: unknown): unknown {
  if (!isObject(value) || !(hintName in value)) return value
  const { [hintName]: _, ...rest } = value
  return rest
}

function cleanedMessage(message: unknown): unknown {
  const own = cleaned(message)
  if (!isObject(own) || !Array.isArray(own.content)) return own
  return { ...own, content: own.content.map(cleaned) }
}

/** Members to put in the place of a chat's own, which carry hints that are not for a node; null: it carries none. */
export function withoutHints(text: string, chat: object): Json | null {
  if (!text.includes(hintKey)) return null
  const { messages, tools } = chat as Json
  return {
    ...(Array.isArray(messages) ? { messages: messages.map(cleanedMessage) } : {}),
    ...(Array.isArray(tools) ? { tools: tools.map(cleaned) } : {}),
  }
}
