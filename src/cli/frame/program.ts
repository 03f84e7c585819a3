import { product } from '../../brand.ts'
import { nearest } from '../../nearest.ts'
import { type Action, isSingle, type Verb, type VerbEntry } from './action.ts'
import { exitCodes, UsageFault } from './failure.ts'
import { actionHelp, programHelp, verbHelp } from './help.ts'
import { parseInput } from './parse.ts'
import { reportFailure } from './report-failure.ts'
import type { Session } from './session.ts'

/** The meaning of a command line: a command with its arguments, or a text to print. */
type Found =
  | { readonly kind: 'action'; readonly path: string; readonly action: Action; readonly args: readonly string[] }
  | { readonly kind: 'text'; readonly text: string; readonly exitCode: number }

const isHelp = (word: string | undefined) => word === '--help' || word === '-h' || word === 'help'

/** Finds the longest command name at the start of the arguments, and the arguments after it. */
function named(actions: Readonly<Record<string, Action>>, args: readonly string[]) {
  for (const length of [2, 1]) {
    const name = args.slice(0, length).join(' ')
    const action = args.length >= length && Object.hasOwn(actions, name) ? actions[name] : undefined
    if (action !== undefined && name !== '') return { name, action, rest: args.slice(length) }
  }
  return null
}

/** null: the arguments name none of these commands. */
function commandIn({ name: verb, actions }: Verb, args: readonly string[]): Found | null {
  if (isSingle(actions)) return { kind: 'action', path: verb, action: actions, args }
  const [name] = args
  if (isHelp(name)) return null
  const found = named(actions, args)
  if (found !== null) return { kind: 'action', path: `${verb} ${found.name}`, action: found.action, args: found.rest }
  const own = actions['']
  return own !== undefined && (name === undefined || name.startsWith('-'))
    ? { kind: 'action', path: verb, action: own, args }
    : null
}

function findIn(verb: Verb, args: readonly string[]): Found {
  const found = commandIn(verb, args)
  if (found !== null) return found
  const [name] = args
  const actions = isSingle(verb.actions) ? {} : verb.actions
  if (name === undefined || isHelp(name)) {
    const exitCode = name === undefined ? exitCodes.usage : exitCodes.ok
    return { kind: 'text', text: verbHelp(verb, actions), exitCode }
  }
  const names = Object.keys(actions).filter((known) => known !== '')
  throw unknownCommand(`${verb.name} `, name, names)
}

/** A word with more wrong letters is another word, not a slip of the fingers. */
const slipsMax = 2

function unknownCommand(before: string, word: string, known: readonly string[]): UsageFault {
  const meant = nearest(word, known, Math.min(slipsMax, word.length - 1))
  return new UsageFault(`Unknown command: ${before}${word}`, [
    ...(meant === null ? [] : [`Did you mean ${before}${meant}?`]),
    `Commands: ${known.join(', ')}`,
  ])
}

const all = (verbs: readonly VerbEntry[]): Promise<readonly Verb[]> => Promise.all(verbs.map(({ whole }) => whole()))

async function find(verbs: readonly VerbEntry[], args: readonly string[], version: string): Promise<Found> {
  const [word, ...rest] = args
  if (word === '--version') return { kind: 'text', text: version, exitCode: exitCodes.ok }
  if (word === undefined || (isHelp(word) && rest.length === 0)) {
    const exitCode = word === undefined ? exitCodes.usage : exitCodes.ok
    return { kind: 'text', text: programHelp(await all(verbs)), exitCode }
  }
  if (word === 'help') return find(verbs, [...rest, '--help'], version)
  const entry = verbs.find(({ name }) => name === word)
  if (entry === undefined) {
    throw unknownCommand(
      '',
      word,
      verbs.map(({ name }) => name),
    )
  }
  // What was written for a verb is tried first: what follows from actions and lists takes several times as long to import.
  return commandIn(await entry.load(), rest) ?? findIn(await entry.whole(), rest)
}

export interface ProgramOptions {
  readonly verbs: readonly VerbEntry[]
  readonly version: string
  readonly session: Session
}

/** Runs one command line. Resolves with the exit code; never rejects. */
export async function runProgram(
  args: readonly string[],
  { verbs, version, session }: ProgramOptions,
): Promise<number> {
  const { terminal } = session
  let path = ''
  try {
    const found = await find(verbs, args, version)
    if (found.kind === 'text') {
      const write = found.exitCode === exitCodes.ok ? terminal.out : terminal.err
      write(`${found.text}\n`)
      return found.exitCode
    }
    path = found.path
    const input = parseInput(found.action, found.args)
    if (input === null) {
      terminal.out(`${actionHelp(found.path, found.action)}\n`)
      return exitCodes.ok
    }
    return (await found.action.run(input, session)) ?? exitCodes.ok
  } catch (error) {
    const json = args.includes('--json')
    const code = reportFailure(terminal, error, json)
    if (error instanceof UsageFault && !json) terminal.err(`  ${[product, path, '--help'].filter(Boolean).join(' ')}\n`)
    return code
  }
}
