import { describe, expect, test } from 'bun:test'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from '../../src/db/client.ts'
import { backedUpGateway, restoredFrom, richer } from '../support/run/backed-up.ts'
import { fixture, scoped } from '../support/run/fixture.ts'
import { emptyDatabase } from '../support/run/postgres.ts'

const backedUp = await fixture(backedUpGateway())
const { bench, dataDir, file, key, seed } = backedUp

const restored = (args: readonly string[]) => restoredFrom(bench, args)
const inCustomers = (text: string, change: (table: string) => string) =>
  text.replace(/(COPY public\."customers"[\s\S]*?\n\\\.\n)/, change)
/** The balance of the customer alone, which its entries do not add up to. */
const richerRow = (text: string) => inCustomers(text, richer)

describe('§24: a restore ends with the verdict of the books', () => {
  test('a balance that its entries do not add up to is named, and the command fails; the rows are there', async () => {
    const bad = bench.path('unsound.sql.gz')
    copyFileSync(file, bad)
    bench.rewrite(bad, richerRow)
    const ended = await restored([bad, '--log-key', key])
    expect(ended.code).toBe(1)
    expect(ended.out).toContain('Books      DO NOT HOLD')
    expect(ended.out).toContain('Broken     every balance is the sum of its entries')
    expect(ended.rows.filter(({ table }) => table === 'customers')).toHaveLength(2)
    const told = JSON.parse((await restored([bad, '--log-key', key, '--json'])).out)
    expect(told.books).toMatchObject({ sound: false, faults: [] })
    expect(told.books.broken_rules).toContain('every balance is the sum of its entries')
  })

  test('a credit that is larger everywhere in the file is another one than the log holds', async () => {
    const bad = bench.path('inflated.sql.gz')
    copyFileSync(file, bad)
    bench.rewrite(bad, richer)
    const { code, out } = await restored([bad, '--log-key', key, '--json'])
    expect(code).toBe(1)
    const rules = (JSON.parse(out).books.faults as { rule: string }[]).map(({ rule }) => rule)
    expect(rules).toContain('every credit is as the log holds it')
    expect(rules).toContain('the ledger is as the log holds it')
  })

  test('a log whose entries were cut off is not the tree of its checkpoint', async () => {
    const bad = bench.path('short-log.sql.gz')
    copyFileSync(file, bad)
    bench.rewrite(bad, (text) => {
      const cut = text.replace(/(COPY public\."log_entries"[^\n]*\n)[^\n]*\n/, '$1')
      return cut.replace(/"log_entries":(\d+)/, (_, count) => `"log_entries":${Number(count) - 1}`)
    })
    const { code, out } = await restored([bad, '--log-key', key, '--json'])
    expect(code).toBe(1)
    const rules = (JSON.parse(out).books.faults as { rule: string }[]).map(({ rule }) => rule)
    expect(rules).toContain('the log is the tree of its checkpoint')
  })

  test('a log that claims more entries than anybody can count is not the tree of its checkpoint', async () => {
    const bad = bench.path('endless.sql.gz')
    copyFileSync(file, bad)
    const row = /(COPY public\."log_state"[^\n]*\n1\t\S+\t)\d+(\t\S+\t)\d+\t\d+\t/
    bench.rewrite(bad, (text) => text.replace(row, '$19007199254740000$29223372036854775807\t9223372036854775807\t'))
    const { code, out } = await restored([bad, '--log-key', key, '--json'])
    expect(code).toBe(1)
    expect(JSON.parse(out).books.faults).toContainEqual({
      rule: 'the log is the tree of its checkpoint',
      subject: 'log_entries',
    })
  })

  test('a folder that has seen a longer log than the backup has says what its gateway will find', async () => {
    const folder = bench.path('seen')
    const env = { SVC_DATA_DIR: folder }
    expect((await bench.cli.run(['restore', file, '--log-key', key], { env })).code).toBe(0)
    copyFileSync(join(dataDir, 'log-checkpoint.json'), join(folder, 'log-checkpoint.json'))
    const kept = JSON.parse(readFileSync(join(folder, 'log-checkpoint.json'), 'utf8')) as { note: string }
    const longer = kept.note.replace(/^(\S+)\n\d+\n/, '$1\n9999\n')
    writeFileSync(join(folder, 'log-checkpoint.json'), JSON.stringify({ note: longer }))
    const again = await bench.cli.run(['restore', file, '--overwrite'], { env })
    expect(again.code).toBe(0)
    expect(again.err).toContain('this folder has seen 9999')
    expect(again.err).toContain('log_forked')
  })

  test('a database whose log was longer than the backup has says so, and what it replaces is gone', async () => {
    await using database = await scoped(emptyDatabase())
    const env = { DATABASE_URL: database.url }
    const args = ['restore', file, '--log-key', key, '--overwrite']
    expect(await bench.cli.run(args, { env })).toMatchObject({
      code: 0,
      err: expect.not.stringContaining('public log'),
    })
    const sql = connect(database.url, { max: 1 })
    await sql`update log_state set size = 9999`
    await sql.end()
    const again = await bench.cli.run(args, { env })
    expect(again).toMatchObject({ code: 0, err: expect.stringContaining('the database had 9999') })
    const third = await bench.cli.run([...args, '--json'], { env })
    expect(JSON.parse(third.out).books).toMatchObject({ sound: true, lost_log_size: null })
  })

  test('rows that cannot be read are there with their secrets, and the command says that they were not checked', async () => {
    const bad = bench.path('no-number.sql.gz')
    copyFileSync(file, bad)
    bench.rewrite(bad, (text) => text.replace(/(COPY public\."ledger_rows"[^\n]*\n[^\n]*\t)[^\t\n]*\n/, '$1infinity\n'))
    const secrets = bench.path('no-number.env')
    const ended = await restored([bad, '--log-key', key, '--secrets-to', secrets])
    expect(ended).toMatchObject({ code: 1, out: '' })
    expect(ended.err).toContain('is restored, but its books could not be checked')
    expect(ended.rows.filter(({ table }) => table === 'customers')).toHaveLength(2)
    expect(readFileSync(secrets, 'utf8')).toContain(`SVC_LOG_KEY=${seed}`)
  })
})
