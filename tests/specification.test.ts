import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Code, tests and documents cite clauses of docs/specification.md: "§8", "§§6, 8", "specification, mixture rule 1",
 * "endpoint 7". Every such reference must lead to a clause that is there, and so must every `decisions/NNNN`.
 */
const root = join(import.meta.dir, '..')
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const specification = read('docs/specification.md')
const decisions = readdirSync(join(root, 'docs/decisions')).map((name) => name.slice(0, 4))

/** Heading without its marks → what stands below it, up to the next heading of any level. */
const clauses = new Map(
  [...specification.matchAll(/^#+ (.+)\n([\s\S]*?)(?=^#+ |$(?![\s\S]))/gm)].map(([, heading = '', text = '']) => [
    heading.toLowerCase(),
    text,
  ]),
)
/** Section number → its text. */
const sections = new Map(
  [...clauses].flatMap(([heading, text]) => {
    const number = /^(\d+)\. /.exec(heading)?.[1]
    return number === undefined ? [] : [[Number(number), text] as const]
  }),
)

/** `6, 8`, `1–3` and `2 and 3` as numbers. */
function numbersOf(list: string): readonly number[] {
  return list.split(/,| and /).flatMap((part) => {
    const [from = 0, to = from] = part.split('–').map(Number)
    return Array.from({ length: to - from + 1 }, (_, at) => from + at)
  })
}

const hasItem = (clause: string, number: string) =>
  new RegExp(`^${number}\\. `, 'm').test(clauses.get(clause.trim()) ?? '')

/** `RFC 4648 §5` and any number with a dot (§5.3) belong to an RFC, and `§4 b` is paragraph (b) of §4. */
const oneSection = /(?<!§|RFC \d+ )§ ?(\d+)(?!\d|\.\d)(?: ([b-h])\b)?/g
const severalSections = /§§ ?(\d+(?:(?:, ?|–| and )\d+)*)/g
const rule = /specification, ([a-z][a-z ]*) rules? (\d+)/g
const purpose = /specification, (\d+)\b/g
const endpoint = /\bendpoints? (\d+)(?! of)\b/gi
const decision = /decisions\/(\d{4})/g

/** The references of a text that lead nowhere, as they stand in it. */
function dangling(text: string): readonly string[] {
  const absent = (pattern: RegExp, leads: (...groups: readonly string[]) => boolean) =>
    [...text.matchAll(pattern)].filter(([, ...groups]) => !leads(...groups)).map(([whole]) => whole)
  return [
    ...absent(oneSection, (number = '', paragraph) => {
      const section = sections.get(Number(number))
      return section !== undefined && (paragraph === undefined || section.includes(`(${paragraph})`))
    }),
    ...absent(severalSections, (list = '') => numbersOf(list).every((number) => sections.has(number))),
    ...absent(rule, (name = '', number = '') => hasItem(`${name} rules`, number)),
    ...absent(purpose, (number = '') => hasItem('purpose', number)),
    ...absent(endpoint, (number = '') => clauses.get('endpoints')?.includes(`\n| ${number} | `) ?? false),
    ...absent(decision, (number = '') => decisions.includes(number)),
  ]
}

const files = [
  ...new Bun.Glob('{src,tests,bench,docs,scripts,ops}/**/*.{ts,tsx,mjs,sql,md,sh,yaml,html}').scanSync({ cwd: root }),
  ...new Bun.Glob('*.md').scanSync({ cwd: root }),
]
  .filter((file) => file !== 'tests/specification.test.ts')
  .sort()

test('the sections of the specification stand in the order of their numbers, each once', () => {
  const numbers = [...specification.matchAll(/^## (\d+)\. /gm)].map(([, number]) => Number(number))
  expect(numbers.length).toBeGreaterThan(26)
  expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b))
})

test('every reference to the specification and to a decision leads to a clause that is there', () => {
  expect(files.length).toBeGreaterThan(500)
  const found = files.flatMap((file) => dangling(read(file)).map((reference) => `${file}: ${reference}`))
  expect(found).toEqual([])
})

test('the check itself finds each kind of reference that leads nowhere', () => {
  const none = [
    '§8',
    '§§6, 8',
    '§§1–3',
    '§4 b',
    'RFC 9110 §5.3',
    'RFC 9110 §99',
    '§21, 3',
    'specification, mixture rule 1',
    'specification, 6',
    'Endpoints 11 and 12',
  ]
  expect(none.flatMap(dangling)).toEqual([])
  const all = [
    '§99',
    '§§6, 98',
    '§§97–98',
    '§1 h',
    'specification, mixture rule 99',
    'specification, sandwich rule 1',
    'specification, 99',
    'endpoint 22',
    'docs/decisions/9999',
  ]
  expect(all.filter((reference) => dangling(reference).length !== 1)).toEqual([])
})
