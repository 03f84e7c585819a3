import { version } from '../../../package.json'
import type { Verb } from './action.ts'
import { usualPlaces } from './credentials.ts'
import { runProgram } from './program.ts'
import { createSession } from './session.ts'
import { createTerminal } from './terminal.ts'

/** Runs this process's command line to its end. */
export async function runProcess(verbs: readonly Verb[], args: readonly string[]): Promise<void> {
  const { env } = process
  // Bun's fetch follows HTTP_PROXY even to this machine itself, where no proxy leads.
  env.NO_PROXY = [env.NO_PROXY, 'localhost', '127.0.0.1', '::1'].filter(Boolean).join(',')
  // The reader of a pipe may leave early (`… | head`); that is no fault of the command.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: { readonly code?: string }) => process.exit(error.code === 'EPIPE' ? 0 : 1))
  }
  const session = createSession(createTerminal(env), usualPlaces(env))
  // Not `exit`: what was written to a pipe must still arrive.
  process.exitCode = await runProgram(args, { verbs, version, session })
}
