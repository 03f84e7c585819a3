import { existsSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pythonWith } from './python.ts'

/** Installs as pip does, and gives the files of one package to all environments that have it. */
const installer = 'uv==0.13.9'
/** PyPI has torch with the libraries of CUDA: 6 GB on the disk, once for all environments. */
const diskBytesNeeded = 20 * 1024 ** 3
const installMs = 900_000

async function run(command: readonly string[]): Promise<boolean> {
  const env = { ...process.env, UV_CACHE_DIR: join(tmpdir(), 'penstock-uv'), UV_SYSTEM_CERTS: '1' }
  const child = Bun.spawn([...command], { env, stdio: ['ignore', 'ignore', 'ignore'], timeout: installMs })
  return (await child.exited) === 0
}

/**
 * A Python whose environment has packages that need torch, kept in the folder of temporary files. A string: why there is none.
 */
export async function torchPythonWith(packages: readonly string[]): Promise<{ readonly python: string } | string> {
  const home = join(tmpdir(), `penstock-torch-${Bun.hash(packages.join()).toString(36)}`)
  const python = join(home, 'bin', 'python')
  const installed = join(home, 'installed')
  if (existsSync(installed)) return { python }
  const { bavail, bsize } = statfsSync(tmpdir())
  if (bavail * bsize < diskBytesNeeded) return `${packages.join(', ')} need 20 GiB of free disk`
  const installing = await pythonWith([installer])
  if (installing === null) return `${installer} cannot be installed from PyPI`
  const uv = (...args: string[]) => run([installing, '-m', 'uv', ...args])
  const is = (await uv('venv', '-q', '--clear', home)) && (await uv('pip', 'install', '-q', '-p', python, ...packages))
  if (!is) return `${packages.join(', ')} cannot be installed from PyPI`
  await Bun.write(installed, '')
  return { python }
}
