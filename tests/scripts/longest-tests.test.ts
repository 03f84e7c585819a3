import { afterAll, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { writeOrder } from '../../scripts/test-order.ts'
import { files } from '../support/run/longest-tests.json'

const scratch = mkdtempSync(join(tmpdir(), 'penstock-order-'))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

test('the files that begin first are there', () => {
  const names = Object.keys(files)
  expect(names.length).toBeGreaterThan(0)
  expect(names.filter((name) => !existsSync(join(import.meta.dir, '../..', name)))).toEqual([])
})

test('each process begins with the files that take longest, and not with those that nobody measured', async () => {
  const names = ['a', 'b', 'c', 'd', 'e', 'f'].map((letter) => `${letter}.test.ts`)
  const ran = join(scratch, 'ran')
  // The first file of one process waits for that of the other one.
  const source = `import { appendFileSync, readFileSync } from 'node:fs'
import { test } from 'bun:test'
import { waitUntil } from ${JSON.stringify(join(import.meta.dir, '../support/run/wait-until.ts'))}
test('', async () => {
  appendFileSync(${JSON.stringify(ran)}, import.meta.file + '\\n')
  await waitUntil('the other process', () => readFileSync(${JSON.stringify(ran)}, 'utf8').split('\\n').length > 2)
})
`
  for (const name of names) writeFileSync(join(scratch, name), source)
  const order = writeOrder(scratch, names, { 'b.test.ts': 2_000, 'f.test.ts': 3_000 })
  const command = ['test', '--parallel=2', '--no-isolate', `--timings=${order}`, ...names.map((name) => `./${name}`)]
  const { BUN_TEST_WORKER_ID: _worker, ...env } = process.env
  const run = Bun.spawn([process.execPath, ...command], { cwd: scratch, env, stdio: ['ignore', 'ignore', 'pipe'] })
  expect(await new Response(run.stderr).text()).toMatch(/^ 6 pass$/m)
  expect(readFileSync(ran, 'utf8').split('\n').slice(0, 2).sort()).toEqual(['b.test.ts', 'f.test.ts'])
})
