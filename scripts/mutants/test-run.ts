import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from '../../src/db/client.ts'
import { testServerVariable } from '../../tests/support/run/postgres.ts'

export interface TestRunner {
  /** The copy whose tests run. */
  readonly folder: string
  /** For what tests write. */
  readonly scratch: string
  readonly databaseUrl: string
  /** Ends what runs. */
  readonly signal: AbortSignal
}

export type TestOutcome = 'passed' | 'failed' | 'late'

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    // A test that is cut short leaves servers and browsers.
    process.kill(-pid, 'SIGKILL')
  } catch {
    // All of them have ended.
  }
}

/** Runs one test file until its first failure, at most for so long. */
export async function runTest(
  { folder, scratch, databaseUrl, signal }: TestRunner,
  test: string,
  options: { readonly limitMs: number; readonly coverageFolder?: string },
): Promise<TestOutcome> {
  const { limitMs, coverageFolder } = options
  const coverage =
    coverageFolder === undefined ? [] : ['--coverage', '--coverage-reporter=lcov', `--coverage-dir=${coverageFolder}`]
  const written = mkdtempSync(join(scratch, 't-'))
  const child = spawn(process.execPath, ['test', '--bail=1', ...coverage, `./${test}`], {
    cwd: folder,
    stdio: 'ignore',
    detached: true,
    env: { ...process.env, [testServerVariable]: databaseUrl, TMPDIR: written },
  })
  let isLate = false
  const end = () => {
    isLate = true
    endGroup(child.pid)
  }
  const timer = setTimeout(end, limitMs)
  signal.addEventListener('abort', end)
  if (signal.aborted) end()
  try {
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', resolve)
    })
    return isLate ? 'late' : code === 0 ? 'passed' : 'failed'
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', end)
    endGroup(child.pid)
    rmSync(written, { recursive: true, force: true })
  }
}

/** Databases that tests have left which were cut short. */
export async function dropLeftDatabases(databaseUrl: string): Promise<void> {
  const sql = connect(databaseUrl, { max: 1 })
  try {
    const left = await sql<{ name: string }[]>`
      select datname as name from pg_database where datname not like 'template%' and datname <> current_database()`
    for (const { name } of left) await sql`drop database if exists ${sql(name)} with (force)`
  } finally {
    await sql.end()
  }
}
