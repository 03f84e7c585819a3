import { afterEach, describe, expect, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { Ledger } from '../../../src/actors/money/ledger.ts'
import { newId } from '../../../src/ids.ts'
import { createLog } from '../../../src/log.ts'
import { ledgerEntryHash } from '../../../src/protocol/log/entry-facts.ts'
import { Debit, Invoice, UsageExport } from '../../../src/protocol/wire/money/billing.ts'
import { LedgerProof } from '../../../src/protocol/wire/money/money.ts'
import { newAccount } from '../../support/gateways/accounts.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { expectBooksBalance } from '../../support/money/ledger.ts'
import { payFor } from '../../support/money/money.ts'
import { testMacs } from '../../support/money/receipt-macs.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'
import { waitFor, waitUntil } from '../../support/run/wait-until.ts'

const gateway = await fixture(startTestGateway())
/** Another gateway on the same database. */
const other = await fixture(startTestGateway({}, undefined, { beside: gateway }))

afterEach(async () => {
  await expectBooksBalance(gateway.database.db)
  await gateway.gateway.sequencer.catchUp({ heads: true })
  expect((await gateway.gateway.checkBooks()).faults).toEqual([])
})

const credited = (wei: string) => newAccount(gateway, wei)
const debit = (id: string, body: object, at = gateway) =>
  at.ask('POST', `/v1/admin/customers/${id}/debits`, { as: 'admin', json: body })
const codeOf = async (response: Response) => [response.status, (await json(response)).code]
const read = async (path: string) => json(await gateway.ask('GET', path, { as: 'operator' }))
const faultsOf = (schema: Parameters<typeof Value.Errors>[0], body: unknown) =>
  [...Value.Errors(schema, body)].filter(({ message }) => !message.includes('format'))

async function balanceOf(id: string): Promise<string> {
  const [row] = await gateway.database.sql<{ balance: string; reserved: string }[]>`
    select balance_wei::text balance, reserved_wei::text reserved from customers where customer_id = ${id}`
  return `${row?.balance} ${row?.reserved}`
}
const debitsOf = async (id: string) => [
  ...(await gateway.database.sql<{ wei: string; reason: string | null }[]>`
    select amount_wei::text wei, reason from ledger_entries where customer_id = ${id} and kind = 'admin_debit' order by seq`),
]
const eventsOf = async (id: string) => [
  ...(await gateway.database.sql`select action, category, target_type, reason, metadata from admin_approval_events
    where target_id = ${id} and action = 'customer.debit.create' order by created_at`),
]
const ledger = () => {
  const { db, sql } = gateway.database
  return new Ledger({ macs: testMacs, db, sql, log: createLog('silent', () => {}) })
}

describe('§13, §23: credit that an operator takes back', () => {
  test('§13: every field, the balance after it, the entry with its reason, and its event', async () => {
    const { id } = await credited('1000')
    const response = await debit(id, { debit_id: 'back-1', amount_wei: '300', reason: 'paid\u0007 twice' })
    expect(response.status).toBe(201)
    const body = await json(response)
    expect(body).toEqual({
      status: 'debited',
      customer_id: id,
      debit_id: 'back-1',
      amount_wei: '300',
      balance_after_wei: '700',
      reserved_after_wei: '0',
      reason: 'paid twice',
      created_at: body.created_at,
    })
    expect(faultsOf(Debit, body)).toEqual([])
    expect(response.headers.get('idempotent-replayed')).toBeNull()
    expect([await balanceOf(id), await debitsOf(id)]).toEqual(['700 0', [{ wei: '300', reason: 'paid twice' }]])
    expect(await eventsOf(id)).toEqual([
      {
        action: 'customer.debit.create',
        category: 'billing',
        target_type: 'customer',
        reason: 'paid twice',
        metadata: { amount_wei: '300' },
      },
    ])
  })

  test('§13: never below what is reserved: one wei more is refused with both amounts, and nothing is written', async () => {
    const { id } = await credited('1000')
    const held = await ledger().reserve({ id: newId('req'), customerId: id, amountWei: 400n })
    const refused = await debit(id, { amount_wei: '601' })
    const problem = await json(refused)
    expect([refused.status, problem.code]).toEqual([409, 'invalid_state'])
    for (const wei of ['(601 wei)', '(600 wei)']) expect(JSON.stringify(problem)).toContain(wei)
    expect([await balanceOf(id), await debitsOf(id), await eventsOf(id)]).toEqual(['1000 400', [], []])
    expect((await debit(id, { amount_wei: '600' })).status).toBe(201)
    expect(await balanceOf(id)).toBe('400 400')
    expect(await codeOf(await debit(id, { amount_wei: '1' }))).toEqual([409, 'invalid_state'])
    ledger().release(held)
    await waitUntil('the reserve to go back', async () => (await balanceOf(id)) === '400 0')
  })

  test('§13: the same id debits once, also when nothing is left; another amount, customer or kind is refused', async () => {
    const [one, two] = [await credited('500'), await credited('500')]
    const first = await json(await debit(one.id, { debit_id: 'once', amount_wei: '500', reason: 'a' }))
    const again = await debit(one.id, { debit_id: 'once', amount_wei: '500', reason: 'b' })
    expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([201, 'true'])
    expect(await json(again)).toEqual(first)
    expect((await eventsOf(one.id)).length).toBe(1)
    for (const [id, amount] of [
      [one.id, '8'],
      [two.id, '500'],
    ] as const) {
      expect(await codeOf(await debit(id, { debit_id: 'once', amount_wei: amount }))).toEqual([
        409,
        'debit_id_conflict',
      ])
    }
    const credit = { credit_id: 'once', amount_wei: '500' }
    const taken = await gateway.ask('POST', `/v1/admin/customers/${one.id}/credits`, { as: 'admin', json: credit })
    expect(await codeOf(taken)).toEqual([409, 'credit_id_conflict'])
    expect([await balanceOf(one.id), await balanceOf(two.id)]).toEqual(['0 0', '500 0'])
  })

  test('§13: twenty at once with one id are one debit, of two gateways too', async () => {
    const { id } = await credited('1000')
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, at) =>
        debit(id, { debit_id: `race-${id}`, amount_wei: '5' }, at % 2 ? gateway : other),
      ),
    )
    expect(all.map(({ status }) => status)).toEqual(new Array(20).fill(201))
    expect(all.filter(({ headers }) => headers.get('idempotent-replayed') === null)).toHaveLength(1)
    expect(await balanceOf(id)).toBe('995 0')
  })

  test('§13: of many at once as many go through as the balance covers', async () => {
    const { id } = await credited('1000')
    const all = await Promise.all(
      Array.from({ length: 16 }, (_, at) => debit(id, { amount_wei: '150' }, at % 2 ? gateway : other)),
    )
    expect(all.filter(({ status }) => status === 201)).toHaveLength(6)
    expect(all.filter(({ status }) => status === 409)).toHaveLength(10)
    expect(await balanceOf(id)).toBe('100 0')
  })

  test('§13: between reservations and charges of the same customer no wei is lost', async () => {
    const { id } = await credited('100000')
    const charges = Array.from({ length: 24 }, () =>
      payFor(gateway.database, { customerId: id, nodeId: 'node_a', amountWei: 7n }),
    )
    const debits = await Promise.all(
      Array.from({ length: 24 }, (_, at) => debit(id, { amount_wei: '100' }, at % 2 ? gateway : other)),
    )
    await Promise.all(charges)
    expect(debits.map(({ status }) => status)).toEqual(new Array(24).fill(201))
    expect(await balanceOf(id)).toBe(`${100_000 - 24 * 107} 0`)
  })

  test.each([
    [{ amount_wei: '0' }, 'amount_wei'],
    [{ amount_wei: '-1' }, 'amount_wei'],
    [{ amount_wei: (2n ** 256n).toString() }, 'amount_wei'],
    [{ amount_wei: '1', debit_id: 'a.b' }, 'debit_id'],
    [{ amount_wei: '1', credit_id: 'a' }, 'credit_id'],
    [{ amount_wei: '1', reason: 'r'.repeat(501) }, 'reason'],
  ])('§23: 400 for %j', async (body, at) => {
    const { id } = await credited('5')
    const refused = await debit(id, body)
    const problem = await json(refused)
    expect([refused.status, problem.code]).toEqual([400, 'invalid_request'])
    expect(JSON.stringify(problem)).toContain(at)
    expect(await balanceOf(id)).toBe('5 0')
  })

  test('§23: 404 for an unknown customer, 403 for an operator', async () => {
    expect(await codeOf(await debit('cus_none', { amount_wei: '1' }))).toEqual([404, 'customer_not_found'])
    const { id } = await credited('5')
    const path = `/v1/admin/customers/${id}/debits`
    expect((await gateway.ask('POST', path, { as: 'operator', json: { amount_wei: '1' } })).status).toBe(403)
  })

  // The connection dies at the statement itself: nothing of what was written before it may stay.
  test.each([
    ['customers', 'update'],
    ['ledger_rows', 'insert'],
    ['admin_approval_events', 'insert'],
  ])('§16: a crash at its change of %s leaves nothing, and the next try does all of it', async (table, verb) => {
    const { id } = await credited('1000')
    const body = { debit_id: `crash-${table}`, amount_wei: '300' }
    const { sql } = gateway.database
    await sql.unsafe(`
      create or replace function die() returns trigger language plpgsql as
        $$ begin perform pg_terminate_backend(pg_backend_pid()); return new; end $$;
      create trigger die after ${verb} on ${table} for each row execute function die();`)
    expect(await codeOf(await debit(id, body))).toEqual([503, 'service_unavailable'])
    await sql.unsafe(`drop trigger die on ${table}`)
    expect([await balanceOf(id), await debitsOf(id), await eventsOf(id)]).toEqual(['1000 0', [], []])
    expect((await debit(id, body)).status).toBe(201)
    expect([await balanceOf(id), (await eventsOf(id)).length]).toEqual(['700 0', 1])
  })
})

describe('§13, §31: whoever looks sees it', () => {
  test('§31: usage, exports, proof and log have it; invoice and treasury, which are about work, do not', async () => {
    const before = await read('/v1/admin/billing/treasury-report')
    const { id, token } = await credited('1000')
    const { debit_id, created_at } = await json(await debit(id, { amount_wei: '300', reason: 'paid twice' }))
    const own = await json(
      await gateway.ask('GET', '/v1/billing/usage', {
        headers: { 'x-svc-customer-id': id, 'x-svc-customer-token': token },
      }),
    )
    expect((own.entries as object[])[0]).toEqual({
      entry_id: debit_id,
      private_job_id: null,
      receipt_hash: null,
      kind: 'admin_debit',
      amount_wei: '300',
      balance_after_wei: '700',
      reserved_after_wei: '0',
      created_at,
    })
    expect(own.totals).toContainEqual({ kind: 'admin_debit', count: 1, amount_wei: '300' })
    const usage = await read(`/v1/admin/customers/${id}/usage-export`)
    expect(faultsOf(UsageExport, usage)).toEqual([])
    const csv = await (
      await gateway.ask('GET', `/v1/admin/customers/${id}/usage-export?format=csv`, { as: 'operator' })
    ).text()
    expect(csv.split('\r\n')[1]).toContain('"admin_debit","300","700","0"')
    const invoice = await read(`/v1/admin/customers/${id}/invoice`)
    expect([faultsOf(Invoice, invoice), invoice.count, invoice.total_wei]).toEqual([[], 0, '0'])
    const after = await read('/v1/admin/billing/treasury-report')
    expect(after.totals).toEqual(before.totals as object)

    const proof = await read('/v1/admin/ledger/proof')
    expect(faultsOf(LedgerProof, proof)).toEqual([])
    expect(proof).toMatchObject({ balanced: true, broken_rules: [] })
    expect(BigInt(String(proof.admin_debits_wei))).toBeGreaterThanOrEqual(300n)

    const logged = ledgerEntryHash({
      kind: 'admin_debit',
      entryId: String(debit_id),
      customerId: id,
      amountWei: '300',
      reason: 'paid twice',
      receiptHash: null,
      createdAt: new Date(String(created_at)),
    })
    // The other gateway may sequence just now.
    const place = await waitFor('its entry in the log', async () => {
      await gateway.gateway.sequencer.catchUp()
      const answer = await gateway.ask('GET', `/v1/public/log/proof?hash=${logged}`)
      return answer.ok ? json(answer) : undefined
    })
    expect(place.entry).toBe(`svc-log-v1:admin_debit:${logged}`)
  })
})

test('§31: a gateway of a version before takes the part of the ledger and leaves its entry out; the next one adds it', async () => {
  await using own = await scoped(startTestGateway())
  const { sql } = own.database
  const logged = async () =>
    (
      await sql<
        { kind: string }[]
      >`select kind from log_entries where kind in ('credit', 'admin_debit') order by entry_index`
    ).map(({ kind }) => kind)
  // The gateway's own look at the log may have met the lock below, and this one that look.
  const caughtUp = (entries: number) =>
    waitUntil('the entries in the log', async () => {
      await own.gateway.sequencer.catchUp()
      return (await logged()).length >= entries
    })
  const ask = (path: string, body: object) => own.ask('POST', `/v1/admin/customers${path}`, { as: 'admin', json: body })
  const { customer_id: id } = await json(await ask('', { display_name: 'Ada' }))
  await sql.begin(async (tx) => {
    // No gateway goes on with the log meanwhile.
    await tx`select pg_advisory_xact_lock(7413, 80)`
    for (const what of ['credits', 'debits']) await ask(`/${String(id)}/${what}`, { amount_wei: '5' })
    await tx`set local session_replication_role = 'replica'`
    await tx`update ledger_rows set kind = 'not known yet', reservation_id = 'none' where kind = 'admin_debit'`
  })
  await caughtUp(1)
  expect(await logged()).toEqual(['credit'])
  await sql.begin(async (tx) => {
    await tx`set local session_replication_role = 'replica'`
    await tx`update ledger_rows set kind = 'admin_debit', reservation_id = null where kind = 'not known yet'`
  })
  await caughtUp(2)
  expect(await logged()).toEqual(['credit', 'admin_debit'])
})
