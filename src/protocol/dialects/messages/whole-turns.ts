import type { Json } from '../../json/json-object.ts'
import type { ChatRequest } from '../../wire/inference/chat.ts'
import { systemFirst } from './system-first.ts'

type Message = ChatRequest['messages'][number] & Json

/** What a user says while tools run follows their results: strict servers want each result directly behind its calls. */
function* resultsFirst(messages: readonly Message[]): Generator<Message> {
  let waiting: Message[] = []
  let called = false
  let before = ''
  for (const message of messages) {
    const { role, tool_calls: calls } = message
    const goesOn = role === before
    before = role
    if (called && role === 'user') {
      waiting.push(message)
      continue
    }
    if (role !== 'tool') {
      yield* waiting
      waiting = []
      called = Array.isArray(calls) || (called && goesOn)
    }
    yield message
  }
  yield* waiting
}

const partsOf = (content: unknown) => (typeof content === 'string' ? [{ type: 'text', text: content }] : content)

/** `run`: of one role. */
function joined(run: readonly Message[]): Message {
  const [first] = run as readonly [Message]
  const said = run.map(({ content }) => content).filter((content) => content != null && content !== '')
  const calls = run.flatMap(({ tool_calls: own }) => (Array.isArray(own) ? own : []))
  const text = said.every((content) => typeof content === 'string') ? said.join('\n\n') : said.flatMap(partsOf)
  const content = said.length === 0 && calls.length > 0 ? null : text
  return { role: first.role, content, ...(calls.length === 0 ? {} : { tool_calls: calls }) }
}

const isJoined = ({ role }: Message) => role === 'user' || role === 'assistant'

/**
 * The messages as turns that change between user and assistant, with the results of tools directly behind their calls: what clients of
 * Messages and Responses write in pieces, and what moving the system's messages to the head puts side by side, templates of many
 * models refuse otherwise.
 */
export function wholeTurns(messages: readonly Message[]): Message[] {
  const ordered = [...resultsFirst(systemFirst(messages) as Message[])]
  const turns: Message[] = []
  for (let at = 0; at < ordered.length; ) {
    const message = ordered[at] as Message
    let to = at + 1
    while (isJoined(message) && ordered[to]?.role === message.role) to++
    turns.push(to === at + 1 ? message : joined(ordered.slice(at, to)))
    at = to
  }
  return turns
}
