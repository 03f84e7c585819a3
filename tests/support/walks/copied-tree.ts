import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const root = join(import.meta.dir, '../../..')
const parts = ['src', 'tests/support', 'scripts', 'bench', 'docs', 'ops', 'contracts', 'package.json', 'tsconfig.json']

/** A definition of `src/actions` that a test adds: its file, and its lines in the registry. */
export interface Added {
  /** Below `src/actions`. */
  readonly path: string
  readonly text: string
  readonly lines: readonly [imported: string, row: string]
}

/** What `walk`, a script of this folder, prints in a copy of the tree to which `added` was added. */
export async function walked(added: Added, walk: string): Promise<Readonly<Record<string, unknown>>> {
  const copy = mkdtempSync(join(tmpdir(), 'penstock-walk-'))
  try {
    for (const name of parts) cpSync(join(root, name), join(copy, name), { recursive: true })
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
    writeFileSync(join(copy, 'src/actions', added.path), added.text)
    const registry = join(copy, 'src/actions/registry.ts')
    const [imported, row] = added.lines
    const text = readFileSync(registry, 'utf8')
    writeFileSync(registry, `${imported}\n${text.replace('const registry = [\n', `const registry = [\n${row}\n`)}`)
    const child = Bun.spawn([process.execPath, `tests/support/walks/${walk}`], {
      cwd: copy,
      stdout: 'pipe',
      stderr: 'inherit',
    })
    return JSON.parse(await new Response(child.stdout).text()) as Readonly<Record<string, unknown>>
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

/** Lines and files of a kind, as CONTRIBUTING.md counts them. */
export function countsOf(kind: string): readonly string[] {
  const rows = readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8').split('\n')
  const [row = ''] = rows.filter((line) => line.startsWith(`| ${kind}`))
  return row.split(' | ').slice(1, 3)
}

export const linesOf = ({ text, lines }: Added): string => String(text.trimEnd().split('\n').length + lines.length)
