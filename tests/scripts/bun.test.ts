import { afterAll, expect } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { npmTest as test } from '../support/run/npm-test.ts'

const launcher = join(import.meta.dir, '../../scripts/bun.mjs')
const scratch = mkdtempSync(join(tmpdir(), 'penstock-launcher-'))
afterAll(() => rmSync(scratch, { recursive: true }))

/** Runs `source` under the launcher from another project's folder, whose own Bun settings would break it. */
function launch(source: string, ...args: readonly string[]) {
  const script = join(scratch, 'script.ts')
  writeFileSync(script, source)
  writeFileSync(join(scratch, '.env'), 'STRAY=1\n')
  writeFileSync(join(scratch, 'bunfig.toml'), 'preload = ["./absent.ts"]\n')
  const { BUN_CONFIG_MAX_HTTP_REQUESTS: _, ...env } = process.env
  return Bun.spawn(['node', launcher, script, ...args], { cwd: scratch, env, stdout: 'pipe' })
}

test('the launcher lifts the fetch limit, keeps folder, arguments and exit code', async () => {
  const child = launch(
    'console.log(JSON.stringify([process.env.BUN_CONFIG_MAX_HTTP_REQUESTS, process.env.STRAY ?? null, process.argv.slice(2), process.cwd() === import.meta.dir])); process.exit(7)',
    'a',
    'b c',
  )
  expect(JSON.parse(await new Response(child.stdout).text())).toEqual(['65535', null, ['a', 'b c'], true])
  expect(await child.exited).toBe(7)
})

test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
  '%s to the launcher reaches the program, whose exit code counts',
  async (signal) => {
    const child = launch(
      `process.on('${signal}', () => process.exit(9)); console.log('up'); setInterval(() => {}, 1000)`,
    )
    await child.stdout.getReader().read()
    child.kill(signal)
    expect(await child.exited).toBe(9)
  },
)

test('a program that a signal ends, ends the launcher by the same signal', async () => {
  const child = launch("process.kill(process.pid, 'SIGKILL')")
  await child.exited
  expect(child.signalCode).toBe('SIGKILL')
})
