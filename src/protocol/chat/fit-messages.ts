import type { Problem } from '../../errors.ts'
import { invalidRequest } from '../json/json-body.ts'
import { type ChatRequest, developerRole } from '../wire/inference/chat.ts'

/** Marks a body whose messages differ from those in its text; no writer of JSON sees it. */
export const fitted: unique symbol = Symbol('fitted')
export interface Fitted {
  [fitted]?: true
}

interface Message {
  readonly role: string
  readonly content?: unknown
  readonly tool_calls?: unknown
}

/** An assistant that calls tools need not say anything; any other message without `content` is `invalid_request`. */
export function contentFault({ role, content, tool_calls: calls }: Message, at: number): Problem | null {
  if (content !== undefined || (role === 'assistant' && Array.isArray(calls) && calls.length > 0)) return null
  const detail = `messages[${at}].content is missing. Only an assistant’s message with tool_calls may leave it out.`
  return invalidRequest([{ pointer: `/messages/${at}/content`, code: 'required', detail }])
}

/**
 * Changes messages in place into those that every node takes (§5): a call of tools without `content` gets null, and
 * `developer` becomes `system`. The body stays the parsed object, because the positions of its members in the text are
 * stored by that object. Throws `invalid_request` if content is missing.
 */
export function fitMessages(body: ChatRequest & Fitted): void {
  const { messages } = body
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at] as ChatRequest['messages'][number]
    if (message.content === undefined) {
      const fault = contentFault(message, at)
      if (fault !== null) throw fault
      message.content = null
      body[fitted] = true
    }
    if (message.role === developerRole) {
      message.role = 'system'
      body[fitted] = true
    }
  }
}
