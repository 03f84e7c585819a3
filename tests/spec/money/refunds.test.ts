import { afterEach, describe, expect, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { ledgerEntryHash } from '../../../src/protocol/log/entry-facts.ts'
import { Invoice, UsageExport } from '../../../src/protocol/wire/money/billing.ts'
import { Costs } from '../../../src/protocol/wire/money/costs.ts'
import { LedgerProof, TreasuryReport } from '../../../src/protocol/wire/money/money.ts'
import {
  HeldReceiptList,
  type HeldReceiptList as HeldReceiptListBody,
  ReceiptDecision,
} from '../../../src/protocol/wire/money/receipt.ts'
import { commandLine } from '../../cli/command-line.ts'
import { newAccount } from '../../support/gateways/accounts.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { expectBooksBalance } from '../../support/money/ledger.ts'
import { payFor } from '../../support/money/money.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitFor } from '../../support/run/wait-until.ts'

const gateway = await fixture(startTestGateway())
/** Another gateway on the same database. */
const other = await fixture(startTestGateway({}, undefined, { beside: gateway }))

afterEach(async () => {
  await expectBooksBalance(gateway.database.db)
  await gateway.gateway.sequencer.catchUp({ heads: true })
  expect((await gateway.gateway.checkBooks()).faults).toEqual([])
})

const payer = (wei = '1000') => newAccount(gateway, wei)
const pay = (customerId: string, amountWei: bigint, more: { held?: boolean; feeBps?: number } = {}) =>
  payFor(gateway.database, { customerId, nodeId: 'node_a', amountWei, held: true, ...more })
const decide = (hash: string, verb: 'release' | 'reject', at = gateway) =>
  at.ask('POST', `/v1/admin/receipts/${hash}/${verb}`, { as: 'admin', json: { reason: 'it cannot be' } })
const codeOf = async (response: Response) => [response.status, (await json(response)).code]
const read = async (path: string) => json(await gateway.ask('GET', path, { as: 'operator' }))

async function balanceOf(id: string): Promise<string> {
  const [row] = await gateway.database.sql<{ balance: string; reserved: string }[]>`
    select balance_wei::text balance, reserved_wei::text reserved from customers where customer_id = ${id}`
  return `${row?.balance} ${row?.reserved}`
}

/** Everything that a decision may change. */
async function rowsOf(hash: string) {
  const { sql } = gateway.database
  const [receipt] = await sql`select status from receipts where receipt_hash = ${hash}`
  const payouts = await sql`select settlement_status as status, held from payouts where receipt_hash = ${hash}`
  const fees = await sql`select status from protocol_fees where receipt_hash = ${hash}`
  const refunds = await sql`select amount_wei::text as wei, balance_after_wei::text as balance from ledger_entries
    where kind = 'refund' and receipt_hash = ${hash}`
  const events = await sql`select metadata from admin_approval_events where target_id = ${hash}`
  return {
    receipt: receipt?.status,
    payouts: [...payouts],
    fees: [...fees],
    refunds: [...refunds],
    events: events.length,
  }
}

describe('§23: receipts on hold are listed until somebody decides', () => {
  const list = async (as: 'viewer' | 'operator' = 'operator') => {
    const body = await json(await gateway.ask('GET', '/v1/admin/held-receipts?limit=1000', { as }))
    expect(Value.Check(HeldReceiptList, body)).toBe(true)
    return (body as unknown as HeldReceiptListBody).receipts
  }

  test('newest first with what hangs on the decision; a viewer does not see whose they are', async () => {
    const { id } = await payer()
    const before = (await list()).map(({ receipt_hash: hash }) => hash)
    const first = await pay(id, 300n, { feeBps: 1_000 })
    const second = await pay(id, 20n)
    const plain = await pay(id, 5n, { held: false })
    const own = async () => (await list()).filter(({ receipt_hash: hash }) => !before.includes(hash))
    expect(await own()).toMatchObject([
      { receipt_hash: second, customer_id: id, node_id: 'node_a', debit_wei: '20' },
      { receipt_hash: first, customer_id: id, debit_wei: '300', payout_wei: '270' },
    ])
    expect((await list('viewer')).every(({ customer_id: customer }) => customer === null)).toBe(true)
    await decide(first, 'reject')
    expect((await own()).map(({ receipt_hash: hash }) => hash)).toEqual([second])
    const cli = commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.admin })
    const shown = await cli.run(['payouts', 'held'])
    expect([shown.out.includes(second), shown.out.includes(first), shown.out.includes(plain)]).toEqual([
      true,
      false,
      false,
    ])
    const rejected = await cli.run(['payouts', 'reject', second, '--yes', '--reason', 'it cannot be'])
    expect([rejected.code, rejected.out.includes('20 wei')]).toEqual([0, true])
    expect(await own()).toEqual([])
    const released = await pay(id, 7n)
    expect(await cli.run(['payouts', 'release', released, '--yes'])).toMatchObject({ code: 0 })
    expect((await rowsOf(released)).receipt).toBe('accepted')
    cli.close()
  })
})

describe('§14: a rejected receipt gives the debit back', () => {
  test('balance, payout, fee, entry and event, in one', async () => {
    const { id } = await payer()
    const hash = await pay(id, 300n)
    expect(await balanceOf(id)).toBe('700 0')
    const response = await decide(hash, 'reject')
    const body = await json(response)
    expect([...Value.Errors(ReceiptDecision, body)]).toEqual([])
    expect([response.status, body]).toEqual([
      200,
      { object: 'svc.admin.receipt', receipt_hash: hash, status: 'rejected', refunded_wei: '300' },
    ])
    expect(await balanceOf(id)).toBe('1000 0')
    expect(await rowsOf(hash)).toEqual({
      receipt: 'rejected',
      payouts: [{ status: 'void', held: true }],
      fees: [{ status: 'refunded' }],
      refunds: [{ wei: '300', balance: '1000' }],
      events: 1,
    })
    const [entry] = await gateway.database.sql`select e.metadata, d.reservation_id = r.reservation_id as same
      from admin_approval_events e, ledger_entries r
        join ledger_entries d on d.receipt_hash = r.receipt_hash and d.kind = 'debit'
      where e.target_id = ${hash} and r.kind = 'refund' and r.receipt_hash = ${hash}`
    expect(entry).toMatchObject({ metadata: { result: 'rejected', amount_wei: '300' }, same: true })
  })

  test.each([
    ['all of it the operator’s', 10_000],
    ['all of it the node’s', 0],
  ])('where a debit was %s', async (_, feeBps) => {
    const { id } = await payer()
    const hash = await pay(id, 300n, { feeBps })
    expect((await decide(hash, 'reject')).status).toBe(200)
    expect(await balanceOf(id)).toBe('1000 0')
  })

  test('once: a second rejection and a release find it decided', async () => {
    const { id } = await payer()
    const hash = await pay(id, 300n)
    await decide(hash, 'reject')
    for (const verb of ['reject', 'release'] as const) {
      expect(await codeOf(await decide(hash, verb))).toEqual([409, 'invalid_state'])
    }
    expect(await balanceOf(id)).toBe('1000 0')
    expect((await rowsOf(hash)).events).toBe(1)
  })

  test('a released one is not taken back, and gives nothing', async () => {
    const { id } = await payer()
    const hash = await pay(id, 300n)
    expect(await json(await decide(hash, 'release'))).toMatchObject({ status: 'accepted', refunded_wei: '0' })
    expect(await codeOf(await decide(hash, 'reject'))).toEqual([409, 'invalid_state'])
    expect(await balanceOf(id)).toBe('700 0')
    expect(await rowsOf(hash)).toMatchObject({ receipt: 'accepted', payouts: [{ held: false }], refunds: [] })
  })

  test('one that nobody holds, that is free or that is none is refused', async () => {
    const { id } = await payer()
    const accepted = await pay(id, 100n, { held: false })
    expect(await codeOf(await decide(accepted, 'reject'))).toEqual([409, 'invalid_state'])
    expect(await codeOf(await decide(`0x${'ab'.repeat(32)}`, 'reject'))).toEqual([404, 'receipt_not_found'])
    await gateway.database.sql`update receipts set status = 'held', billed = false where receipt_hash = ${accepted}`
    expect(await codeOf(await decide(accepted, 'reject'))).toEqual([404, 'receipt_not_found'])
    await gateway.database.sql`update receipts set status = 'accepted', billed = true where receipt_hash = ${accepted}`
    expect(await balanceOf(id)).toBe('900 0')
  })

  test('what is in a batch stays there, though its receipt was put on hold by hand', async () => {
    const { sql } = gateway.database
    await sql`insert into nodes (node_id, customer_id, kind, name, visibility, privacy_class, node_class, payout_address)
      select 'node_paid', customer_id, 'agent', 'n', 'public', 'public', 'gpu', ${`0x${'5e'.repeat(20)}`} from customers limit 1`
    const { id } = await payer()
    const hash = await payFor(gateway.database, { customerId: id, nodeId: 'node_paid', amountWei: 100n })
    await gateway.ask('POST', '/v1/admin/payout-batches', { as: 'admin', json: {} })
    expect((await rowsOf(hash)).payouts).toEqual([{ status: 'batched', held: false }])
    await sql`update receipts set status = 'held' where receipt_hash = ${hash}`
    for (const verb of ['reject', 'release'] as const) {
      expect(await codeOf(await decide(hash, verb))).toEqual([409, 'invalid_state'])
    }
    await sql`update receipts set status = 'batched' where receipt_hash = ${hash}`
    expect(await balanceOf(id)).toBe('900 0')
  })

  test('without its debit it is refused', async () => {
    const { sql } = gateway.database
    const { id } = await payer()
    const hash = await pay(id, 100n)
    const stranger = await payer()
    await sql`update receipts set customer_id = ${stranger.id} where receipt_hash = ${hash}`
    expect(await codeOf(await decide(hash, 'reject'))).toEqual([409, 'invalid_state'])
    await sql`update receipts set customer_id = ${id} where receipt_hash = ${hash}`
    expect(await balanceOf(stranger.id)).toBe('1000 0')
  })

  test('a balance that cannot take it is refused, and nothing has changed', async () => {
    const { id } = await payer((2n ** 256n - 1n).toString())
    const hash = await pay(id, 100n)
    await gateway.ask('POST', `/v1/admin/customers/${id}/credits`, { as: 'admin', json: { amount_wei: '1' } })
    expect(await codeOf(await decide(hash, 'reject'))).toEqual([409, 'invalid_state'])
    expect(await rowsOf(hash)).toMatchObject({
      receipt: 'held',
      payouts: [{ status: 'pending' }],
      refunds: [],
      events: 0,
    })
  })

  test('two gateways at once: one refund', async () => {
    const { id } = await payer()
    const hash = await pay(id, 300n)
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, at) => decide(hash, 'reject', at % 2 === 0 ? gateway : other)),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...new Array(11).fill(409)])
    expect(await balanceOf(id)).toBe('1000 0')
    expect((await rowsOf(hash)).refunds).toHaveLength(1)
  })

  test('a release and a rejection at once: one of them', async () => {
    for (let round = 0; round < 6; round++) {
      const { id } = await payer()
      const hash = await pay(id, 300n)
      const answers = await Promise.all([decide(hash, 'reject'), decide(hash, 'release', other)])
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 409])
      expect(await balanceOf(id)).toBe(answers[0]?.status === 200 ? '1000 0' : '700 0')
    }
  })

  test('between charges of the same customer: no wei is lost, on two gateways', async () => {
    const { id } = await payer('100000')
    const hashes = await Promise.all(Array.from({ length: 16 }, () => pay(id, 100n)))
    const charges = Array.from({ length: 16 }, () => pay(id, 7n, { held: false }))
    const answers = await Promise.all(hashes.map((hash, at) => decide(hash, 'reject', at % 2 === 0 ? gateway : other)))
    expect(answers.map(({ status }) => status)).toEqual(new Array(16).fill(200))
    await Promise.all(charges)
    expect(await balanceOf(id)).toBe(`${100_000 - 16 * 7} 0`)
  })

  // The connection dies at the statement itself: nothing of what was written before it may stay.
  test.each([
    ['receipt_rows', 'update'],
    ['payout_rows', 'update'],
    ['fee_rows', 'update'],
    ['customers', 'update'],
    ['ledger_rows', 'insert'],
    ['admin_approval_events', 'insert'],
  ])('a crash at its change of %s leaves nothing, and the next try does all of it', async (table, verb) => {
    const { id } = await payer()
    const hash = await pay(id, 300n)
    const { sql } = gateway.database
    await sql.unsafe(`
      create or replace function die() returns trigger language plpgsql as
        $$ begin perform pg_terminate_backend(pg_backend_pid()); return new; end $$;
      create trigger die after ${verb} on ${table} for each row execute function die();`)
    const refused = await decide(hash, 'reject')
    expect(await codeOf(refused)).toEqual([503, 'service_unavailable'])
    await sql.unsafe(`drop trigger die on ${table}`)
    expect(await balanceOf(id)).toBe('700 0')
    expect(await rowsOf(hash)).toMatchObject({
      receipt: 'held',
      payouts: [{ status: 'pending', held: true }],
      fees: [{ status: 'earned' }],
      refunds: [],
      events: 0,
    })
    expect((await decide(hash, 'reject')).status).toBe(200)
    expect(await balanceOf(id)).toBe('1000 0')
  })

  test('the table takes no second refund of a receipt, whoever writes it', async () => {
    const { id } = await payer()
    const hash = await pay(id, 300n)
    await decide(hash, 'reject')
    const again = gateway.database
      .sql`insert into ledger_entries (entry_id, customer_id, kind, amount_wei, balance_after_wei,
        reserved_after_wei, reservation_id, receipt_hash)
      select 'led_twice', customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei, 'another', receipt_hash
      from ledger_entries where kind = 'refund' and receipt_hash = ${hash}`
    expect(
      await again.then(
        () => null,
        ({ code }: { code: string }) => code,
      ),
    ).toBe('23505')
  })
})

describe('§13, §31: whoever looks sees it', () => {
  test('ledger, exports, invoice, costs, treasury, proof and log', async () => {
    const before = await read('/v1/admin/billing/treasury-report')
    const { id, token } = await payer()
    const kept = await pay(id, 200n, { held: false })
    const hash = await pay(id, 300n)
    await decide(hash, 'reject')

    const own = await json(
      await gateway.ask('GET', '/v1/billing/usage', {
        headers: { 'x-svc-customer-id': id, 'x-svc-customer-token': token },
      }),
    )
    const [newest] = own.entries as Record<string, string>[]
    expect(newest).toMatchObject({
      kind: 'refund',
      receipt_hash: hash,
      amount_wei: '300',
      balance_after_wei: '800',
      reserved_after_wei: '0',
    })
    expect(own.totals).toContainEqual({ kind: 'refund', count: 1, amount_wei: '300' })

    const usage = await read(`/v1/admin/customers/${id}/usage-export`)
    expect([...Value.Errors(UsageExport, usage)].filter(({ message }) => !message.includes('format'))).toEqual([])
    expect((usage.usage as { entries: unknown[] }).entries[0]).toEqual(newest)
    const csv = async (path: string) =>
      (await (await gateway.ask('GET', `${path}?format=csv`, { as: 'operator' })).text()).split('\r\n')
    expect((await csv(`/v1/admin/customers/${id}/usage-export`))[1]).toContain(`"${hash}","refund","300","800","0"`)

    const invoice = await read(`/v1/admin/customers/${id}/invoice`)
    expect([...Value.Errors(Invoice, invoice)].filter(({ message }) => !message.includes('format'))).toEqual([])
    expect(invoice).toMatchObject({ total_wei: '500', refunded_wei: '300', count: 2 })
    expect((invoice.lines as Record<string, string>[]).map((line) => [line.receipt_hash, line.refunded_wei])).toEqual([
      [hash, '300'],
      [kept, '0'],
    ])
    expect((await csv(`/v1/admin/customers/${id}/invoice`))[1]).toEndWith(`"300","${hash}","300"`)

    for (const by of ['customer', 'model', 'month']) {
      const costs = await read(`/v1/admin/billing/costs?by=${by}&limit=1000`)
      expect([...Value.Errors(Costs, costs)].filter(({ message }) => !message.includes('format'))).toEqual([])
      const own = by === 'customer' ? (costs.costs as { key: string }[]).filter(({ key }) => key === id) : costs.costs
      if (by === 'customer') expect(own).toMatchObject([{ count: 2, amount_wei: '500', refunded_wei: '300' }])
      else expect(Number((own as { refunded_wei: string }[])[0]?.refunded_wei)).toBeGreaterThanOrEqual(300)
    }

    const after = await read('/v1/admin/billing/treasury-report')
    expect([...Value.Errors(TreasuryReport, after)].filter(({ message }) => !message.includes('format'))).toEqual([])
    const rise = (name: string) =>
      BigInt((after.totals as Record<string, string>)[name] ?? 0) -
      BigInt((before.totals as Record<string, string>)[name] ?? 0)
    expect([
      rise('customer_debits_wei'),
      rise('customer_refunds_wei'),
      rise('node_payouts_wei'),
      rise('protocol_fees_wei'),
    ]).toEqual([500n, 300n, 180n, 20n])
    expect(JSON.stringify(after.recent_protocol_fees)).not.toContain(hash)

    const proof = await read('/v1/admin/ledger/proof')
    expect([...Value.Errors(LedgerProof, proof)].filter(({ message }) => !message.includes('format'))).toEqual([])
    expect(proof).toMatchObject({ balanced: true, broken_rules: [] })
    expect(BigInt(String(proof.refunds_wei))).toBeGreaterThanOrEqual(300n)

    const logged = ledgerEntryHash({
      kind: 'refund',
      reason: null,
      entryId: newest?.entry_id ?? '',
      customerId: id,
      receiptHash: hash,
      amountWei: '300',
      createdAt: new Date(newest?.created_at ?? ''),
    })
    // The other gateway may be at the log.
    const place = await waitFor('the entry', async () => {
      await gateway.gateway.sequencer.catchUp()
      const answer = await gateway.ask('GET', `/v1/public/log/proof?hash=${logged}`)
      return answer.ok ? json(answer) : null
    })
    expect(place.entry).toBe(`svc-log-v1:refund:${logged}`)
  })

  test('by key: of the requests whose records are kept', async () => {
    const { id } = await payer()
    const hash = await pay(id, 300n)
    await decide(hash, 'reject')
    await gateway.database.sql`
      insert into request_records (request_id, at, customer_id, key_id, operation, stream, tries, queue_ms, duration_ms,
        prompt_tokens, completion_tokens, status, cost_wei, receipt_hash)
      values ('req_refunded', now() - interval '1 second', ${id}, 'key_refunded', 'chat', false, 1, 0, 1, 10, 5, 200, 300, ${hash})`
    const { costs } = (await read('/v1/admin/billing/costs?by=key')) as { costs: { key: string }[] }
    expect(costs.filter(({ key }) => key === 'key_refunded')).toMatchObject([
      { amount_wei: '300', refunded_wei: '300' },
    ])
  })
})

/** As a version without refunds left it: the share became a fee. */
async function rejectedBefore(hash: string, status: 'kept' | 'earned'): Promise<void> {
  const { sql } = gateway.database
  await sql`update receipts set status = 'rejected' where receipt_hash = ${hash}`
  const [payout] = await sql<{ wei: string }[]>`update payouts set settlement_status = 'void'
    where receipt_hash = ${hash} returning amount_wei::text as wei`
  await sql`insert into protocol_fees (entry_id, receipt_hash, amount_wei) values (${`fee_${hash}`}, ${hash}, ${payout?.wei ?? 0})`
  await sql`update protocol_fees set status = ${status} where receipt_hash = ${hash}`
}

describe('receipts that a version without refunds rejected', () => {
  test('those of before the upgrade break no rule, and are given back when somebody rejects them again', async () => {
    const { id } = await payer()
    const hash = await pay(id, 300n)
    await rejectedBefore(hash, 'kept')
    await gateway.gateway.sequencer.catchUp()
    await expectBooksBalance(gateway.database.db)
    expect((await gateway.gateway.checkBooks()).faults).toEqual([])
    expect(await json(await decide(hash, 'reject'))).toMatchObject({ refunded_wei: '300' })
    expect(await balanceOf(id)).toBe('1000 0')
    expect((await rowsOf(hash)).fees).toEqual([{ status: 'refunded' }, { status: 'refunded' }])
  })

  test('those of a gateway that was not upgraded yet are named until somebody does', async () => {
    const { id } = await payer()
    const hash = await pay(id, 300n)
    await rejectedBefore(hash, 'earned')
    expect((await gateway.gateway.checkBooks()).faults).toEqual([
      { rule: 'every rejected receipt was given back', subject: hash },
    ])
    expect((await decide(hash, 'reject')).status).toBe(200)
    expect(await balanceOf(id)).toBe('1000 0')
  })
})
