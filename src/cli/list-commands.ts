import type { TSchema } from '@sinclair/typebox'
import type { Printer } from '../actions/frame/command.ts'
import type { Column, List, ListCommand, ListOption } from '../actions/frame/define-list.ts'
import { nodeTable } from './commands/nodes/nodes-view.ts'
import { type Action as Command, action as command } from './frame/action.ts'
import { customerOption, shownOnce } from './frame/admin-options.ts'
import { segment } from './frame/gateway-client.ts'
import { nodeIdOf } from './frame/node-id.ts'
import type { Session } from './frame/session.ts'
import { fields, shortTime, table } from './frame/table.ts'
import type { Terminal } from './frame/terminal.ts'

type Row = Readonly<Record<string, unknown>>

export const paramsIn = (path: string) => [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => name)

export const printerOf = (terminal: Terminal): Printer => ({
  nowMs: Date.now(),
  fields: (pairs) => fields(terminal, pairs),
  nodes: (nodes) => nodeTable(terminal, nodes, Date.now()),
  once: (what, secret) => shownOnce(terminal, what, secret),
  time: shortTime,
})

const owner = 'customer_id'

/** The path with what was typed in the places of its parts; a node may be called by its name. */
async function pathOf(
  { path }: List,
  operands: readonly string[],
  session: Session,
  customer: string | undefined,
): Promise<string> {
  const typed = operands.values()
  const parts = new Map<string, string>()
  for (const name of paramsIn(path)) {
    const word = name === owner ? session.customer(customer) : (typed.next().value ?? '')
    parts.set(name, name === 'node_id' ? await nodeIdOf(session.gateway(), word) : word)
  }
  return path.replaceAll(/:(\w+)/g, (_, name: string) => segment(parts.get(name) ?? ''))
}

type Options = Readonly<Record<string, ListOption>>

function optionOf(
  name: string,
  { type, minimum, maximum, default: standard, enum: words, description }: TSchema,
): ListOption {
  const about = String(description)
  if (Array.isArray(words)) return { kind: 'choice', of: words, about }
  if (type !== 'integer') return { kind: 'text', value: 'TEXT', about }
  const shown = name === 'limit' ? `How many to show at most (default ${standard})` : `${about} (default ${standard})`
  return { kind: 'number', value: 'N', min: minimum, max: maximum, about: shown }
}

const optionsOf = ({ query }: List): Options =>
  Object.fromEntries(Object.entries(query).map(([name, schema]) => [name.replaceAll('_', '-'), optionOf(name, schema)]))

function queryOf({ query }: List, own: Options, given: Readonly<Record<string, unknown>>): string {
  const chosen = Object.entries(own).flatMap(([name, { is = name.replaceAll('-', '_') }]) =>
    given[name] === undefined ? [] : [[is, String(given[name])]],
  )
  const all = query.limit !== undefined && !('limit' in own) ? [['limit', String(query.limit.maximum)]] : []
  return new URLSearchParams([...chosen, ...all]).toString()
}

function printed({ columns, empty, note }: ListCommand<never, never>, terminal: Terminal, rows: Row[], answer: Row) {
  const print = printerOf(terminal)
  if (typeof columns === 'function') return columns(rows as never, print)
  const heads = columns.map(([head]) => head)
  const cells = rows.map((row) => columns.map(([, cell]: Column<never>) => cell(row as never, print)))
  return table(terminal, heads, cells, empty) + (note?.(answer as never) ?? '')
}

/** The command of a list: what its file leaves out follows from the route. */
export function listCommand(list: List): Command {
  const cli = list.cli as ListCommand<never, never>
  const own = cli.options ?? optionsOf(list)
  const ofCustomer = paramsIn(list.path).includes(owner)
  return command({
    about: cli.about ?? list.summary,
    operands: cli.operands ?? [],
    options: { ...(ofCustomer ? customerOption : {}), ...own },
    run: async ({ operands, options, json }, session) => {
      const given = options as Readonly<Record<string, unknown>>
      const path = await pathOf(list, operands, session, given.customer as string | undefined)
      const query = queryOf(list, own, given)
      const answer = await session.gateway().admin<Row>({ path: query === '' ? path : `${path}?${query}` })
      session.show(json, answer, () => printed(cli, session.terminal, answer[list.rows] as Row[], answer))
      return undefined
    },
  })
}
