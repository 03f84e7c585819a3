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

/** A block that never ends was cut off before its answer; templates that open the block themselves leave only its end. */
const thinking = /<think>[\s\S]*?(?:<\/think>|$)/gi
const orphanedEnd = /^[\s\S]*<\/think>/i

/** Without what the model thought aloud. */
export const withoutThinking = (text: string): string => text.replace(thinking, '').replace(orphanedEnd, '')

/** Something to show: a tool call, or text that is not all thought. */
export const isAnswer = (message: AnswerMessage): boolean =>
  toolCallsOf(message).length > 0 || withoutThinking(answerText(message)).trim() !== ''
