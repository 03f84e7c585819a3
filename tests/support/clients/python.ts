import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A resolver that finds nothing that fits tries for ever; the largest of them takes five minutes on two busy cores. */
const installMs = 600_000

async function run(command: readonly string[]): Promise<boolean> {
  const child = Bun.spawn([...command], { stdio: ['ignore', 'ignore', 'ignore'], timeout: installMs })
  return (await child.exited) === 0
}

/** A Python in an environment that has these packages, kept in the folder of temporary files; null: PyPI is not reached, or has not all of them. */
export async function pythonWith(packages: readonly string[]): Promise<string | null> {
  const home = join(tmpdir(), `penstock-py-${Bun.hash(packages.join()).toString(36)}`)
  const python = join(home, 'bin', 'python')
  const installed = join(home, 'installed')
  if (existsSync(installed)) return python
  if (Bun.which('python3') === null || !(await run(['python3', '-m', 'venv', home]))) return null
  const pip = [python, '-m', 'pip', 'install', '-q', '--timeout', '10', '--retries', '1']
  if (!(await run([...pip, ...packages]))) return null
  await Bun.write(installed, '')
  return python
}

/** What a script of `tests/sdk/python` prints. */
export async function told(python: string, script: string, env: Readonly<Record<string, string>>): Promise<unknown> {
  const path = join(import.meta.dir, '../../sdk/python', script)
  const child = Bun.spawn([python, path], { env: { PATH: process.env.PATH ?? '', ...env }, stderr: 'pipe' })
  const [out, wrong] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  if ((await child.exited) !== 0) throw new Error(wrong.slice(-2_000))
  return JSON.parse(out)
}
