import { afterAll, expect, test } from 'bun:test'
import { chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { testServerVariable } from '../support/run/postgres.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const scratch = mkdtempSync(join(tmpdir(), 'ph-'))
// As root the server runs as another user, who must reach its folder.
chmodSync(scratch, 0o755)
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

test.each([
  ['in one process', []],
  ['in two', ['--parallel=2']],
])('bun test by hand, %s: one server for the run, which ends with it', async (_, how) => {
  const {
    [testServerVariable]: _url,
    PENSTOCK_TEST_TIMEOUT_MS: _limit,
    BUN_TEST_WORKER_ID: _worker,
    ...env
  } = process.env
  const files = ['tests/db/pool.test.ts', 'tests/db/functions.test.ts']
  const run = Bun.spawn([process.execPath, 'test', ...how, ...files], {
    cwd: resolve(import.meta.dir, '../..'),
    env: { ...env, TMPDIR: scratch },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  let servers = 0
  const watch = setInterval(() => (servers = Math.max(servers, readdirSync(scratch).length)), 20)
  const [output, code] = await Promise.all([new Response(run.stderr).text(), run.exited])
  clearInterval(watch)
  expect(output).toMatch(/^ 0 fail$/m)
  expect([code, servers]).toEqual([0, 1])
  await waitUntil('the end of the server', () => readdirSync(scratch).length === 0)
})

test('npm run test:heavy runs the files that are named and no others', async () => {
  const {
    [testServerVariable]: _url,
    PENSTOCK_TEST_TIMEOUT_MS: _limit,
    BUN_TEST_WORKER_ID: _worker,
    ...env
  } = process.env
  const root = resolve(import.meta.dir, '../..')
  const { scripts } = (await Bun.file(join(root, 'package.json')).json()) as { scripts: Record<string, string> }
  const [, ...words] = (scripts['test:heavy'] ?? '').split('scripts/bun.mjs ')
  const command = [process.execPath, ...words.join('').split(' '), 'tests/db/pool.test.ts']
  const run = Bun.spawn(command, { cwd: root, env: { ...env, TMPDIR: scratch }, stdout: 'pipe', stderr: 'pipe' })
  const [output, errors] = await Promise.all([new Response(run.stdout).text(), new Response(run.stderr).text()])
  expect(errors).toContain('across 1 file')
  expect(output).toMatch(/^[1-9][0-9]* passed, 0 failed$/m)
})
