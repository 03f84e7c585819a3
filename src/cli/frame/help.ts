import { product } from '../../brand.ts'
import { type Action, isSingle, type OperandSpec, type OptionSpec, type Verb } from './action.ts'
import { commonOptions } from './parse.ts'

const wide = (rows: readonly (readonly [string, string])[]) => {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`.trimEnd()).join('\n')
}

function operandText({ name, optional, rest }: OperandSpec): string {
  const text = rest === true ? `${name}…` : name
  return optional === true ? `[${text}]` : text
}

function optionText(name: string, spec: OptionSpec): string {
  if (spec.kind === 'flag') return spec.short === undefined ? `--${name}` : `-${spec.short}, --${name}`
  if (spec.kind === 'choice') return `--${name} ${spec.of.join('|')}`
  return spec.kind === 'texts' ? `--${name} ${spec.value} (repeatable)` : `--${name} ${spec.value}`
}

/** `path`: `keys create`. */
export function actionHelp(path: string, action: Action): string {
  const options = Object.entries({ ...action.options, ...commonOptions })
  const usage = [product, path, ...action.operands.map(operandText), '[options]'].join(' ')
  const operands = action.operands.map((spec) => [operandText(spec), spec.about] as const)
  return [
    `Usage: ${usage}`,
    action.about,
    ...(operands.length === 0 ? [] : [`Operands:\n${wide(operands)}`]),
    `Options:\n${wide(options.map(([name, spec]) => [optionText(name, spec), spec.about] as const))}`,
  ].join('\n\n')
}

/** Help of a verb that has several commands. */
export function verbHelp(verb: Verb, actions: Readonly<Record<string, Action>>): string {
  const own = actions['']
  const named = Object.entries(actions).filter(([name]) => name !== '')
  const rows = named.map(
    ([name, { operands, about }]) => [[name, ...operands.map(operandText)].join(' '), about] as const,
  )
  if (own !== undefined && rows.length === 0) return actionHelp(verb.name, own)
  return [
    ...(own === undefined
      ? [`Usage: ${product} ${verb.name} COMMAND [options]`, verb.about]
      : [actionHelp(verb.name, own)]),
    `Commands:\n${wide(rows)}`,
    `To see the options of a command: ${product} ${verb.name} COMMAND --help`,
  ].join('\n\n')
}

function commandWords(actions: Readonly<Record<string, Action>>): string {
  const names = Object.keys(actions).filter((name) => name !== '')
  const first = [...new Set(names.map((name) => name.split(' ')[0]))].join('|')
  return Object.hasOwn(actions, '') && first !== '' ? `[${first}]` : first
}

export function programHelp(verbs: readonly Verb[]): string {
  const rows = verbs.map(({ name, about, actions }) => {
    const words = isSingle(actions) ? actions.operands.map(operandText).join(' ') : commandWords(actions)
    return [`${name} ${words}`.trimEnd(), about] as const
  })
  return [
    `Usage: ${product} COMMAND [options]`,
    `Commands:\n${wide(rows)}`,
    `To see the options of a command: ${product} COMMAND --help\nVersion: ${product} --version`,
    `The gateway and its tokens: SVC_BASE_URL, SVC_ADMIN_TOKEN, SVC_GATEWAY_KEY, SVC_CUSTOMER_ID,
SVC_CUSTOMER_TOKEN, else
~/.config/${product}/credentials.json, else $SVC_DATA_DIR/credentials.json (default .data).
A second admin's token, where the gateway asks for one: SVC_APPROVER_TOKEN.`,
  ].join('\n\n')
}
