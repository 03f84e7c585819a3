import { expect, test } from 'bun:test'
import { createReceiptMacs, receiptSubject } from '../../../src/actors/log/receipt-macs.ts'
import { receiptText, textHash } from '../../../src/protocol/receipts/receipt.ts'
import { startTestGateway, stillLog, type TestGateway } from '../../support/gateways/http-gateway.ts'
import { factsOf, forge, issued, issuedInGroup, sequencerOf } from '../../support/money/forging.ts'
import { insertReceipts } from '../../support/money/insert-receipts.ts'
import { scoped } from '../../support/run/fixture.ts'

const isLogged = async (hash: string, on: TestGateway) =>
  (await on.ask('GET', `/v1/public/log/proof?receipt_hash=${hash}`)).status === 200
const rulesOf = async (own: TestGateway) => (await own.gateway.checkBooks()).faults.map(({ rule }) => rule)

test('§36: a receipt or group without a mark alone is kept out, at once, with an alarm; the log goes on; an operator lets it in', async () => {
  await using own = await scoped(startTestGateway(stillLog))
  const { database } = own
  const first = sequencerOf(own)
  await first.catchUp()
  const forged = [await forge(database.sql, factsOf()), await forge(database.sql, factsOf())]
  const behind = await issued(2, own)
  const group = await issuedInGroup(4, own)
  await database.sql`update receipt_groups set mac = null`
  const last = await issued(1, own)
  await first.catchUp()
  for (const hash of [...behind, ...last]) expect(await isLogged(hash, own)).toBe(true)
  for (const hash of [...forged, ...group]) expect(await isLogged(hash, own)).toBe(false)
  expect([first.told('receipt_forged'), first.forged()]).toEqual([1, 3])
  expect(await rulesOf(own)).toEqual(Array(6).fill('every receipt is in the log'))
  await first.catchUp()
  expect([first.told('receipt_forged'), first.forged()]).toEqual([1, 3])
  // One that was deleted is nobody's to wait for.
  await database.sql`delete from receipt_rows where receipt_hash = ${forged[0] ?? ''}`
  const letIn = sequencerOf(own, { plainUntilMs: Date.now() + 3_600_000 })
  await letIn.catchUp()
  for (const hash of [forged[1] ?? '', ...group]) expect(await isLogged(hash, own)).toBe(true)
  expect(await database.sql`select * from log_waiting`).toHaveLength(0)
  expect(await rulesOf(own)).toEqual([])
})

test('§36: a mark by a key that a gateway does not know is judged by one that knows it; where none does, an alarm follows after ten minutes', async () => {
  await using own = await scoped(startTestGateway(stillLog))
  const { database } = own
  let nowMs = Date.now()
  const newer = createReceiptMacs(['66'.repeat(32), '77'.repeat(32)])
  const before = sequencerOf(own, { now: () => nowMs })
  await before.catchUp()
  const facts = factsOf()
  const receipt = { hash: textHash(receiptText(facts)), text: receiptText(facts), customerId: 'cus_a' }
  await insertReceipts(database, [receipt], newer)
  // The key is that one, what it marked is not this.
  const wrong = await forge(database.sql, factsOf(), newer.of({ hashes: 'x', customers: 'cus_a', group: false }))
  const lost = await forge(database.sql, factsOf(), createReceiptMacs(['65'.repeat(32)]).of(receiptSubject(receipt)))
  const [behind = ''] = await issued(1, own)
  await before.catchUp()
  expect(await isLogged(behind, own)).toBe(true)
  expect([before.told('receipts_of_another_key'), before.told('receipt_forged')]).toEqual([1, 0])
  const after = sequencerOf(own, { macs: newer, now: () => nowMs })
  await after.catchUp()
  expect(await isLogged(receipt.hash, own)).toBe(true)
  for (const hash of [wrong, lost]) expect(await isLogged(hash, own)).toBe(false)
  expect([after.told('receipt_forged'), after.forged()]).toEqual([1, 1])
  // From now on, and not from the beginning: on a busy machine seconds have gone by.
  nowMs = Date.now() + 601_000
  await after.catchUp()
  await after.catchUp()
  expect([after.told('receipt_forged'), after.forged()]).toEqual([2, 2])
  const faults = (await own.gateway.checkBooks()).faults.map(({ subject }) => subject)
  expect(faults.toSorted()).toEqual([wrong, lost].toSorted())
})

test('§36: who writes into the table of those that wait gets no receipt into the log a second time, nor one before its turn', async () => {
  await using own = await scoped(startTestGateway(stillLog))
  const { database } = own
  const one = sequencerOf(own)
  await issued(3, own)
  await issuedInGroup(3, own)
  await one.catchUp()
  await database.sql`insert into log_waiting (last_seq, grouped) select seq, false from receipt_rows`
  await database.sql`insert into log_waiting (last_seq, grouped) select last_seq, true from receipt_groups`
  await database.sql`insert into log_waiting (last_seq, grouped) select seq + 1000, grouped from (
      select last_seq as seq, grouped from log_waiting) w`
  const count = async () => (await database.sql`select 1 from log_contents where kind = 'receipt'`).length
  await issued(2, own)
  for (let turn = 0; turn < 2; turn++) {
    await one.catchUp()
    expect(await count()).toBe(8)
    expect(await rulesOf(own)).toEqual([])
  }
})

test('§36: of more that wait than a turn looks at, each has its turn, and all go in once', async () => {
  await using own = await scoped(startTestGateway(stillLog))
  const { database } = own
  const newer = createReceiptMacs(['66'.repeat(32), '77'.repeat(32)])
  const before = sequencerOf(own)
  await before.catchUp()
  // Nobody ever lets these in, and they come first.
  await database.sql.unsafe(`insert into receipt_rows (receipt_hash, issuer, request_id, kind, node_id, node_class, runtime_id, runtime_kind,
        model_id, prompt_tokens, completion_tokens, started_at, completed_at, customer_id)
      select '0x' || encode(sha256(i::text::bytea), 'hex'), 'gateway', 'req_' || i, 'hosted_chat', 'n', 'c', 'r', 'vllm', 'm', 1, 1,
        now(), now(), 'cus_a' from generate_series(1, 450) i`)
  const rows = Array.from({ length: 450 }, () => {
    const text = receiptText(factsOf())
    return { hash: textHash(text), text, customerId: 'cus_a' }
  })
  await insertReceipts(database, rows, newer)
  await before.catchUp()
  const logged = async () => {
    const [row] = await database.sql<{ entries: number; receipts: number }[]>`
        select count(*)::int as entries, count(distinct hash)::int as receipts from log_contents where kind = 'receipt'`
    return row
  }
  expect(await logged()).toEqual({ entries: 0, receipts: 0 })
  let nowMs = Date.now()
  const after = sequencerOf(own, { macs: newer, now: () => nowMs })
  for (let turn = 0; turn < 5; turn++) {
    await after.catchUp()
    nowMs += 10_000
  }
  expect(await logged()).toEqual({ entries: 450, receipts: 450 })
  expect(await database.sql`select * from log_waiting`).toHaveLength(450)
})
