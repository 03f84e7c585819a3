import { product } from '../../brand.ts'
import { CliFailure, exitCodes } from './failure.ts'
import { printable, type Terminal } from './terminal.ts'

/** Prints a failure to standard error, never a stack, and returns the exit code. */
export function reportFailure(terminal: Pick<Terminal, 'err' | 'style'>, error: unknown, json: boolean): number {
  const failure = error instanceof CliFailure ? error : unexpected(error)
  if (json) {
    terminal.err(`${JSON.stringify({ error: failure.json() })}\n`)
  } else {
    const lines = [`${product}: ${failure.message}`, ...failure.notes.map((note) => `  ${note}`)]
    terminal.err(`${printable(lines.join('\n'))}\n`)
  }
  return failure.exitCode
}

function unexpected(error: unknown): CliFailure {
  const name = error instanceof Error ? error.name : typeof error
  return new CliFailure(`This is a bug in ${product} itself (${name}).`, [], exitCodes.failed)
}
