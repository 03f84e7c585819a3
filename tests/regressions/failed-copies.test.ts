import { beforeEach, expect, test } from 'bun:test'
import { openDatabase, sessionOf } from '../../src/db/client.ts'
import { copyIn, copyRows } from '../../src/db/copy.ts'
import { severable } from '../support/gateways/severed-database.ts'
import { fixture } from '../support/run/fixture.ts'
import { lasts } from '../support/run/lasts.ts'
import { lockWaits } from '../support/run/lock-waits.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const database = await fixture(testDatabase())
await database.sql`create table copied (id int primary key, name text)`

beforeEach(async () => {
  await database.sql`truncate copied`
})

const target = 'copied (id, name)'
const line = (id: number) => `${id}\tn\n`
const lines = (count: number) => Array.from({ length: count }, (_, id) => line(id)).join('')
const count = async () => Number((await database.sql`select count(*) from copied`)[0]?.count)

test('a COPY that the server refuses at its end says so: the driver told nobody, and its writer waited for ever', async () => {
  await copyRows(database.sql, target, [lines(2)])
  await expect(copyRows(database.sql, target, [line(3) + line(1)])).rejects.toMatchObject({ code: '23505' })
  expect(await count()).toBe(2)
})

test('a COPY that the server refuses in the middle says so, and the connection serves on', async () => {
  const one = openDatabase({ url: database.url, connectionsMax: 1 })
  const faulty = `x\tn\n${lines(200_000)}`
  await expect(copyRows(one.sql, target, [faulty])).rejects.toMatchObject({ code: '22P02' })
  await copyRows(one.sql, target, [lines(3)])
  expect(await one.sql`select count(*)::int as rows from copied`).toMatchObject([{ rows: 3 }])
  await one.close()
})

test('a COPY whose rows cannot be read on is taken back, and the connection serves on', async () => {
  const one = openDatabase({ url: database.url, connectionsMax: 1 })
  async function* breaking() {
    yield Buffer.from(line(1))
    throw new Error('the file ends')
  }
  const copied = one.sql.begin((transaction) => copyIn(transaction, `copy ${target} from stdin`, breaking()))
  await expect(copied).rejects.toThrow('the file ends')
  expect(await one.sql`select count(*)::int as rows from copied`).toMatchObject([{ rows: 0 }])
  await one.close()
})

test('a COPY whose connection is lost says so wherever it was, and the next one finds another', async () => {
  const way = await severable(database.url)
  const through = openDatabase({ url: way.url, connectionsMax: 1 })
  async function* endless(sent: () => void) {
    yield Buffer.from(line(1))
    sent()
    for (let id = 2; ; id++) {
      await lasts(1)
      yield Buffer.from(line(id))
    }
  }
  const begun = Promise.withResolvers<void>()
  const copied = through.sql.begin((transaction) =>
    copyIn(transaction, `copy ${target} from stdin`, endless(begun.resolve)),
  )
  copied.catch(() => {})
  await begun.promise
  await way.sever()
  await expect(copied).rejects.toThrow()
  await way.restore()
  await copyRows(through.sql, target, [lines(5)])
  expect(await count()).toBe(5)
  // Behind its last row: the server waits for a lock when it looks for the row that it may contradict.
  const held = sessionOf(database.sql)
  await held`begin`
  await held`insert into copied values (7, 'held')`
  const waiting = copyRows(through.sql, target, [line(7)])
  waiting.catch(() => {})
  await waitUntil('it waits for the lock', async () => (await lockWaits(database.sql, 'copy copied%')) > 0)
  await way.sever()
  await expect(waiting).rejects.toThrow()
  await held.end()
  await through.close()
  await way.close()
})
