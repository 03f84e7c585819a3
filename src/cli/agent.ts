import { version } from '../../package.json'
import { usualPlaces } from './credentials.ts'
import { node } from './node.ts'
import { runProgram } from './program.ts'
import { createSession } from './session.ts'
import { createTerminal } from './terminal.ts'

/** The agent by itself, as gateways serve it in one file: `bun agent.mjs --gateway …` is `penstock node --gateway …`. */
const env = process.env
const session = createSession(createTerminal(env), usualPlaces(env))
const code = await runProgram(['node', ...process.argv.slice(2)], { verbs: [node], version, session })
process.exitCode = code
