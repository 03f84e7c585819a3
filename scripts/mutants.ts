import { existsSync } from 'node:fs'
import { relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { secondMs } from '../src/time.ts'
import { allLines, changedLines, type WantedLines } from './mutants/changed-lines.ts'
import { defaults, runMutants } from './mutants/mutation-run.ts'

/**
 * Edits the sources, one small change at a time, and looks whether a test fails: `npm run mutants -- --since REF` for the lines that
 * changed since a commit, `npm run mutants -- FILE…` for all lines of files and folders. The edits are made in a copy. Prints
 * what no test noticed, and a line of counts; the exit code is 1 if there was any such edit.
 */
const usage = `npm run mutants -- [--since REF] [FILE OR FOLDER…]
  --since REF    only lines that changed since REF
  --most N       at most so many edits (${defaults.mutantsMax})
  --seconds N    for all of them (${defaults.totalMsMax / secondMs})
  --each N       seconds for the tests of one edit (${defaults.mutantMsMax / secondMs})
  --tests N      only the nearest test files of each source file (${defaults.testsMax})
  --seed N       decides which edits are made, and their order (${defaults.seed})
`

function refuse(text: string): never {
  process.stderr.write(`${text}\n\n${usage}`)
  process.exit(2)
}

function readArguments() {
  const text = { type: 'string' } as const
  try {
    return parseArgs({
      allowPositionals: true,
      options: { since: text, most: text, seconds: text, each: text, tests: text, seed: text },
    })
  } catch (error) {
    return refuse((error as Error).message)
  }
}

function wholeNumber(name: string, value: string | undefined, otherwise: number): number {
  if (value === undefined) return otherwise
  if (!/^[1-9]\d{0,8}$/.test(value)) refuse(`--${name} must be a whole number of at least 1; you gave ${value}.`)
  return Number(value)
}

function linesOf(root: string, since: string | undefined, paths: readonly string[]): WantedLines {
  if (since === undefined && paths.length === 0) refuse('Name a commit with --since, or files.')
  const absent = paths.find((path) => !existsSync(resolve(path)))
  if (absent !== undefined) refuse(`${absent} does not exist.`)
  const wanted = paths.map((path) => relative(root, resolve(path)))
  const within = (file: string) =>
    paths.length === 0 || wanted.some((path) => path === '' || file === path || file.startsWith(`${path}/`))
  if (since === undefined) return allLines(root, within)
  return new Map([...changedLines(root, since)].filter(([file]) => within(file)))
}

const { values, positionals } = readArguments()
const root = process.cwd()
const ended = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => ended.abort())
const survived = await runMutants({
  root,
  lines: linesOf(root, values.since, positionals),
  mutantsMax: wholeNumber('most', values.most, defaults.mutantsMax),
  totalMsMax: wholeNumber('seconds', values.seconds, defaults.totalMsMax / secondMs) * secondMs,
  mutantMsMax: wholeNumber('each', values.each, defaults.mutantMsMax / secondMs) * secondMs,
  testsMax: wholeNumber('tests', values.tests, defaults.testsMax),
  seed: wholeNumber('seed', values.seed, defaults.seed),
  signal: ended.signal,
  note: (line) => process.stderr.write(`${line}\n`),
  say: (line) => process.stdout.write(`${line}\n`),
})
process.exit(survived === 0 ? 0 : 1)
