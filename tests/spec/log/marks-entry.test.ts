import { expect, test } from 'bun:test'
import { connect } from '../../../src/db/client.ts'
import { receiptText, textHash } from '../../../src/protocol/receipts/receipt.ts'
import { startTestGateway, stillLog, type TestGateway } from '../../support/gateways/http-gateway.ts'
import { factsOf, forge, issued, sequencerOf } from '../../support/money/forging.ts'
import { insertReceipts } from '../../support/money/insert-receipts.ts'
import { scoped } from '../../support/run/fixture.ts'

const inAnHour = () => Date.now() + 3_601_000
const isLogged = async (hash: string, on: TestGateway) =>
  (await on.ask('GET', `/v1/public/log/proof?receipt_hash=${hash}`)).status === 200
const marksOf = async ({ database }: TestGateway) => [
  ...(await database.sql<{ at: number; until: string }[]>`
    select entry_index::int as at, subject as until from log_entries where kind = 'marks' order by 1`),
]

test('§36: after an upgrade the log says that it takes receipts without a mark for an hour, once, and does not after it', async () => {
  let first = ''
  await using own = await scoped(
    startTestGateway(stillLog, async (url) => {
      const sql = connect(url, { max: 1 })
      first = await forge(sql, factsOf())
      await sql.end()
      return url
    }),
  )
  const { database } = own
  await own.gateway.sequencer.catchUp()
  expect(await isLogged(first, own)).toBe(true)
  // Of a gateway of the version before, which still runs.
  const beside = await forge(database.sql, factsOf())
  await own.gateway.sequencer.catchUp()
  expect(await isLogged(beside, own)).toBe(true)
  const entries = () => database.sql<{ at: number; until: string }[]>`
      select entry_index::int as at, subject as until from log_entries where kind = 'marks'`
  expect([...(await entries())]).toEqual([{ at: 0, until: expect.stringMatching(/Z$/) }])
  const later = sequencerOf(own, { now: inAnHour })
  const late = await forge(database.sql, factsOf())
  await later.catchUp()
  expect(await isLogged(late, own)).toBe(false)
  // Nor does one that reads the entry after somebody has changed it.
  await database.sql`update log_entries set subject = '2999-01-01T00:00:00.000Z' where kind = 'marks'`
  const deceived = sequencerOf(own, { now: inAnHour })
  await deceived.catchUp()
  expect(await isLogged(late, own)).toBe(false)
  const rule = 'the log says once until when it took receipts without a mark'
  const { faults } = await own.gateway.checkBooks()
  expect(faults.map((fault) => fault.rule)).toContain(rule)
  // The operator says that a gateway of before runs on.
  const told = sequencerOf(own, {
    plainUntilMs: Date.now() + 7_200_000,
    now: inAnHour,
  })
  await told.catchUp()
  expect(await isLogged(late, own)).toBe(true)
})

// The first gateway that was upgraded answers before it first looks at the log, while those of the version before run on.
test('§36: after an upgrade receipts without a mark are taken, though a marked one was written before the log said so', async () => {
  const hashes: string[] = []
  await using own = await scoped(
    startTestGateway(stillLog, async (url) => {
      const sql = connect(url, { max: 1 })
      hashes.push(await forge(sql, factsOf()))
      const text = receiptText(factsOf())
      hashes.push(textHash(text))
      await insertReceipts({ sql }, [{ hash: textHash(text), text, customerId: 'cus_a' }])
      await sql.end()
      return url
    }),
  )
  hashes.push(await forge(own.database.sql, factsOf()))
  await own.gateway.sequencer.catchUp()
  for (const hash of hashes) expect(await isLogged(hash, own)).toBe(true)
  const told = own.logged().map(({ msg, event }) => event ?? msg)
  expect(told).not.toContain('receipt_forged')
  expect((await own.gateway.checkBooks()).faults).toEqual([])
})

test('§36: a new log says at once that it takes no receipt without a mark, and no change of the database makes it say another time', async () => {
  await using own = await scoped(startTestGateway(stillLog))
  const { sql } = own.database
  const [marks, ...others] = await marksOf(own)
  expect([marks?.at, others]).toEqual([0, []])
  expect(Date.parse(marks?.until ?? '')).toBeLessThanOrEqual(Date.now())
  expect((await own.gateway.checkBooks()).faults).toEqual([])
  await issued(3, own)
  await own.gateway.sequencer.catchUp()
  // Nothing is left that bears a mark, and the entry is gone, or is another one.
  await sql`update receipt_rows set mac = null`
  const forged = await forge(sql, factsOf())
  const edits = [
    () => sql`delete from log_entries where kind = 'marks'`,
    () => sql`insert into log_entries (entry_index, kind, hash) values (0, 'audit', ${`0x${'ab'.repeat(32)}`})`,
  ]
  for (const edit of edits) {
    await edit()
    const started = sequencerOf(own)
    await started.catchUp()
    expect(await isLogged(forged, own)).toBe(false)
    expect((await own.gateway.checkBooks()).faults.map(({ rule }) => rule)).toContain(
      'the log is the tree of its checkpoint',
    )
  }
  expect(await marksOf(own)).toEqual([])
})
