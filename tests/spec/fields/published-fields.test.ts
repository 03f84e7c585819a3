import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Door, doors } from '../../../src/protocol/dialects/field.ts'
import { fields, promptNames } from '../../../src/protocol/dialects/fields.ts'

/** The table of fields beside what the makers of the dialects publish (§35), so that a new version of their clients shows what it lacks. */
const root = join(import.meta.dir, '../../..')
const page = readFileSync(join(root, 'docs/reference/fields.md'), 'utf8')

/** Members of an interface of a client's type declarations that belong to the body of the request. */
function membersOf(file: string, name: string): readonly string[] {
  const text = readFileSync(join(root, 'node_modules', file), 'utf8')
  const found = new RegExp(`^( *)export interface ${name} [^\\n]*\\{\\n(.*?)\\n\\1\\}`, 'ms').exec(text)
  if (found === null) throw new Error(`${file} has no ${name}`)
  const [, indent = '', body = ''] = found
  const member = new RegExp(`^${indent}    (\\w+)\\??:`)
  let words = ''
  return body.split('\n').flatMap((line) => {
    const named = member.exec(line)?.[1]
    words = /^ *(?:\/\*\*|\*)/.test(line) ? words + line : named === undefined ? '' : words
    if (named === undefined) return []
    const inHeader = words.includes('Header param')
    words = ''
    return inHeader ? [] : [named]
  })
}
const snake = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

const published: readonly (readonly [door: Exclude<Door, 'ollama'>, file: string, name: string, least: number])[] = [
  ['chat', 'openai/resources/chat/completions/completions.d.ts', 'ChatCompletionCreateParamsBase', 35],
  ['completions', 'openai/resources/completions.d.ts', 'CompletionCreateParamsBase', 18],
  ['embeddings', 'openai/resources/embeddings.d.ts', 'EmbeddingCreateParams', 5],
  ['responses', 'openai/resources/responses/responses.d.ts', 'ResponseCreateParamsBase', 30],
  ['messages', '@anthropic-ai/sdk/resources/messages/messages.d.ts', 'MessageCreateParamsBase', 15],
  ['messages', '@anthropic-ai/sdk/resources/beta/messages/messages.d.ts', 'MessageCreateParamsBase', 20],
  ['rerank', 'cohere-ai/api/resources/v2/client/requests/V2RerankRequest.d.ts', 'V2RerankRequest', 6],
]

/** What the page says is left to the caller's own nodes. */
const sentence = /Left out of the table on purpose are (.*?)\./s.exec(page)?.[1] ?? ''
const leftOut: ReadonlySet<string> = new Set([...sentence.matchAll(/`(\w+)`/g)].map(([, name = '']) => name))

test('§35: each field that OpenAI, Anthropic and Cohere publish is in the table, or is left out by name', () => {
  const met = new Set<string>()
  for (const [door, file, name, least] of published) {
    const members = membersOf(file, name).map(snake)
    // The declarations were read, not passed over.
    expect([file, members.length >= least]).toEqual([file, true])
    const lacking = members.filter(
      (member) => fields[member]?.at[door] === undefined && !promptNames[door].includes(member),
    )
    expect([file, lacking.filter((member) => !leftOut.has(member))]).toEqual([file, []])
    for (const member of lacking) met.add(member)
  }
  expect([...leftOut].toSorted()).toEqual([...met].toSorted())
})

test('§35: each cell of the page is carried, mapped, hint, refused or dropped, as the table has it', () => {
  const lines = page.split('<!-- fields:begin -->')[1]?.split('<!-- fields:end -->')[0]?.trim().split('\n') ?? []
  const cells = lines.map((line) => line.split('|').map((cell) => cell.trim()))
  expect(cells[0]?.slice(4, 4 + doors.length).map((door) => door.toLowerCase())).toEqual([...doors])
  const rows = cells.slice(2)
  expect(rows.map(([, name = '']) => name.replaceAll('`', ''))).toEqual(Object.keys(fields))
  for (const [, name = '', , , ...fates] of rows) {
    const row = fields[name.replaceAll('`', '')]
    const shown = fates.slice(0, doors.length).map((cell) => cell.replace(', checked', ''))
    expect([name, shown]).toEqual([name, doors.map((door) => row?.at[door] ?? '')])
    for (const fate of shown) expect(['', 'carried', 'mapped', 'hint', 'refused', 'dropped']).toContain(fate)
  }
  // Each of those words is explained above.
  for (const fate of ['carried', 'mapped', 'hint', 'refused', 'dropped']) expect(page).toContain(`- **${fate}**: `)
})
