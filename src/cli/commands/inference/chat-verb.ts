import { action, type Verb } from '../../frame/action.ts'
import { exitCodes, UsageFault } from '../../frame/failure.ts'
import type { Session } from '../../frame/session.ts'
import { rounded } from '../../frame/table.ts'
import { converse } from './chat-repl.ts'
import { type ChatMessage, type ChatWish, streamChat, type Turn, tokensPerSecond } from './chat-stream.ts'
import { createWriter, statsLine } from './chat-view.ts'

const turnJson = (turn: Turn, model: string) => ({
  model,
  content: turn.content,
  ...(turn.reasoning === '' ? {} : { reasoning: turn.reasoning }),
  finish_reason: turn.finishReason,
  usage: turn.usage,
  ttft_ms: rounded(turn.ttftMs, 1),
  total_ms: rounded(turn.totalMs, 1),
  tokens_per_second: rounded(tokensPerSecond(turn), 1),
  request_id: turn.requestId,
  svc: turn.metadata,
  stopped: turn.stopped,
})

async function once(session: Session, wish: ChatWish, json: boolean, stats: boolean): Promise<number> {
  const { terminal } = session
  const writer = createWriter(terminal)
  const stop = new AbortController()
  const onSignal = () => stop.abort()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, onSignal)
  let turn: Turn
  try {
    turn = await streamChat(session.gateway(), wish, stop.signal, json ? () => {} : writer.piece)
  } finally {
    if (!json) writer.end()
  }
  if (json) terminal.out(`${JSON.stringify(turnJson(turn, wish.model), null, 2)}\n`)
  else if (stats) terminal.err(`${statsLine(turn)}\n`)
  return turn.stopped ? exitCodes.interrupted : exitCodes.ok
}

/** Returns the arguments or the piped input. null means that a person should be asked. */
async function promptOf(session: Session, words: readonly string[]): Promise<string | null> {
  if (words.length > 0 && !(words.length === 1 && words[0] === '-')) return words.join(' ')
  if (session.terminal.interactive && words.length === 0) return null
  const piped = (await session.terminal.readAll()).trimEnd()
  if (piped.trim() === '') throw new UsageFault('There is no prompt. Give one after the model, or pipe one in.')
  return piped
}

export const chat: Verb = {
  name: 'chat',
  about: 'Talk to a model',
  actions: action({
    about:
      'Talk to a model with one prompt, a piped prompt or, without any, in a conversation. Ctrl-C stops the answer',
    operands: [
      { name: 'MODEL', about: 'The model id, as `models list` shows it' },
      { name: 'PROMPT', about: 'The prompt. A dash (-) reads standard input.', optional: true, rest: true },
    ],
    options: {
      system: { kind: 'text', value: 'TEXT', about: 'The system message' },
      'max-tokens': {
        kind: 'number',
        value: 'N',
        min: 1,
        max: 1_048_576,
        about: 'Largest number of tokens in the answer',
      },
      temperature: { kind: 'number', value: 'T', min: 0, max: 2, fraction: true, about: '0 to 2' },
      node: { kind: 'text', value: 'NODE_ID', about: 'Use only this node, which must be one of yours' },
      'no-stats': { kind: 'flag', about: 'Do not print speed and times after an answer' },
    },
    run: async ({ operands, options, json }, session) => {
      const [model = '', ...words] = operands
      const system: readonly ChatMessage[] =
        options.system === undefined ? [] : [{ role: 'system', content: options.system }]
      const wish = {
        model,
        messages: system,
        maxTokens: options['max-tokens'] ?? null,
        temperature: options.temperature ?? null,
        nodeId: options.node ?? null,
      }
      const prompt = await promptOf(session, words)
      const stats = !options['no-stats']
      if (prompt === null) return converse(session, wish, stats)
      const messages = [...system, { role: 'user', content: prompt } as const]
      return once(session, { ...wish, messages }, json, stats)
    },
  }),
}
