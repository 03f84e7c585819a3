import type { TSchema } from '@sinclair/typebox'
import type { ActionOperand, ActionOption, Cell, OptionSpec, OptionSpecs } from '../actions/frame/command.ts'
import type { Action } from '../actions/frame/define-action.ts'
import { actions, lists } from '../actions/registry.ts'
import { adminIdOf } from './commands/accounts/admins.ts'
import { type Action as Command, action as command, isSingle, type Verb } from './frame/action.ts'
import { reasonBody, reasonOption, yesOption } from './frame/admin-options.ts'
import { exitCodes, UsageFault } from './frame/failure.ts'
import { type AdminCall, type GatewayClient, segment } from './frame/gateway-client.ts'
import { nodeIdOf } from './frame/node-id.ts'
import { fields } from './frame/table.ts'
import type { Terminal } from './frame/terminal.ts'
import { listCommand, paramsIn, printerOf } from './list-commands.ts'

type Members = Readonly<Record<string, unknown>>

const optionName = (member: string) => member.replaceAll('_', '-')
const memberName = ([option, { is }]: readonly [string, ActionOption]) => is ?? option.replaceAll('-', '_')
/** What follows from the policy, or is sent by the command itself. */
const notTyped = new Set(['reason', 'confirm', 'etag'])

const operandsOf = ({ path, cli }: Action): readonly ActionOperand[] =>
  cli?.operands ?? paramsIn(path).map((is) => ({ is, name: is.toUpperCase(), about: `The ${is.replaceAll('_', ' ')}` }))

function optionOf({
  type,
  anyOf,
  description = '',
  minimum = 0,
  maximum = Number.MAX_SAFE_INTEGER,
}: TSchema): OptionSpec {
  const about = String(description)
  if (type === 'boolean') return { kind: 'flag', about }
  if (type === 'integer') return { kind: 'number', value: 'N', about, min: minimum, max: maximum }
  const words: unknown[] = (anyOf as readonly TSchema[] | undefined)?.map((each) => each.const) ?? []
  if (words.length > 0 && words.every((word) => typeof word === 'string')) return { kind: 'choice', of: words, about }
  return { kind: 'text', value: 'TEXT', about }
}

function optionsOf({ body, cli }: Action, operands: readonly ActionOperand[]): Readonly<Record<string, ActionOption>> {
  if (cli?.options !== undefined) return cli.options
  if (cli?.operands !== undefined || body === null) return {}
  const members = Object.entries(body.properties).filter(
    ([name]) => !notTyped.has(name) && !operands.some(({ is }) => is === name),
  )
  return Object.fromEntries(members.map(([name, schema]) => [optionName(name), optionOf(schema)]))
}

/** `Removed {NODE}.` */
const filled = (text: string, values: Members) =>
  text.replaceAll(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? ''))

function printed(
  { cli }: Action,
  terminal: Terminal,
  answer: unknown,
  typed: Readonly<Record<string, string>>,
): string {
  const prints = cli?.prints
  if (typeof prints === 'string') return `${filled(prints, typed)}\n`
  if (prints !== undefined) return prints(answer as never, printerOf(terminal))
  const pairs = Object.entries(answer ?? {}).filter(([, value]) => value === null || typeof value !== 'object')
  return fields(terminal, pairs as [string, Cell][])
}

function refuseForm(name: string, typed: string, form: ActionOperand['form']): void {
  if (form === undefined || new RegExp(form[0]).test(typed)) return
  throw new UsageFault(`${name} must be ${form[1]}`)
}

/** What may be called by its name, by the part of the path that holds its id. */
const idsByName: Readonly<Record<string, (gateway: GatewayClient, typed: string) => Promise<string>>> = {
  node_id: nodeIdOf,
  admin_id: adminIdOf,
}

const meant = (gateway: GatewayClient, is: string, typed: string) =>
  idsByName[is]?.(gateway, typed) ?? Promise.resolve(typed)

/** `members`: what was typed, by the parts of the path and the members of the body. */
function callOf({ method, path, body, approved }: Action, members: Members, reason: string | undefined): AdminCall {
  const params = paramsIn(path)
  const sent = Object.entries(members).filter(([name]) => !params.includes(name))
  return {
    method,
    path: path.replaceAll(/:(\w+)/g, (_, name: string) => segment(String(members[name]))),
    approved,
    ...(body === null ? { reason } : { body: { ...Object.fromEntries(sent), ...reasonBody(reason) } }),
  } as AdminCall
}

function commandOf(action: Action): Command {
  const operands = operandsOf(action)
  const own = optionsOf(action, operands)
  const { asks, about = '', gives } = action.cli ?? {}
  return command({
    about,
    operands,
    options: { ...own, ...reasonOption, ...(asks === undefined ? {} : yesOption) } as OptionSpecs,
    run: async ({ operands: words, options, json }, session) => {
      const typed = Object.fromEntries(operands.map(({ name }, at) => [name, words[at] ?? '']))
      for (const { name, form } of operands) refuseForm(name, typed[name] ?? '', form)
      if (asks != null && !(await session.agreed(options.yes === true, filled(asks, typed)))) return exitCodes.failed
      const gateway = session.gateway()
      const ids = operands.map(async ({ is, name }) => [is, await meant(gateway, is, typed[name] ?? '')] as const)
      const named = Object.fromEntries(await Promise.all(ids))
      const chosen = Object.entries(own).map((option) => [memberName(option), options[option[0]]] as const)
      const members = { ...named, ...Object.fromEntries(chosen) }
      const answer = await gateway.admin<unknown>(callOf(action, members, options.reason as string | undefined))
      session.show(json, answer ?? { ...named, ...gives }, () => printed(action, session.terminal, answer, typed))
      return undefined
    },
  })
}

/** Those of lists, then those of actions, each in the order of the registry: an action may stand behind a list. */
const derived = [
  ...lists.flatMap((each) => (each.cli === null ? [] : [{ at: each.cli, command: () => listCommand(each) }])),
  ...actions.flatMap((each) => (each.cli === null ? [] : [{ at: each.cli, command: () => commandOf(each) }])),
].map(({ at: { words, after }, command: made }) => {
  const [verb = '', ...rest] = words.split(' ')
  return { verb, name: rest.join(' '), after, made }
})

/** The verb with the commands of its actions and lists, each where the help shows it. `after` of '': before all others. */
export function withActions(verb: Verb): Verb {
  if (isSingle(verb.actions)) return verb
  const own = derived.filter((each) => each.verb === verb.name)
  const all: [string, Command][] = Object.entries(verb.actions)
  for (const { name, made } of own.filter(({ after }) => after === undefined)) all.push([name, made()])
  for (const { name, after, made } of own.filter((each) => each.after !== undefined)) {
    all.splice(all.findIndex(([before]) => before === after) + 1, 0, [name, made()])
  }
  return { ...verb, actions: Object.fromEntries(all) }
}
