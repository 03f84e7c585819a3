import type { ChatRequest } from '../../wire/inference/chat.ts'

type Message = ChatRequest['messages'][number]

/**
 * What stands as a system message anywhere goes as one, at the head. Coding agents put such messages between the turns,
 * and the templates of many models refuse a second one, or one that is not the first. Put as the user's it would be
 * answered instead of obeyed.
 */
export function systemFirst(messages: readonly Message[]): Message[] {
  const isSystem = ({ role, content }: Message) => role === 'system' && typeof content === 'string'
  const system = messages.filter(isSystem)
  if (system.length === 0 || (system.length === 1 && messages[0] === system[0])) return [...messages]
  const content = system.map((message) => message.content).join('\n\n')
  return [{ role: 'system', content }, ...messages.filter((message) => !isSystem(message))]
}
