import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

const scripts = join(import.meta.dir, '../../../scripts')
const launcher = ['bun.mjs', 'install.mjs', 'patches.mjs', 'run.mjs']
/** What the launcher hands down to npm must not come from the npm that runs these tests. */
const plain = { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '/' }

const patch = `diff --git a/index.js b/index.js
--- a/index.js
+++ b/index.js
@@ -1,3 +1,4 @@
 // first
-module.exports = 'broken'
+// why
+module.exports = 'whole'
 // last
`

/** A checkout with this one's launcher and packages of some hundred bytes, which npm installs without any registry. */
export interface SmallCheckout {
  readonly root: string
  /** Runs a program of it that prints `ran`; its output, and 0 unless it failed. */
  launch(
    script: string,
    env?: Readonly<Record<string, string>>,
  ): Promise<{ readonly code: number; readonly text: string }>
  npm(...args: readonly string[]): Promise<void>
  has(packageName: string): boolean
  /** A file of an installed package. */
  read(path: string): string
  remove(): void
}

async function run(command: readonly string[], cwd: string, env: Readonly<Record<string, string>>) {
  const child = Bun.spawn([...command], { cwd, env, stdout: 'pipe', stderr: 'pipe' })
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { code, text: out + err }
}

function write(file: string, content: string, mode = 0o644): void {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, content, { mode })
}

/** A package of one file as the tarball that npm reads. */
async function pack(root: string, name: string, files: Readonly<Record<string, string>>): Promise<string> {
  const folder = join(root, 'sources', name.replace('/', '-'))
  write(join(folder, 'package/package.json'), JSON.stringify({ name, version: '1.0.0' }))
  for (const [path, content] of Object.entries(files)) write(join(folder, 'package', path), content, 0o755)
  await run(['tar', '-czf', `${folder}.tgz`, '-C', folder, 'package'], root, plain)
  return `file:${folder}.tgz`
}

async function npmIn(root: string, args: readonly string[]): Promise<void> {
  const { code, text } = await run(['npm', ...args, '--no-audit', '--no-fund', '--offline'], root, plain)
  if (code !== 0) throw new Error(text)
}

/** Written once; its packages stay beside it, since the lock file names their place. */
async function template(): Promise<string> {
  const made = mkdtempSync(join(tmpdir(), 'penstock-packages-'))
  const root = join(made, 'checkout')
  for (const name of launcher) cpSync(join(scripts, name), join(root, 'scripts', name))
  write(join(root, 'patches/running@1.0.0.patch'), patch)
  for (const script of ['src/main.ts', 'scripts/test.ts']) write(join(root, script), "console.log('ran')\n")
  const code = { 'index.js': "// first\nmodule.exports = 'broken'\n// last\n" }
  const bun = { 'bin/bun': `#!/bin/sh\nexec '${process.execPath}' "$@"\n` }
  const manifest = {
    name: 'small',
    version: '1.0.0',
    dependencies: { running: await pack(made, 'running', code) },
    peerDependencies: { settling: await pack(made, 'settling', code) },
    devDependencies: { testing: await pack(made, 'testing', code) },
    optionalDependencies: { '@oven/bun-here': await pack(made, '@oven/bun-here', bun) },
  }
  write(join(root, 'package.json'), JSON.stringify(manifest))
  await npmIn(root, ['install', '--package-lock-only'])
  return root
}

let first: Promise<string> | null = null

/** The packages of all checkouts: after the last one. */
export async function removePackages(): Promise<void> {
  if (first !== null) rmSync(dirname(await first), { recursive: true, force: true })
}

export async function smallCheckout(): Promise<SmallCheckout> {
  first ??= template()
  const root = mkdtempSync(join(tmpdir(), 'penstock-small-'))
  cpSync(await first, root, { recursive: true })
  const installed = (path: string) => join(root, 'node_modules', path)
  return {
    root,
    launch: (script, env = {}) => run(['node', join(root, 'scripts/bun.mjs'), script], root, { ...plain, ...env }),
    npm: (...args) => npmIn(root, args),
    has: (name) => existsSync(installed(join(name, 'package.json'))),
    read: (path) => readFileSync(installed(path), 'utf8'),
    remove: () => rmSync(root, { recursive: true, force: true }),
  }
}
