import { describe, expect, test } from 'bun:test'
import { allLines, changedLines } from '../../scripts/mutants/changed-lines.ts'
import { chooseMutants } from '../../scripts/mutants/choose.ts'
import { Compiler } from '../../scripts/mutants/compiler.ts'
import { readLcov, runsEdit } from '../../scripts/mutants/coverage.ts'
import { shownMutant } from '../../scripts/mutants/edit.ts'
import { editsOf } from '../../scripts/mutants/edit-maker.ts'
import { Reach } from '../../scripts/mutants/reach.ts'
import { fixture } from '../support/run/fixture.ts'
import { createSmallProject } from '../support/run/small-project.ts'

/** What is edited, and what becomes of it. */
const cases: readonly (readonly [string, readonly string[]])[] = [
  ['if (a < b) take(a)', ['a < b → !(a < b)', 'a < b → false', '< → <=', 'take(a) → {}']],
  ['if (a === b) take(a); else take(b)', ['=== → !==', 'take(a); → {}', 'take(b) → {}']],
  ['take(flag ? a : b)', ['take(flag ? a : b) → {}', 'flag → !(flag)']],
  [
    'take(flag && a > b)',
    ['take(flag && a > b) → {}', '&& → ||', 'flag && a > b → flag', 'flag && a > b → a > b', '> → >='],
  ],
  ['take(maybe ?? b)', ['take(maybe ?? b) → {}', 'maybe ?? b → maybe']],
  ['take(a + b * 2)', ['take(a + b * 2) → {}', '+ → -', '* → /', '2 → 3', '2 → 0']],
  ['a += 1_000', ['a += 1_000 → {}', '+= → -=', '1_000 → 1001', '1_000 → 0']],
  ['take(big - 5n)', ['take(big - 5n) → {}', '- → +', '5n → 6n', '5n → 0n']],
  ['take(0)', ['take(0) → {}', '0 → 1']],
  ["take('word')", ["take('word') → {}", "'word' → ''"]],
  ["take('words for people', '')", ["take('words for people', '') → {}"]],
  ["take({ 'a-b': true })", ["take({ 'a-b': true }) → {}", 'true → false']],
  ['take(!flag)', ['take(!flag) → {}', '!flag → flag']],
  ['a++', ['a++ → {}', 'a++ → a--']],
  ['take(Math.min(a, b))', ['take(Math.min(a, b)) → {}', 'Math.min → Math.max']],
  ['await later(a)', ['await later(a) → {}', 'await later(a) → later(a)']],
  ['process.kill(a + 1)', ['process.kill(a + 1) → {}']],
  ['interface Shape { readonly kind: 1 }', []],
  ["import { b as c } from './given.ts'", []],
  ['const typed = a as unknown as 7', []],
  ['const f = () => a', ['a → null', 'a → undefined', 'a → false', 'a → []', 'a → true']],
]

const project = await fixture(
  createSmallProject(Object.fromEntries(cases.map(([text], at) => [`src/case-${at}.ts`, `${text}\n`]))),
)
project.write({
  'src/bounds.ts': `import type { Kind } from './kinds.ts'
import { most } from './most.ts'

export function isWithin(size: number, kind: Kind): boolean {
  if (kind === 'free') return true
  return size < most
}
`,
  'src/kinds.ts': "export type Kind = 'free' | 'bound'\n",
  'src/most.ts': 'export const most = 10\n',
  'tests/bounds.test.ts': "import { isWithin } from '../src/bounds.ts'\nisWithin(1, 'free')\n",
  'tests/support/started.ts': "import '../../src/most.ts'\n",
  'tests/program.test.ts': "Bun.spawn(['bun', 'tests/support/started.ts'])\n",
  'tests/kinds.test.ts': "import type { Kind } from '../src/kinds.ts'\nexport const kind: Kind = 'free'\n",
})
project.commit()
const compiler = await fixture(
  Compiler.open(project.root, [...cases.map((_, at) => `src/case-${at}.ts`), 'src/bounds.ts']),
)

describe('the edits of a source file', () => {
  test.each(cases.map(([text, edits], at) => [text, edits, at] as const))('%s', async (_text, edits, at) => {
    const file = `src/case-${at}.ts`
    const made = editsOf(await compiler.source(file), file, () => true)
    expect(made.flatMap(({ was, texts }) => texts.map((text) => `${was} → ${text}`))).toEqual([...edits])
  })

  test('begin on the wanted lines, and say where they are', async () => {
    const source = await compiler.source('src/bounds.ts')
    const made = editsOf(source, 'src/bounds.ts', (line) => line === 6)
    expect(made.map(({ line, was }) => [line, was])).toEqual([
      [6, 'size < most'],
      [6, 'size < most'],
      [6, '<'],
    ])
    for (const { start, end, was } of made) expect(source.text.slice(start, end)).toBe(was)
  })
})

describe('the mutants of some lines', () => {
  const choose = (mutantsMax: number, seed: number) => {
    const { root } = project
    const lines = allLines(root, (file) => file === 'src/bounds.ts')
    return chooseMutants({ root, lines, mutantsMax, seed, signal: new AbortController().signal })
  }

  test('are those that compile', async () => {
    const { mutants, refused, left } = await choose(100, 1)
    expect(mutants.map(shownMutant).toSorted()).toEqual(
      [
        'src/bounds.ts:5 === → !==',
        "src/bounds.ts:5 kind === 'free' → false",
        'src/bounds.ts:5 true → false',
        'src/bounds.ts:5 true → false',
        'src/bounds.ts:6 < → <=',
        'src/bounds.ts:6 size < most → false',
        'src/bounds.ts:6 size < most → true',
      ].toSorted(),
    )
    // A kind has no empty name.
    expect([refused, left]).toEqual([1, 0])
  })

  test('come in an order that the seed decides, as many as were asked for', async () => {
    const shown = async (most: number, seed: number) => {
      const { mutants } = await choose(most, seed)
      return mutants.map(shownMutant)
    }
    const all = await shown(100, 7)
    expect(await shown(3, 7)).toEqual(all.slice(0, 3))
    expect(await shown(100, 8)).not.toEqual(all)
  })
})

test('lines that changed since a commit, committed or not, and files that git does not know', () => {
  const change = createSmallProject({ 'src/a.ts': '1\n2\n3\n4\n', 'src/b.ts': '1\n', 'docs/c.md': '1\n' })
  try {
    change.write({ 'src/a.ts': '1\n2\nthree\n4\nfive\n', 'docs/c.md': '2\n' })
    change.commit()
    change.write({ 'src/a.ts': '1\n2\nthree\n4\nfive\nsix\n', 'src/d.ts': '1\n2' })
    expect(changedLines(change.root, 'HEAD~1')).toEqual(
      new Map([
        ['src/a.ts', new Set([3, 5, 6])],
        ['src/d.ts', new Set([1, 2])],
      ]),
    )
    expect(changedLines(change.root, 'HEAD').get('src/a.ts')).toEqual(new Set([6]))
    expect(() => changedLines(change.root, 'no-such-commit')).toThrow('no-such-commit')
  } finally {
    change.remove()
  }
})

test('a source file is reached by the tests that load it, or start a program that does', () => {
  const reach = new Reach(project.root)
  expect(reach.testsOf('src/bounds.ts')).toEqual([{ test: 'tests/bounds.test.ts', starts: false }])
  expect(reach.testsOf('src/most.ts')).toEqual([
    { test: 'tests/bounds.test.ts', starts: false },
    { test: 'tests/program.test.ts', starts: true },
  ])
  // Types are gone when the tests run.
  expect(reach.testsOf('src/kinds.ts')).toEqual([])
})

test('a test runs an edit if it runs a line of it, or else the line with code before it', () => {
  const coverage = readLcov('TN:\nSF:src/a.ts\nDA:2,5\nDA:4,0\nDA:5,1\nend_of_record\nSF:src/b.ts\nDA:1,0\n')
  const runs = (line: number, lastLine: number, file = 'src/a.ts') =>
    runsEdit(coverage, { file, line, lastLine, start: 0, end: 0, was: '', texts: [] })
  expect([runs(2, 2), runs(4, 4), runs(4, 5), runs(3, 3), runs(9, 9)]).toEqual([true, false, true, true, true])
  expect([runs(1, 1), runs(1, 1, 'src/b.ts'), runs(1, 1, 'src/c.ts')]).toEqual([false, false, false])
})
