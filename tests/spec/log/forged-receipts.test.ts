import { expect, test } from 'bun:test'
import { receiptText, textHash } from '../../../src/protocol/receipts/receipt.ts'
import { json, startTestGateway, stillLog } from '../../support/gateways/http-gateway.ts'
import { factsOf, forge, issued, issuedInGroup } from '../../support/money/forging.ts'
import { insertReceipts } from '../../support/money/insert-receipts.ts'
import { markOf } from '../../support/money/receipt-macs.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

const gateway = await fixture(startTestGateway(stillLog))

const proofOf = (hash: string, on = gateway) => on.ask('GET', `/v1/public/log/proof?receipt_hash=${hash}`)
const isLogged = async (hash: string, on = gateway) => (await proofOf(hash, on)).status === 200
const alarms = (on = gateway) => on.logged().filter(({ msg, event }) => (event ?? msg) === 'receipt_forged')
const faulty = async () => (await gateway.gateway.checkBooks()).faults.map(({ rule, subject }) => `${rule}: ${subject}`)

test('§36: a wrong mark is refused at once: no entry, no signature, an alarm, a fault of the books; the others go in', async () => {
  const { sql } = gateway.database
  const [one = ''] = await issued(1, gateway)
  const before = alarms().length
  // The mark of another receipt, and one in the name of a node.
  const forged = await forge(sql, factsOf(), markOf(one, 'cus_a'))
  const [two = ''] = await issued(1, gateway)
  const named = await forge(sql, factsOf({ issuer: 'node' }), markOf(two, 'cus_a'))
  const group = await issuedInGroup(5, gateway)
  await gateway.gateway.sequencer.catchUp()
  for (const hash of [one, two, ...group]) expect(await isLogged(hash)).toBe(true)
  for (const hash of [forged, named]) {
    expect(await isLogged(hash)).toBe(false)
    const shown = await json(await gateway.ask('GET', `/v1/admin/receipts/${hash}`, { as: 'operator' }))
    expect(shown).toMatchObject({ log: null, signature_ed25519: null })
  }
  expect(alarms().length).toBe(before + 1)
  expect(await faulty()).toEqual([
    `every receipt is in the log: ${forged}`,
    `every receipt is in the log: ${named}`,
    expect.stringContaining(named),
  ])
  await sql`delete from receipt_rows where receipt_hash in ${sql([forged, named])}`
  expect(await faulty()).toEqual([])
})

test('§36: a receipt or group that was changed before the log took it is refused, and so is one of another customer', async () => {
  const { sql } = gateway.database
  const [one = '', two = ''] = await issued(2, gateway)
  const group = await issuedInGroup(3, gateway)
  const other = await issuedInGroup(3, gateway)
  const [last = ''] = await issued(1, gateway)
  const changed = `0x${'ab'.repeat(32)}`
  await sql`update receipt_rows set receipt_hash = ${changed} where receipt_hash = ${one}`
  await sql`update receipt_rows set customer_id = 'cus_b' where receipt_hash = ${two}`
  // The last hash of a group.
  await sql`update receipt_groups set hashes = substring(hashes for 64) || ${Buffer.alloc(32, 7)}
    where first_hash = ${Buffer.from((group[0] ?? '').slice(2), 'hex')}`
  await gateway.gateway.sequencer.catchUp()
  for (const hash of [changed, two, ...group]) expect(await isLogged(hash)).toBe(false)
  for (const hash of [...other, last]) expect(await isLogged(hash)).toBe(true)
  expect((await faulty()).filter((fault) => fault.startsWith('every receipt is in the log'))).toHaveLength(5)
  await sql`delete from receipt_rows where receipt_hash in ${sql([changed, two])}`
  await sql`delete from receipt_groups where first_hash = ${Buffer.from((group[0] ?? '').slice(2), 'hex')}`
  expect(await faulty()).toEqual([])
})

test('§36: a row that was changed after the log took it gets neither proof nor signature', async () => {
  const { sql } = gateway.database
  const facts = factsOf()
  const text = receiptText(facts)
  const hash = textHash(text)
  await insertReceipts(gateway.database, [{ hash, text, customerId: 'cus_a' }])
  await gateway.gateway.sequencer.catchUp()
  expect(await isLogged(hash)).toBe(true)
  const forged = textHash(receiptText({ ...facts, completionTokens: 2_000 }))
  await sql`update receipt_rows set receipt_hash = ${forged}, completion_tokens = 2000 where receipt_hash = ${hash}`
  const shown = await json(await gateway.ask('GET', `/v1/admin/receipts/${forged}`, { as: 'operator' }))
  expect(shown).toMatchObject({ receipt_hash: forged, log: null, signature_ed25519: null })
  expect(await isLogged(forged)).toBe(false)
  await sql`update receipt_rows set receipt_hash = ${hash}, completion_tokens = 2 where receipt_hash = ${forged}`
})

test('§36: nothing is put behind a state of the log that none of its keys has signed', async () => {
  await using own = await scoped(startTestGateway(stillLog))
  const { sql } = own.database
  const root = Buffer.alloc(32, 9)
  await sql`update log_state set size = size + 1, root = ${root}`
  const fresh = await startTestGateway(stillLog, undefined, { beside: own })
  const text = receiptText(factsOf())
  await insertReceipts(own.database, [{ hash: textHash(text), text, customerId: 'cus_a' }])
  for (const one of [own, fresh]) await one.gateway.sequencer.catchUp()
  expect(await sql`select size::int as size from log_state`).toEqual([{ size: 3 }] as never)
  for (const one of [own, fresh]) expect(one.gateway.sequencer.fork()).not.toBeNull()
  await fresh.stop()
})
