import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { TObject, TSchema } from '@sinclair/typebox'
import { isSingle, type OperandSpec } from '../src/cli/frame/action.ts'
import { verbs } from '../src/cli/registry.ts'
import { type ProblemCode, problemKind, problemKinds } from '../src/errors.ts'
import { errorHelp } from '../src/http/docs/errors-page.ts'
import { type Door, doors, type Field } from '../src/protocol/dialects/field.ts'
import { fields } from '../src/protocol/dialects/fields.ts'
import { kindNames, kindOf } from '../src/protocol/money/kinds.ts'
import { expected } from '../src/protocol/validation/words.ts'
import { ChatRequest } from '../src/protocol/wire/inference/chat.ts'
import { CompletionRequest } from '../src/protocol/wire/inference/completions.ts'
import { EmbeddingsRequest } from '../src/protocol/wire/inference/embeddings.ts'
import { MessagesRequest } from '../src/protocol/wire/inference/messages.ts'
import { OllamaGenerateRequest, OllamaOptions } from '../src/protocol/wire/inference/ollama.ts'
import { PooledRerankRequest } from '../src/protocol/wire/inference/rerank.ts'
import { ResponsesRequest } from '../src/protocol/wire/inference/responses.ts'
import type { Setting } from '../src/settings/setting.ts'
import { settings } from '../src/settings/table.ts'
import { alertRows, alertsFile } from './alert-rules.ts'

/**
 * Writes the tables of the documents that repeat what the code says: settings, commands, error codes, alerts, fields, kinds of money;
 * and the file of the alert rules. Usage: `node scripts/bun.mjs scripts/settings-table.ts`. A test compares.
 */
const root = resolve(import.meta.dir, '..')

const cell = (text: string) => text.replaceAll('|', '\\|')
const code = (text: string) => `\`${text}\``

function table(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(' | ')} |`
  return [line(columns), line(columns.map(() => '---')), ...rows.map(line)].join('\n')
}

function defaultOf(setting: Setting): string {
  if (setting.kind === 'list' || setting.kind === 'secret' || setting.default === null) return ''
  return code(String(setting.default))
}

function valuesOf(setting: Setting): string {
  switch (setting.kind) {
    case 'number':
      return `${setting.min} to ${setting.max}`
    case 'choice':
      return setting.of.map(code).join(', ')
    case 'flag':
      return '`true`, `false`'
    case 'wei':
      return 'wei'
    case 'list':
      return 'list, commas between'
    case 'secret':
      return 'secret'
    case 'text':
      return ''
  }
}

function settingsTable(): string {
  const rows = Object.entries(settings).map(([name, setting]: [string, Setting]) => [
    code(name),
    defaultOf(setting),
    valuesOf(setting),
    setting.meaning,
  ])
  return table(['Variable', 'Default', 'Values', 'Meaning'], rows)
}

function operand({ name, optional, rest }: OperandSpec): string {
  const text = rest === true ? `${name}…` : name
  return optional === true ? `[${text}]` : text
}

const wholeVerbs = await Promise.all(verbs.map(({ whole }) => whole()))

function commandsTable(): string {
  const rows = wholeVerbs.flatMap(({ name, actions }) => {
    const all = isSingle(actions) ? [['', actions] as const] : Object.entries(actions)
    return all.map(([command, action]) => {
      const words = [name, command, ...action.operands.map(operand)].filter((word) => word !== '')
      return [code(words.join(' ')), action.about]
    })
  })
  return table(['Command', 'What it does'], rows)
}

function errorsTable(): string {
  const rows = (Object.keys(problemKinds) as ProblemCode[]).map((name) => {
    const { status, shouldRetry } = problemKind(name)
    const { means, next } = errorHelp[name]
    return [String(status), code(name), means, next, shouldRetry === undefined ? 'n/a' : shouldRetry ? 'yes' : 'no']
  })
  return table(['HTTP', 'Code', 'Meaning', 'What to do', 'Retry'], rows)
}

const titled = (name: string) => name.slice(0, 1).toUpperCase() + name.slice(1)

/** What each door checks itself. */
const checked: Readonly<Record<Door, readonly TObject[]>> = {
  chat: [ChatRequest],
  completions: [CompletionRequest],
  embeddings: [EmbeddingsRequest],
  rerank: [PooledRerankRequest],
  responses: [ResponsesRequest],
  messages: [MessagesRequest],
  ollama: [OllamaGenerateRequest, OllamaOptions],
}

function typeWords(schema: TSchema): string {
  const { description } = schema
  return description === undefined ? expected(schema) : `${expected(schema)} (${description})`
}

function valueCell(field: Field): string {
  const others = Object.entries(field.valueAt ?? {}).map(([door, schema]) => `${titled(door)}: ${typeWords(schema)}`)
  return [typeWords(field.value), ...others].join('; ')
}

function fateCell(name: string, { at }: Field, door: Door): string {
  const fate = at[door]
  if (fate === undefined) return ''
  const checks = name !== 'svc' && checked[door].some(({ properties }) => Object.hasOwn(properties, name))
  return checks ? `${fate}, checked` : fate
}

function fieldsTable(): string {
  const rows = Object.entries(fields).map(([name, field]) => {
    const { of, note, instead = {} } = field
    const others = Object.entries(instead).map(([door, other]) => `${titled(door)}: ${code(other)}`)
    const notes = [...others, ...(note === undefined ? [] : [note])].join('; ')
    return [code(name), of, valueCell(field), ...doors.map((door) => fateCell(name, field, door)), notes]
  })
  return table(['Field', 'Of', 'Value', ...doors.map(titled), 'Form, or which'], rows)
}

function moneyTable(): string {
  const rows = kindNames.map((kind) => {
    const { about, debits, credits, refersTo, log } = kindOf(kind)
    const entry = log === null ? '' : code(log.entry)
    return [code(kind), about, debits.join(', '), credits.join(', '), refersTo.join(', '), entry]
  })
  return table(['Kind', 'What happens', 'From', 'To', 'Refers to', 'Own entry of the public log'], rows)
}

/** Document → its blocks. */
const documents: Readonly<Record<string, Readonly<Record<string, () => string>>>> = {
  'docs/reference/commands.md': { commands: commandsTable },
  'docs/reference/settings.md': { settings: settingsTable },
  'docs/reference/fields.md': { fields: fieldsTable },
  'docs/operations/observe.md': {
    errors: errorsTable,
    alerts: () => table(['Alert', 'When', 'What to look at'], alertRows()),
  },
  'docs/money.md': { 'ledger-kinds': moneyTable },
}

function replaceBlock(file: string, text: string, name: string, content: string): string {
  const [begin, end] = [`<!-- ${name}:begin -->`, `<!-- ${name}:end -->`]
  const from = text.indexOf(begin)
  const to = text.indexOf(end)
  if (from === -1 || to < from) throw new Error(`${file} lacks the markers of ${name}`)
  return `${text.slice(0, from + begin.length)}\n${content}\n${text.slice(to)}`
}

/** Each document as it is, and as it is with current tables. */
export function comparedDocuments(): readonly {
  readonly file: string
  readonly is: string
  readonly should: string
}[] {
  const compared = Object.entries(documents).map(([file, blocks]) => {
    const is = readFileSync(join(root, file), 'utf8')
    const should = Object.entries(blocks).reduce((text, [name, make]) => replaceBlock(file, text, name, make()), is)
    return { file, is, should }
  })
  const rules = 'ops/alerts.yaml'
  return [...compared, { file: rules, is: readFileSync(join(root, rules), 'utf8'), should: alertsFile() }]
}

if (import.meta.main) for (const { file, should } of comparedDocuments()) writeFileSync(join(root, file), should)
