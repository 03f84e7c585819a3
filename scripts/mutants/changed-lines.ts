import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** By file, the lines that may be edited, counted from 1. */
export type WantedLines = ReadonlyMap<string, ReadonlySet<number>>

export const isSource = (file: string) => /^src\/.*\.tsx?$/.test(file) && !file.endsWith('.d.ts')

export function git(root: string, ...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 28 })
  if (status !== 0) throw new Error(`git ${args[0]}: ${stderr.trim()}`)
  return stdout
}

const linesFrom = (from: number, count: number) => Array.from({ length: count }, (_, at) => from + at)

function wholeFile(root: string, file: string): ReadonlySet<number> {
  return new Set(linesFrom(1, readFileSync(join(root, file), 'utf8').split('\n').length))
}

/** What a commit, the index and the working tree changed since `ref`, and files that git does not know yet. */
export function changedLines(root: string, ref: string): WantedLines {
  const lines = new Map<string, Set<number>>()
  let file = ''
  const diff = git(
    root,
    'diff',
    '--unified=0',
    '--no-color',
    '--no-ext-diff',
    '--src-prefix=a/',
    '--dst-prefix=b/',
    ref,
  )
  for (const line of diff.split('\n')) {
    const [, name] = /^\+\+\+ b\/(.+)$/.exec(line) ?? []
    if (name !== undefined) file = name
    const [, from, count = '1'] = /^@@ -\S+ \+(\d+)(?:,(\d+))? @@/.exec(line) ?? []
    if (from === undefined || !isSource(file)) continue
    const known = lines.get(file) ?? new Set()
    for (const one of linesFrom(Number(from), Number(count))) known.add(one)
    lines.set(file, known)
  }
  const unknown = git(root, 'ls-files', '--others', '--exclude-standard', 'src').split('\n').filter(isSource)
  return new Map([...lines, ...unknown.map((name) => [name, wholeFile(root, name)] as const)])
}

/** All lines of the sources in these files and folders. */
export function allLines(root: string, within: (file: string) => boolean): WantedLines {
  const files = [...new Bun.Glob('src/**/*.{ts,tsx}').scanSync({ cwd: root })].filter(isSource).sort()
  return new Map(files.filter(within).map((file) => [file, wholeFile(root, file)]))
}
