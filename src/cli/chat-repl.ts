import { createInterface } from 'node:readline'
import { type ChatMessage, type ChatWish, streamChat } from './chat-stream.ts'
import { createWriter, statsLine } from './chat-view.ts'
import { CliFailure, exitCodes } from './failure.ts'
import { reportFailure } from './report-failure.ts'
import type { Session } from './session.ts'

const promptText = '> '
/** A terminal's Ctrl-C arrives twice: to the whole group, and once more through the launcher. */
const sameSignalMs = 1_000

/** A line of the person, or null at the end of input or at Ctrl-C. */
function ask(): Promise<string | null> {
  const lines = createInterface({ input: process.stdin, output: process.stdout, terminal: true })
  return new Promise((resolve) => {
    const end = (line: string | null) => {
      resolve(line)
      lines.close()
    }
    lines.on('line', end)
    lines.on('SIGINT', () => end(null))
    lines.on('close', () => resolve(null))
    lines.setPrompt(promptText)
    lines.prompt()
  })
}

/** Runs one answer that Ctrl-C stops. The line editor is closed meanwhile, so the terminal turns Ctrl-C into a signal. */
async function withStop<T>(run: (stop: AbortSignal) => Promise<T>, stopped: () => void): Promise<T> {
  const stop = new AbortController()
  const onSignal = () => {
    stopped()
    stop.abort()
  }
  process.on('SIGINT', onSignal)
  try {
    return await run(stop.signal)
  } finally {
    process.off('SIGINT', onSignal)
  }
}

/** A conversation: each answer goes with the next question. Ctrl-C stops an answer, at the prompt it ends. */
export async function converse(session: Session, wish: ChatWish, stats: boolean): Promise<number> {
  const { terminal } = session
  const gateway = session.gateway()
  let messages: readonly ChatMessage[] = wish.messages
  let stoppedMs = Number.NEGATIVE_INFINITY
  // Between two answers a late second copy of Ctrl-C must not end the program.
  process.on('SIGINT', () => {
    if (performance.now() - stoppedMs > sameSignalMs) process.exit(exitCodes.interrupted)
  })
  terminal.out(`${terminal.style('dim', `${wish.model}. /new begins again, Ctrl-D ends.`)}\n`)
  for (;;) {
    const line = await ask()
    if (line === null) {
      terminal.out('\n')
      return exitCodes.ok
    }
    const content = line.trim()
    if (content === '') continue
    if (content === '/new') {
      messages = wish.messages
      continue
    }
    const asked = [...messages, { role: 'user', content } as const]
    const writer = createWriter(terminal)
    try {
      const turn = await withStop(
        (stop) => streamChat(gateway, { ...wish, messages: asked }, stop, writer.piece),
        () => {
          stoppedMs = performance.now()
        },
      )
      writer.end()
      messages = turn.content === '' ? messages : [...asked, { role: 'assistant', content: turn.content }]
      if (stats) terminal.err(`${terminal.style('dim', statsLine(turn))}\n`)
    } catch (error) {
      writer.end()
      if (!(error instanceof CliFailure)) throw error
      reportFailure(terminal, error, false)
    }
  }
}
