import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

const packages = join(import.meta.dir, '../../../node_modules')
const compilerOptions = {
  target: 'ESNext',
  module: 'Preserve',
  moduleResolution: 'bundler',
  types: [],
  strict: true,
  noUnusedLocals: true,
  allowImportingTsExtensions: true,
  skipLibCheck: true,
  noEmit: true,
}

/** A checkout of a few files, with a history of its own and this one's packages. */
export interface SmallProject {
  readonly root: string
  write(files: Readonly<Record<string, string>>): void
  commit(): void
  remove(): void
}

export function createSmallProject(files: Readonly<Record<string, string>>): SmallProject {
  const root = mkdtempSync(join(tmpdir(), 'small-project-'))
  const git = (...args: readonly string[]) => {
    const identity = ['-c', 'user.name=test', '-c', 'user.email=test@localhost', '-c', 'commit.gpgsign=false']
    const { status, stderr } = spawnSync('git', [...identity, ...args], { cwd: root, encoding: 'utf8' })
    if (status !== 0) throw new Error(stderr)
  }
  const write: SmallProject['write'] = (some) => {
    for (const [name, text] of Object.entries(some)) {
      mkdirSync(dirname(join(root, name)), { recursive: true })
      writeFileSync(join(root, name), text)
    }
  }
  const commit = () => {
    git('add', '--all')
    git('commit', '--quiet', '--message', 'as it is')
  }
  write({
    '.gitignore': 'node_modules\n',
    'tsconfig.json': JSON.stringify({ compilerOptions, include: ['src'] }),
    ...files,
  })
  symlinkSync(packages, join(root, 'node_modules'))
  git('init', '--quiet')
  commit()
  return { root, write, commit, remove: () => rmSync(root, { recursive: true, force: true }) }
}
