import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { nameHooks } from '../../scripts/named-failures.ts'

const root = resolve(import.meta.dir, '../..')
const file = `import { afterAll, afterEach, beforeAll, describe, test } from 'bun:test'
afterAll(() => Promise.reject(new Error('not stopped')))
describe('begun', () => {
  beforeAll(() => Promise.reject(new Error('no server')))
  test('waits', () => {})
})
describe('ended', () => {
  afterAll(() => new Promise(() => {}))
  test('ends', () => {})
})
describe('each', () => {
  afterEach(() => {
    throw new Error('not closed')
  })
  test('closes', () => {})
})
`

async function reportOf(source: string): Promise<string[]> {
  const dir = mkdtempSync(join(tmpdir(), 'ph-hooks-'))
  try {
    writeFileSync(join(dir, 'some.test.ts'), source)
    const run = Bun.spawn([process.execPath, 'test', join(dir, 'some.test.ts')], {
      cwd: root,
      env: { ...process.env, PENSTOCK_TEST_TIMEOUT_MS: '500', NO_COLOR: '1' },
      stdout: 'ignore',
      stderr: 'pipe',
    })
    const text = await new Response(run.stderr).text()
    return text.replaceAll(dir.slice(1), '…').split('\n')
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

test('a hook that fails or does not end is reported with its kind, file and line, and its cause', async () => {
  const report = await reportOf(file)
  const failed = report.map(nameHooks()).filter((line) => line.startsWith('(fail)'))
  expect(failed.map((line) => line.replace(/ \[.*\]$/, '').replaceAll(/(?:\.\.\/)+/g, ''))).toEqual([
    '(fail) begun > beforeAll of …/some.test.ts:4',
    '(fail) ended > afterAll of …/some.test.ts:8',
    '(fail) each > closes',
    '(fail) afterAll of …/some.test.ts:2',
  ])
  const text = report.join('\n')
  for (const cause of ['no server', 'it did not end within 0.5 s', 'afterEach of', 'not closed'])
    expect(text).toContain(cause)
})
