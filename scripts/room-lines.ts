import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

/**
 * Counts files and lines of each part of `src`, now and at an older commit, into `docs/architecture.md`. Usage:
 * `node scripts/bun.mjs scripts/room-lines.ts COMMIT`.
 */
const root = resolve(import.meta.dir, '..')
const document = join(root, 'docs', 'architecture.md')
const begin = '<!-- lines of parts -->\n'
const end = '<!-- end of lines of parts -->'

interface Size {
  files: number
  lines: number
}

function git(...command: readonly string[]): string {
  const { stdout, stderr, success } = Bun.spawnSync(['git', ...command], { cwd: root })
  if (!success) throw new Error(stderr.toString())
  return stdout.toString()
}

/** Without `commit`: as the files are now. */
function sizes(commit?: string): ReadonlyMap<string, Size> {
  const sources = ['--', 'src/*.ts', 'src/*.tsx']
  const counted = git('grep', '-c', ...(commit === undefined ? ['--untracked', ''] : ['', commit]), ...sources)
  const parts = new Map<string, Size>()
  for (const line of counted.trim().split('\n')) {
    const [count = '0', path = ''] = line.split(':').toReversed()
    const [, part = '', file] = path.split('/')
    const name = file === undefined ? 'src' : `src/${part}`
    const { files, lines } = parts.get(name) ?? { files: 0, lines: 0 }
    parts.set(name, { files: files + 1, lines: lines + Number(count) })
  }
  return parts
}

const sumOf = (parts: ReadonlyMap<string, Size>) =>
  [...parts.values()].reduce((sum, { files, lines }) => ({ files: sum.files + files, lines: sum.lines + lines }), {
    files: 0,
    lines: 0,
  })

function table(commit: string): string {
  const before = sizes(commit)
  const now = sizes()
  const shown = (count: number | undefined) => (count === undefined ? '–' : count.toLocaleString('en'))
  const row = (name: string, then?: Size, at?: Size) =>
    `| ${[name, shown(then?.files), shown(then?.lines), shown(at?.files), shown(at?.lines)].join(' | ')} |`
  const names = [...new Set([...before.keys(), ...now.keys()])].sort()
  const date = (of: string) => git('log', '-1', '--format=%cs', of).trim()
  return [
    `| Part | Files at \`${commit}\` (${date(commit)}) | Lines | Files on ${date('HEAD')} | Lines |`,
    '| --- | ---: | ---: | ---: | ---: |',
    ...names.map((name) => row(`\`${name}\``, before.get(name), now.get(name))),
    row('all', sumOf(before), sumOf(now)),
  ].join('\n')
}

const [commit] = process.argv.slice(2)
if (commit === undefined) throw new Error('Usage: node scripts/bun.mjs scripts/room-lines.ts COMMIT')
const text = readFileSync(document, 'utf8')
const [from, to] = [text.indexOf(begin), text.indexOf(end)]
if (from < 0 || to < from) throw new Error(`${document} has no place for the table`)
writeFileSync(document, `${text.slice(0, from + begin.length)}${table(commit)}\n${text.slice(to)}`)
