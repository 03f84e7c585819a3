import { afterAll, expect, test } from 'bun:test'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { waitFor } from '../support/gateways/gateway.ts'
import { isAlive, processesOf } from '../support/gateways/npm-start.ts'

/*
 * The PostgreSQL of a gateway that was killed waits for the next gateway. Where nobody started one, it ran for ever: hours
 * old ones were found.
 */

const child = join(import.meta.dir, '../support/run/embedded-child.ts')
const scratch = mkdtempSync(join(tmpdir(), 'po-'))
chmodSync(scratch, 0o755)
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

const graceSeconds = 3
/** In which the next gateway has to come, also on a busy machine. */
const takenSeconds = 15

interface Supervisor {
  readonly pid: number
  readonly report: { readonly events?: readonly string[]; readonly error?: string }
  end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void>
}

async function supervise(dataDir: string, grace = graceSeconds): Promise<Supervisor> {
  const run = Bun.spawn([process.execPath, child, dataDir, String(grace)], { stdio: ['ignore', 'pipe', 'inherit'] })
  const reader = run.stdout.getReader()
  let text = ''
  while (!text.includes('\n')) {
    const { value, done } = await reader.read()
    if (done) break
    text += Buffer.from(value).toString()
  }
  return {
    pid: run.pid,
    report: JSON.parse(text) as Supervisor['report'],
    end: async (signal) => {
      run.kill(signal)
      await run.exited
    },
  }
}

const postmaster = (dataDir: string) => processesOf(dataDir).postmaster

/** Keepers of this folder: by their environment, which names it. */
function keepersOf(dataDir: string): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && isAlive(pid))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`WORD_FILE=${dataDir}/`)
      } catch {
        return false
      }
    })
}

test('kill -9 of the gateway and nobody after it: PostgreSQL ends by itself, and so does who ended it', async () => {
  const dataDir = join(scratch, 'left')
  const gateway = await supervise(dataDir)
  const pid = postmaster(dataDir) ?? 0
  expect(isAlive(pid)).toBe(true)
  expect(keepersOf(dataDir)).toHaveLength(1)
  await gateway.end('SIGKILL')
  expect(isAlive(pid)).toBe(true)
  await waitFor('PostgreSQL to end', () => !isAlive(pid))
  await waitFor('its keeper to end', () => keepersOf(dataDir).length === 0)
  // An orderly end: nothing to recover from.
  expect(readFileSync(join(dataDir, 'postgres.log'), 'utf8')).toContain('database system is shut down')
  const next = await supervise(dataDir)
  expect(next.report.events).toContain('embedded_database_ready started')
  await next.end('SIGTERM')
  await waitFor('its keeper to end', () => keepersOf(dataDir).length === 0)
})

test('a gateway that comes back in time takes it over, and it stays as long as that one', async () => {
  const dataDir = join(scratch, 'taken')
  const first = await supervise(dataDir, takenSeconds)
  const pid = postmaster(dataDir) ?? 0
  await first.end('SIGKILL')
  const second = await supervise(dataDir)
  expect(second.report.events).toContain('embedded_database_ready reused')
  // The keeper of the first ends without having ended anything.
  await waitFor('one keeper', () => keepersOf(dataDir).length === 1)
  expect([postmaster(dataDir), isAlive(pid)]).toEqual([pid, true])
  await second.end('SIGKILL')
  await waitFor('PostgreSQL to end', () => !isAlive(pid))
})

test('a database that its gateway had to start again is kept as well', async () => {
  const dataDir = join(scratch, 'again')
  const gateway = await supervise(dataDir)
  const pid = postmaster(dataDir) ?? 0
  process.kill(pid, 'SIGKILL')
  const later = await waitFor('the next one', () => {
    const found = postmaster(dataDir)
    return found === pid ? null : found
  })
  await gateway.end('SIGKILL')
  await waitFor('PostgreSQL to end', () => !isAlive(later))
})

test('an orderly end leaves neither PostgreSQL nor a keeper', async () => {
  const dataDir = join(scratch, 'orderly')
  const gateway = await supervise(dataDir, 60)
  const pid = postmaster(dataDir) ?? 0
  await gateway.end('SIGTERM')
  // A process that has ended is there until its parent has noticed.
  await waitFor('its PostgreSQL to be gone', () => !isAlive(pid))
  await waitFor('its keeper to end', () => keepersOf(dataDir).length === 0)
})
