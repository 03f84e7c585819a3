import { afterAll, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { connect } from '../../src/db/client.ts'
import { migrations } from '../../src/db/migrate.ts'
import { createLog } from '../../src/log.ts'
import { Cleanup } from '../../src/processes/cleanup.ts'
import { startProcesses } from '../support/gateways/processes.ts'
import { settled, waitUntil } from '../support/run/wait-until.ts'

const several = await startProcesses()

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

/** What takes back a statement of the newest migration. */
const undoings: readonly (readonly [RegExp, (...names: string[]) => string])[] = [
  [/^CREATE TABLE "?(\w+)"? \(/, (table) => `drop table ${table} cascade`],
  [
    /^ALTER TABLE "?(\w+)"? (ADD COLUMN [\s\S]*)/,
    (table, added = '') =>
      `alter table ${table} ${[...added.matchAll(/ADD COLUMN "?(\w+)"?/g)].map(([, column]) => `drop column ${column}`).join()}`,
  ],
  [/^ALTER TABLE "?(\w+)"? ADD CONSTRAINT "?(\w+)"?/, (table, rule) => `alter table ${table} drop constraint ${rule}`],
  // Any will do: it is dropped again.
  [
    /^ALTER TABLE "?(\w+)"? DROP CONSTRAINT "?(\w+)"?/,
    (table, rule) => `alter table ${table} add constraint ${rule} check (true)`,
  ],
  [/^CREATE TRIGGER "?(\w+)"? [^;]*? ON "?(\w+)"? /, (trigger, table) => `drop trigger ${trigger} on ${table}`],
  // Any will do: it is dropped again.
  [
    /^DROP TRIGGER "?(\w+)"? ON "?(\w+)"?;/,
    (trigger, table) =>
      `create trigger ${trigger} before update on ${table} for each row execute function row_revised()`,
  ],
  [/^CREATE (?:UNIQUE )?INDEX "?(\w+)"? /, (index) => `drop index ${index}`],
  [/^CREATE (?:OR REPLACE )?VIEW "?(\w+)"? /, (view) => `drop view ${view} cascade`],
  // Any will do: it is dropped again.
  [/^DROP FUNCTION (\w+\([^)]*\));/, (name) => `create function ${name} returns integer language sql as 'select 1'`],
  // They stand as they are until they are made again.
  [/^CREATE OR REPLACE FUNCTION /, () => 'select 1'],
  [/^ALTER TABLE "?\w+"? ALTER COLUMN /, () => 'select 1'],
  [/^(?:LOCK TABLE|DO) /, () => 'select 1'],
  [
    /^INSERT INTO receipt_versions SELECT '([\w-]+)'/,
    (version) => `delete from receipt_versions where version = '${version}'`,
  ],
  // Its rows go with its table.
  [/^INSERT INTO /, () => 'select 1'],
]
/** Without the comments before it. */
const statementOf = (text: string) => text.replace(/^(?:\s*--.*\n)*/, '').trim()
function undoing(text: string): string {
  for (const [pattern, undo] of undoings) {
    const [found, ...names] = pattern.exec(statementOf(text)) ?? []
    if (found !== undefined) return undo(...names)
  }
  throw new Error(`the newest migration has a statement of a kind that is not in this list yet: ${text.slice(0, 80)}`)
}

/** The newest migration fails at its first statement that makes or replaces something. */
const refusing = `
  create function refuse_changes() returns event_trigger language plpgsql as $$ begin raise 'no changes now'; end $$;
  create event trigger refuse_changes on ddl_command_start execute function refuse_changes();`
const refusingNoMore = 'drop event trigger refuse_changes; drop function refuse_changes()'

/** As the version before left it. `refused`: what the newest migration made is still there, and nothing more can be made. */
async function undoNewest(refused: boolean): Promise<void> {
  const sql = connect(several.gateway.env.DATABASE_URL ?? '', { max: 1 })
  const newest = migrations().at(-1)
  await sql`delete from drizzle.__drizzle_migrations where created_at = ${newest?.madeAt ?? Number.NaN}`
  const undone = (newest?.statements ?? []).toReversed().map(undoing)
  for (const text of refused ? [refusing] : [refusingNoMore, ...undone]) await sql.unsafe(text)
  await sql.end()
}

async function newestIsThere(): Promise<boolean> {
  const sql = connect(several.gateway.env.DATABASE_URL ?? '', { max: 1 })
  const rows =
    await sql`select 1 from drizzle.__drizzle_migrations where created_at = ${migrations().at(-1)?.madeAt ?? Number.NaN}`
  await sql.end()
  return rows.length === 1
}

test('§33: a new version in the place of a process brings the tables up to date before it serves, or the old one stays', async () => {
  const { server } = several
  const before = server.pids
  await undoNewest(true)
  await server.replace?.()
  expect(server.pids).toEqual(before)
  expect(await newestIsThere()).toBe(false)
  await undoNewest(false)
  await server.replace?.()
  expect(server.pids.filter((pid) => before.includes(pid))).toEqual([])
  expect(await newestIsThere()).toBe(true)
})

test('§33: a process that dies while its replacement starts leaves no process beside the supervised ones', async () => {
  const { server } = several
  const [old = 0] = server.pids
  const { replaced } = await replaceBegun()
  process.kill(old, 'SIGKILL')
  await replaced
  await waitUntil('both serve', () => server.pids.length === 2)
  await waitUntil('nobody else runs', () => processes().length === 2)
  expect(processes().sort()).toEqual([...server.pids].sort())
})

test('§33: a stop waits for no process that was to take a place', async () => {
  const { fresh, replaced } = await replaceBegun()
  // It never comes up.
  process.kill(fresh, 'SIGSTOP')
  await settled('the stop', several.server.stop())
  await replaced
  expect(processes()).toEqual([])
})

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
