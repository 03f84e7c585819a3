import { product } from '../../brand.ts'
import { nearest } from '../../nearest.ts'
import { type Action, isSingle, type Verb } from './action.ts'
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

function findIn(verb: Verb, args: readonly string[]): Found {
  if (isSingle(verb.actions)) return { kind: 'action', path: verb.name, action: verb.actions, args }
  const { actions } = verb
  const [name] = args
  const own = actions['']
  if (isHelp(name) || (name === undefined && own === undefined)) {
    const exitCode = name === undefined ? exitCodes.usage : exitCodes.ok
    return { kind: 'text', text: verbHelp(verb, actions), exitCode }
  }
  const found = named(actions, args)
  if (found !== null) {
    return { kind: 'action', path: `${verb.name} ${found.name}`, action: found.action, args: found.rest }
  }
  if (own !== undefined && (name === undefined || name.startsWith('-'))) {
    return { kind: 'action', path: verb.name, action: own, args }
  }
  const names = Object.keys(actions).filter((known) => known !== '')
  throw unknownCommand(`${verb.name} `, name ?? '', names)
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

function find(verbs: readonly Verb[], args: readonly string[], version: string): Found {
  const [word, ...rest] = args
  if (word === '--version') return { kind: 'text', text: version, exitCode: exitCodes.ok }
  if (word === undefined || (isHelp(word) && rest.length === 0)) {
    return { kind: 'text', text: programHelp(verbs), exitCode: word === undefined ? exitCodes.usage : exitCodes.ok }
  }
  if (word === 'help') return find(verbs, [...rest, '--help'], version)
  const verb = verbs.find(({ name }) => name === word)
  if (verb === undefined) {
    throw unknownCommand(
      '',
      word,
      verbs.map(({ name }) => name),
    )
  }
  return findIn(verb, rest)
}

export interface ProgramOptions {
  readonly verbs: readonly Verb[]
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
    const found = find(verbs, args, version)
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
