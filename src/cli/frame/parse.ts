import { type ParseArgsConfig, parseArgs } from 'node:util'
import type { Action, Input, OperandSpec, OptionSpec } from './action.ts'
import { UsageFault } from './failure.ts'

/** Every command takes these two. */
export const commonOptions = {
  json: { kind: 'flag', about: 'Print JSON' },
  help: { kind: 'flag', about: 'Show this help', short: 'h' },
} as const satisfies Record<string, OptionSpec>

type Raw = boolean | string | readonly (boolean | string)[] | undefined

function readNumber(name: string, spec: OptionSpec & { kind: 'number' }, text: string): number {
  const form = spec.fraction === true ? /^[0-9]{1,12}(\.[0-9]{1,12})?$/ : /^[0-9]{1,15}$/
  const value = form.test(text) ? Number(text) : Number.NaN
  if (value >= spec.min && value <= spec.max) return value
  const what = spec.fraction === true ? 'a number' : 'a whole number'
  throw new UsageFault(`--${name} must be ${what} from ${spec.min} to ${spec.max}`)
}

function readValue(name: string, spec: OptionSpec, raw: Raw): unknown {
  if (spec.kind === 'flag') return raw === true
  const texts = (Array.isArray(raw) ? raw : []) as readonly string[]
  if (spec.kind === 'texts') return texts
  const [text, second] = texts
  if (second !== undefined) throw new UsageFault(`--${name} is given more than once`)
  if (text === undefined) return undefined
  if (spec.kind === 'number') return readNumber(name, spec, text)
  if (spec.kind === 'choice' && !spec.of.includes(text)) {
    throw new UsageFault(`--${name} must be one of ${spec.of.join(', ')}`)
  }
  return text
}

function checkOperands(specs: readonly OperandSpec[], given: readonly string[]): void {
  const absent = specs.find((spec, at) => spec.optional !== true && (given[at] ?? '') === '')
  if (absent !== undefined) throw new UsageFault(`${absent.name} is missing. ${absent.about}`)
  const [unexpected] = specs.at(-1)?.rest === true ? [] : given.slice(specs.length)
  if (unexpected !== undefined) throw new UsageFault(`Unexpected argument: ${unexpected}`)
}

const flagOf = ({ short }: OptionSpec & { kind: 'flag' }) =>
  short === undefined ? ({ type: 'boolean' } as const) : ({ type: 'boolean', short } as const)

/** Returns `null` if the user asked for help. Throws `UsageFault`. */
export function parseInput(action: Action, args: readonly string[]): Input | null {
  const specs: Readonly<Record<string, OptionSpec>> = { ...action.options, ...commonOptions }
  const options: NonNullable<ParseArgsConfig['options']> = {}
  for (const [name, spec] of Object.entries(specs)) {
    // Every option with a value is read as a list, so that a second value is noticed.
    options[name] = spec.kind === 'flag' ? flagOf(spec) : { type: 'string', multiple: true }
  }
  const { values, positionals } = parsed(args, options)
  if (values.help === true) return null
  const read = Object.fromEntries(
    Object.entries(specs).map(([name, spec]) => [name, readValue(name, spec, values[name])]),
  )
  checkOperands(action.operands, positionals)
  return { operands: positionals, options: read as Input['options'], json: values.json === true }
}

function parsed(args: readonly string[], options: NonNullable<ParseArgsConfig['options']>) {
  try {
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true, strict: true })
    return { values: values as Readonly<Record<string, Raw>>, positionals }
  } catch (error) {
    const { code, message } = error as { code?: unknown; message?: unknown }
    if (!String(code).startsWith('ERR_PARSE_ARGS')) throw error
    throw new UsageFault(wrongWord(String(message)))
  }
}

/** Node's message also explains at length how to pass such a word as an operand. */
function wrongWord(message: string): string {
  const option = /'(-[^' ]*)[^']*'/.exec(message)?.[1] ?? ''
  if (/ambiguous|argument missing/.test(message)) {
    return `${option} needs a value; one that begins with a dash is written ${option}=-…`
  }
  if (message.includes('does not take an argument')) return `${option} takes no value`
  return `Unknown option: ${option}`
}
