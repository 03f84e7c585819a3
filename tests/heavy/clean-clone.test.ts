import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { freePort } from '../support/gateways/free-port.ts'
import { waitFor } from '../support/gateways/gateway.ts'
import { isAlive, type NpmStart, npmStart, processesOf } from '../support/gateways/npm-start.ts'

const installedMbMax = 300
const installWithinMs = 540_000
const bytesPerMb = 1024 * 1024
const root = resolve(import.meta.dir, '../..')
/** All that a machine needs before: no Bun, which must come with the packages. */
const programs = ['node', 'npm', 'sh', 'git', 'env']

let folder: string
let checkout: string
let started: NpmStart | null = null
let env: Record<string, string>
beforeAll(async () => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'penstock-clone-')))
  checkout = join(folder, 'penstock')
  const bin = join(folder, 'bin')
  mkdirSync(bin)
  for (const name of programs) symlinkSync(Bun.which(name) ?? '/absent', join(bin, name))
  const cloned = Bun.spawnSync(['git', 'clone', '--quiet', root, checkout], { stderr: 'inherit' })
  expect(cloned.exitCode).toBe(0)
  env = { PATH: bin, SVC_PORT: String(freePort()), SVC_DISCOVER: 'false' }
})
afterAll(async () => {
  started?.kill('SIGTERM')
  await started?.exited
  const database = join(checkout, '.data/postgres')
  if (existsSync(database)) rmSync(realpathSync(database), { recursive: true, force: true })
  rmSync(folder, { recursive: true, force: true })
})

/** Files on the disk, those with two names once. */
function bytesIn(path: string, seen = new Set<number>()): number {
  const { ino, size, blocks } = lstatSync(path)
  const own = seen.has(ino) ? 0 : Math.max(size, blocks * 512)
  seen.add(ino)
  if (!lstatSync(path).isDirectory()) return own
  return readdirSync(path).reduce((sum, name) => sum + bytesIn(join(path, name), seen), own)
}

const isInstalled = (name: string) => existsSync(join(checkout, 'node_modules', name))
const answers = async () => (await fetch(`http://127.0.0.1:${env.SVC_PORT}/healthz`)).status

test('a clean clone starts without Bun, small, and a test installs the rest under the running gateway', async () => {
  const beganMs = performance.now()
  const gateway = npmStart(env, { checkout, withinMs: installWithinMs })
  started = gateway
  await gateway.ready()
  const seconds = (performance.now() - beganMs) / 1_000
  const installedMb = Math.round(bytesIn(join(checkout, 'node_modules')) / bytesPerMb)
  console.log(`a clean clone was ready after ${seconds.toFixed(0)} s with ${installedMb} MB of packages`)
  expect(await answers()).toBe(200)
  expect(installedMb).toBeLessThanOrEqual(installedMbMax)
  expect(['typescript', 'viem', 'openai'].filter(isInstalled)).toEqual([])

  const { gateway: pid } = processesOf(join(checkout, '.data'))
  const tests = Bun.spawn(['npm', 'test', '--', 'tests/machines/rules'], {
    cwd: checkout,
    env: { ...env, HOME: process.env.HOME ?? '/', NODE_ENV: 'production' },
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const seen = await new Response(tests.stdout).text()
  expect(await tests.exited, seen).toBe(0)
  expect(isInstalled('typescript')).toBe(true)
  expect(await answers()).toBe(200)
  expect(isAlive(pid ?? 0)).toBe(true)
  gateway.kill('SIGTERM')
  await gateway.exited
  await waitFor('the end', () => processesOf(join(checkout, '.data')).gateway === null)
})
