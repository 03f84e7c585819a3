import { copyFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'

const installMs = 300_000

/** A folder with these packages of npm, kept among the temporary files; null: npm's registry is not reached, or has not all of them. */
export async function folderWith(packages: readonly string[]): Promise<string | null> {
  const folder = join(tmpdir(), `penstock-js-${Bun.hash(packages.join()).toString(36)}`)
  const installed = join(folder, 'installed')
  if (existsSync(installed)) return folder
  if (Bun.which('npm') === null) return null
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{"private":true}')
  const flags = ['--no-audit', '--no-fund', '--fetch-retries=1', '--fetch-timeout=10000']
  const child = Bun.spawn(['npm', 'install', ...flags, ...packages], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'ignore'],
    timeout: installMs,
  })
  if ((await child.exited) !== 0) return null
  writeFileSync(installed, '')
  return folder
}

/** What a script of `tests/sdk/javascript` prints, run by Node with the packages of the folder. */
export async function toldByNode(
  folder: string,
  script: string,
  env: Readonly<Record<string, string>>,
): Promise<unknown> {
  const path = join(folder, basename(script))
  copyFileSync(join(import.meta.dir, '../../sdk/javascript', script), path)
  const child = Bun.spawn(['node', path], { env: { PATH: process.env.PATH ?? '', ...env }, stderr: 'pipe' })
  const [out, wrong] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  if ((await child.exited) !== 0) throw new Error(wrong.slice(-2_000))
  return JSON.parse(out)
}
