import { afterAll, expect } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bunSettingLines, bunSettings } from '../../src/host/bun-settings.ts'
import { npmTest as test } from '../support/run/npm-test.ts'

const launcher = join(import.meta.dir, '../../scripts/bun.mjs')
const scratch = mkdtempSync(join(tmpdir(), 'penstock-launcher-'))
afterAll(() => rmSync(scratch, { recursive: true }))

function writeScript(source: string): string {
  const script = join(scratch, 'script.ts')
  writeFileSync(script, source)
  return script
}

/** Runs `source` under the launcher from another project's folder, whose own Bun settings would break it. */
function launch(source: string, ...args: readonly string[]) {
  const script = writeScript(source)
  writeFileSync(join(scratch, '.env'), 'STRAY=1\n')
  writeFileSync(join(scratch, 'bunfig.toml'), 'preload = ["./absent.ts"]\n')
  const { BUN_CONFIG_MAX_HTTP_REQUESTS: _, MIMALLOC_PURGE_HOLES_MIN_INTERVAL: __, ...env } = process.env
  return Bun.spawn(['node', launcher, script, ...args], { cwd: scratch, env, stdout: 'pipe' })
}

test('the launcher sets what Bun reads before it starts, keeps folder, arguments and exit code', async () => {
  const child = launch(
    'const { BUN_CONFIG_MAX_HTTP_REQUESTS, MIMALLOC_PURGE_HOLES_MIN_INTERVAL, STRAY = null } = process.env; console.log(JSON.stringify([{ BUN_CONFIG_MAX_HTTP_REQUESTS, MIMALLOC_PURGE_HOLES_MIN_INTERVAL }, STRAY, process.argv.slice(2), process.cwd() === import.meta.dir])); process.exit(7)',
    'a',
    'b c',
  )
  expect(JSON.parse(await new Response(child.stdout).text())).toEqual([bunSettings, null, ['a', 'b c'], true])
  expect(await child.exited).toBe(7)
})

test('what is set already stays as it is, and the image sets the same as the launcher', async () => {
  const set = { MIMALLOC_PURGE_HOLES_MIN_INTERVAL: '77' }
  const source = 'console.log(process.env.MIMALLOC_PURGE_HOLES_MIN_INTERVAL)'
  const child = Bun.spawn(['node', launcher, writeScript(source)], {
    cwd: scratch,
    env: { ...process.env, ...set },
    stdout: 'pipe',
  })
  expect(await new Response(child.stdout).text()).toBe('77\n')
  const image = readFileSync(join(import.meta.dir, '../../ops/Dockerfile'), 'utf8')
  for (const line of bunSettingLines) expect(image).toContain(` ${line}`)
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
