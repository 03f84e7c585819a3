import { version } from '../../package.json'
import { usualPlaces } from './credentials.ts'
import { runProgram } from './program.ts'
import { verbs } from './registry.ts'
import { createSession } from './session.ts'
import { createTerminal } from './terminal.ts'

// Bun's fetch follows HTTP_PROXY even to this machine itself, where no proxy leads.
process.env.NO_PROXY = [process.env.NO_PROXY, 'localhost', '127.0.0.1', '::1'].filter(Boolean).join(',')

// The reader of a pipe may leave early (`… | head`); that is no fault of the command.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: { readonly code?: string }) => process.exit(error.code === 'EPIPE' ? 0 : 1))
}

const env = process.env
const session = createSession(createTerminal(env), usualPlaces(env))
const code = await runProgram(process.argv.slice(2), { verbs, version, session })
// Not `exit`: what was written to a pipe must still arrive.
process.exitCode = code
