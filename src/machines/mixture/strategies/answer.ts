import type { AnswerMessage } from './strategy.ts'

const isTextPart = (part: unknown): part is { readonly text: string } =>
  typeof part === 'object' && part !== null && typeof (part as { text?: unknown }).text === 'string'

/** The text of an answer: its content (also in parts), or its refusal. */
export function answerText({ content, refusal }: AnswerMessage): string {
  if (typeof content === 'string' && content !== '') return content
  if (Array.isArray(content)) {
    return content
      .filter(isTextPart)
      .map(({ text }) => text)
      .join('')
  }
  return typeof refusal === 'string' ? refusal : ''
}

export const toolCallsOf = ({ tool_calls: calls }: AnswerMessage): readonly unknown[] =>
  Array.isArray(calls) ? calls : []

/** A block without an end was cut off before its answer. A template that opens the block itself leaves only its end. */
const thinking = /<think>[\s\S]*?(?:<\/think>|$)/gi
const orphanedEnd = /^[\s\S]*<\/think>/i

/** The text without the model's reasoning. */
export const withoutThinking = (text: string): string => text.replace(thinking, '').replace(orphanedEnd, '')

/** True if the message has something to show: a tool call, or text that is not only reasoning. */
export const isAnswer = (message: AnswerMessage): boolean =>
  toolCallsOf(message).length > 0 || withoutThinking(answerText(message)).trim() !== ''
