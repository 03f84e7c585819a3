import { createInterface } from 'node:readline/promises'

export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow'

const codes: Readonly<Record<Style, readonly [number, number]>> = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
}

/** Where a command writes, and whether it may ask questions. */
export interface Terminal {
  /** True if standard input and output are a terminal, so that a person can answer. */
  readonly interactive: boolean
  readonly outIsTerminal: boolean
  out(text: string): void
  err(text: string): void
  /** Plain text unless standard output is a terminal and NO_COLOR is unset. */
  style(style: Style, text: string): string
  /** No where the signal or the input ends first. */
  confirm(question: string, signal?: AbortSignal): Promise<boolean>
  /** All of standard input. */
  readAll(): Promise<string>
}

export function createTerminal(env: Readonly<Record<string, string | undefined>>): Terminal {
  const outIsTerminal = process.stdout.isTTY === true
  const colour = outIsTerminal && (env.NO_COLOR ?? '') === '' && env.TERM !== 'dumb'
  return {
    interactive: outIsTerminal && process.stdin.isTTY === true,
    outIsTerminal,
    out: (text) => void process.stdout.write(text),
    err: (text) => void process.stderr.write(text),
    style: (style, text) => {
      const [on, off] = codes[style]
      return colour && text !== '' ? `\u001b[${on}m${text}\u001b[${off}m` : text
    },
    confirm: async (question, signal) => {
      const lines = createInterface({ input: process.stdin, output: process.stderr })
      try {
        const ended = new Promise<string>((resolve) => lines.once('close', () => resolve('')))
        const answered = lines.question(`${question} [y/N] `, signal === undefined ? {} : { signal })
        return /^y(es)?$/i.test((await Promise.race([answered, ended])).trim())
      } catch {
        // Ctrl-C or the end of input: no.
        process.stderr.write('\n')
        return false
      } finally {
        lines.close()
      }
    },
    readAll: () => Bun.stdin.text(),
  }
}

/** Removes control characters, so that text from the network cannot control the terminal. Line feeds and tabs stay. */
export function printable(text: string): string {
  return text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '')
}
