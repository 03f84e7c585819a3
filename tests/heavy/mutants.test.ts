import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { allLines, changedLines, git, type WantedLines } from '../../scripts/mutants/changed-lines.ts'
import { defaults, type MutationBounds, runMutants } from '../../scripts/mutants/mutation-run.ts'
import { minuteMs } from '../../src/time.ts'
import { createSmallProject, type SmallProject } from '../support/run/small-project.ts'

const checkout = join(import.meta.dir, '../..')

let project: SmallProject
beforeAll(() => {
  project = createSmallProject({
    'src/bounds.ts': 'export const isWithin = (size: number): boolean => size < 10\n',
    'tests/bounds.test.ts': `import { expect, test } from 'bun:test'
import { isWithin } from '../src/bounds.ts'
test('within', () => expect([isWithin(3), isWithin(30)]).toEqual([true, false]))
`,
    'tests/broken.test.ts': `import { expect, test } from 'bun:test'
import { isWithin } from '../src/bounds.ts'
test('fails as it is', () => expect(isWithin(3)).toBe(false))
`,
  })
})
afterAll(() => project.remove())

async function run(root: string, lines: WantedLines, bounds: Partial<MutationBounds> = {}) {
  const [said, notes]: [string[], string[]] = [[], []]
  const survived = await runMutants({
    ...defaults,
    ...bounds,
    root,
    lines,
    signal: AbortSignal.timeout(10 * minuteMs),
    say: (line) => said.push(line),
    note: (line) => notes.push(line),
  })
  return { survived, said, notes }
}

test('what no test notices is named, what a test notices is not, and the checkout stays as it is', async () => {
  project.write({
    'src/bounds.ts': `export const isWithin = (size: number): boolean => size < 10
export function turnsTo(most: number): number {
  let turns = 0
  for (let at = 0; at < most; at++) turns += 2
  return turns
}
export function nameOf(id: number): string | null {
  return id === 0 ? null : String(id)
}
`,
    'tests/turns.test.ts': `import { expect, test } from 'bun:test'
import { turnsTo } from '../src/bounds.ts'
test('turns', () => expect(turnsTo(3)).toBe(6))
`,
  })
  const before = git(project.root, 'status', '--porcelain') + readFileSync(join(project.root, 'src/bounds.ts'), 'utf8')
  const lines = new Map([...changedLines(project.root, 'HEAD'), ['src/bounds.ts', new Set([1, 4, 8])] as const])
  const { survived, said, notes } = await run(project.root, lines)
  expect(said.slice(0, -1).toSorted()).toEqual(
    [
      'src/bounds.ts:1 10 → 11 (2 test files run it and pass)',
      'src/bounds.ts:1 < → <= (2 test files run it and pass)',
      'src/bounds.ts:8 id === 0 ? null : String(id) → null (none of the 3 nearest test files runs this line)',
      'src/bounds.ts:8 0 → 1 (none of the 3 nearest test files runs this line)',
      'src/bounds.ts:8 === → !== (none of the 3 nearest test files runs this line)',
    ].toSorted(),
  )
  expect(survived).toBe(5)
  expect(said.at(-1)).toMatch(
    /^\d+ killed, 5 survived, 0 not judged in time, \d+ edits refused by the compiler, 0 edits left out$/,
  )
  // Backwards the loop never ends.
  expect(notes.join('\n')).toMatch(
    /killed src\/bounds\.ts:4 at\+\+ → at-- by tests\/turns\.test\.ts, which did not end/,
  )
  expect(notes).toContain('tests/broken.test.ts does not pass without an edit, and is left out')
  const after = git(project.root, 'status', '--porcelain') + readFileSync(join(project.root, 'src/bounds.ts'), 'utf8')
  expect(after).toBe(before)
})

test('of this checkout, edits of the rule about changed rows are all noticed, with a database and in time', async () => {
  const lines = allLines(checkout, (file) => file === 'src/precondition.ts')
  const { survived, said } = await run(checkout, lines, { mutantsMax: 5 })
  expect(said).toHaveLength(1)
  expect(survived).toBe(0)
  expect(said[0]).toMatch(/^5 killed, 0 survived, 0 not judged/)
})

test('the command says what it needs', () => {
  const ask = (...args: readonly string[]) => {
    const { exitCode, stderr } = Bun.spawnSync([process.execPath, 'scripts/mutants.ts', ...args], { cwd: checkout })
    return [exitCode, stderr.toString().split('\n')[0]]
  }
  expect(ask()).toEqual([2, 'Name a commit with --since, or files.'])
  expect(ask('--most', '0', 'src')).toEqual([2, '--most must be a whole number of at least 1; you gave 0.'])
  expect(ask('src/absent.ts')).toEqual([2, 'src/absent.ts does not exist.'])
})
