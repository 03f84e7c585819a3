import { version } from '../../../package.json'
import { endWithLauncher } from '../../host/launcher.ts'
import { unknownInWords } from '../../settings/unknown.ts'
import type { VerbEntry } from './action.ts'
import { usualPlaces } from './credentials.ts'
import { runProgram } from './program.ts'
import { createSession } from './session.ts'
import { createTerminal } from './terminal.ts'

/** What a misspelt variable means for the gateway, these commands say in their own place. */
const saysItself: ReadonlySet<string> = new Set(['serve', 'doctor'])

/** Runs this process's command line to its end. */
export async function runProcess(verbs: readonly VerbEntry[], args: readonly string[]): Promise<void> {
  const { env } = process
  endWithLauncher()
  // Bun's fetch uses HTTP_PROXY even for this computer, which a proxy cannot reach.
  env.NO_PROXY = [env.NO_PROXY, 'localhost', '127.0.0.1', '::1'].filter(Boolean).join(',')
  // The reader of a pipe may leave early (`… | head`), which is not an error of the command.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: { readonly code?: string }) => process.exit(error.code === 'EPIPE' ? 0 : 1))
  }
  if (!saysItself.has(args[0] ?? '')) {
    for (const odd of unknownInWords(env, 'command')) process.stderr.write(`${odd}\n`)
  }
  const session = createSession(createTerminal(env), usualPlaces(env))
  // The program must not call `exit` here, because output to a pipe must still arrive.
  process.exitCode = await runProgram(args, { verbs, version, session })
}
