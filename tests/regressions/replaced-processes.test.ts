import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { connect } from '../../src/db/client.ts'
import { migrations } from '../../src/db/migrate.ts'
import { createLog } from '../../src/log.ts'
import { Cleanup } from '../../src/processes/cleanup.ts'
import { type ProcessGateway, startProcesses } from '../support/gateways/processes.ts'
import { testLimitMs } from '../support/run/limits.ts'
import { settled, waitUntil } from '../support/run/wait-until.ts'

let several: ProcessGateway
beforeAll(async () => {
  several = await startProcesses()
}, testLimitMs)
afterAll(() => several.gateway.stop())

/** The gateway's processes that run, whatever the supervisor knows of them. */
function processes(): number[] {
  const children = readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, 'utf8').split(' ').filter(Boolean)
  return children.map(Number).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, 'utf8').includes('PENSTOCK_PROCESS=')
    } catch {
      return false
    }
  })
}
/** Starts the replacement; the new process, which starts. */
async function replaceBegun(): Promise<{ readonly fresh: number; readonly replaced: Promise<void> }> {
  const before = processes()
  const replaced = several.server.replace?.() ?? Promise.resolve()
  let fresh: number | undefined
  await waitUntil('the new process', () => {
    fresh = processes().find((pid) => !before.includes(pid))
    return fresh !== undefined
  })
  return { fresh: fresh as number, replaced }
}

const makes = (table: string) => (text: string) => text.includes(`CREATE TABLE ${table} `)

/** What takes back that which later migrations have added. */
const undoings: readonly (readonly [RegExp, (...names: string[]) => string])[] = [
  [/CREATE TABLE "?(\w+)"? \(/, (table) => `drop table ${table} cascade`],
  [
    /ALTER TABLE "?(\w+)"? ADD COLUMN (?:IF NOT EXISTS )?"?(\w+)"?/,
    (table, column) => `alter table ${table} drop column ${column}`,
  ],
  [/CREATE TRIGGER (\w+) [^;]*? ON (\w+) /, (trigger, table) => `drop trigger if exists ${trigger} on ${table}`],
  [/CREATE (?:UNIQUE )?INDEX (?:IF NOT EXISTS )?"?(?!ON )(\w+)"? /, (index) => `drop index ${index}`],
  [/CREATE VIEW (\w+) AS/, (view) => `drop view if exists ${view} cascade`],
  [/ALTER TABLE (\w+) RENAME TO (\w+)/, (before, after) => `alter table ${after} rename to ${before}`],
]
const undoing = (text: string) =>
  undoings.flatMap(([pattern, undo]) => {
    const [, ...names] = pattern.exec(text) ?? []
    return names.length === 0 ? [] : [undo(...names)]
  })

/** As an earlier version left it: without the newest table, and with the one that it replaced. `taken`: it cannot be made. */
async function undoNewestTable(taken: boolean): Promise<void> {
  const sql = connect(several.gateway.env.DATABASE_URL ?? '', { max: 1 })
  const making = migrations().find(({ statements }) => statements.some(makes('request_groups')))
  const replaced = migrations().flatMap(({ statements }) => statements.filter(makes('request_records')))
  await sql`delete from drizzle.__drizzle_migrations where created_at >= ${making?.madeAt ?? Number.NaN}`
  if (!taken) {
    const later = migrations().filter(({ madeAt }) => madeAt > (making?.madeAt ?? Number.NaN))
    for (const text of later.flatMap(({ statements }) => statements).toReversed()) {
      for (const undo of undoing(text)) await sql.unsafe(undo)
    }
    // A later migration made it anew, and dropping what it reads dropped it.
    const log = migrations().flatMap(({ statements }) =>
      statements.filter((text) => text.includes('CREATE VIEW log_contents')),
    )
    await sql.unsafe(log[0] ?? '')
    await sql`drop view request_records`
    await sql`drop table request_groups cascade`
    for (const text of replaced) await sql.unsafe(text)
  }
  await sql.end()
}

test(
  '§33: a new version in the place of a process brings the tables up to date before it serves, or the old one stays',
  async () => {
    const { server } = several
    const before = server.pids
    await undoNewestTable(true)
    await server.replace?.()
    expect(server.pids).toEqual(before)
    await undoNewestTable(false)
    await server.replace?.()
    expect(server.pids.filter((pid) => before.includes(pid))).toEqual([])
    const sql = connect(several.gateway.env.DATABASE_URL ?? '', { max: 1 })
    const [row] = await sql`select to_regclass('request_groups') is not null as there`
    await sql.end()
    expect(row).toEqual({ there: true })
  },
  testLimitMs,
)

test(
  '§33: a process that dies while its replacement starts leaves no process beside the supervised ones',
  async () => {
    const { server } = several
    const [old = 0] = server.pids
    const { replaced } = await replaceBegun()
    process.kill(old, 'SIGKILL')
    await replaced
    await waitUntil('both serve', () => server.pids.length === 2)
    await waitUntil('nobody else runs', () => processes().length === 2)
    expect(processes().sort()).toEqual([...server.pids].sort())
  },
  testLimitMs,
)

test(
  '§33: a stop waits for no process that was to take a place',
  async () => {
    const { fresh, replaced } = await replaceBegun()
    // It never comes up.
    process.kill(fresh, 'SIGSTOP')
    await settled('the stop', several.server.stop())
    await replaced
    expect(processes()).toEqual([])
  },
  testLimitMs,
)

test('what fails at once in the middle of a stop ends nothing but itself', async () => {
  const lines: string[] = []
  const cleanup = new Cleanup(createLog('error', (text) => void lines.push(text)))
  const ended: string[] = []
  cleanup.add(() => ended.push('the database'))
  cleanup.add(() => {
    throw new RangeError('no such folder')
  })
  cleanup.add(() => ended.push('the processes'))
  await cleanup.run()
  expect(ended).toEqual(['the processes', 'the database'])
  expect(lines.join('')).toContain('RangeError')
})
