import { createInterface } from 'node:readline'
import { CliFailure, exitCodes } from '../../frame/failure.ts'
import { reportFailure } from '../../frame/report-failure.ts'
import type { Session } from '../../frame/session.ts'
import { type ChatMessage, type ChatWish, streamChat } from './chat-stream.ts'
import { createWriter, statsLine } from './chat-view.ts'

const promptText = '> '
/** A terminal sends Ctrl-C to the whole process group, and the launcher passes it on, so it arrives twice. */
const sameSignalMs = 1_000

/** Reads a line. null at the end of input or at Ctrl-C. */
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

/**
 * What Ctrl-C does while the line editor is closed: it stops the answer that runs. Where none runs it ends the program,
 * unless it is the second copy of the one that has just stopped an answer.
 */
function interruptions(): { run<T>(answer: (stop: AbortSignal) => Promise<T>): Promise<T> } {
  let running: AbortController | null = null
  let stoppedMs = Number.NEGATIVE_INFINITY
  process.on('SIGINT', () => {
    if (running !== null) {
      stoppedMs = performance.now()
      running.abort()
    } else if (performance.now() - stoppedMs > sameSignalMs) process.exit(exitCodes.interrupted)
  })
  return {
    run: async (answer) => {
      running = new AbortController()
      try {
        return await answer(running.signal)
      } finally {
        running = null
      }
    },
  }
}

/**
 * Runs a conversation, in which each request has all earlier messages. Ctrl-C stops an answer, and at the prompt it
 * ends the conversation.
 */
export async function converse(session: Session, wish: ChatWish, stats: boolean): Promise<number> {
  const { terminal } = session
  const gateway = session.gateway()
  let messages: readonly ChatMessage[] = wish.messages
  const interruption = interruptions()
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
      const turn = await interruption.run((stop) =>
        streamChat(gateway, { ...wish, messages: asked }, stop, writer.piece),
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
