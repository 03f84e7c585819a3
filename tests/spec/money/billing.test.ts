import { describe, expect, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { Ledger } from '../../../src/actors/money/ledger.ts'
import { csvText } from '../../../src/http/frame/csv.ts'
import { createLog } from '../../../src/log.ts'
import {
  Credit,
  CustomerAccount,
  CustomerUsage,
  Invoice,
  UsageExport,
} from '../../../src/protocol/wire/money/billing.ts'
import { Costs } from '../../../src/protocol/wire/money/costs.ts'
import { LedgerProof, TreasuryReport } from '../../../src/protocol/wire/money/money.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { expectBooksBalance } from '../../support/money/ledger.ts'
import { payFor } from '../../support/money/money.ts'
import { testMacs } from '../../support/money/receipt-macs.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const gateway = await fixture(startTestGateway({ SVC_AUTH_FAILURES_PER_MINUTE: '10000' }), ({ database }) =>
  expectBooksBalance(database.db),
)

interface Customer {
  readonly id: string
  readonly headers: Readonly<Record<string, string>>
}

async function customer(policy?: object): Promise<Customer> {
  const made = await json(
    await gateway.ask('POST', '/v1/admin/customers', {
      as: 'admin',
      json: { display_name: 'Ada', ...(policy === undefined ? {} : { gateway_policy: policy }) },
    }),
  )
  const id = String(made.customer_id)
  return { id, headers: { 'x-svc-customer-id': id, 'x-svc-customer-token': String(made.customer_token) } }
}

const credit = (id: string, body: unknown) =>
  gateway.ask('POST', `/v1/admin/customers/${id}/credits`, { as: 'admin', json: body })
const ask = (path: string, { headers }: Customer) => gateway.ask('GET', path, { headers })

describe('endpoint 14: credit', () => {
  test('every field of the record, and the balance after it', async () => {
    const { id } = await customer()
    const response = await credit(id, { credit_id: 'inv-1', amount_wei: '1000', reason: 'paid\u0007 by card' })
    expect(response.status).toBe(201)
    const body = await json(response)
    expect(body).toEqual({
      status: 'credited',
      customer_id: id,
      credit_id: 'inv-1',
      amount_wei: '1000',
      balance_after_wei: '1000',
      reserved_after_wei: '0',
      reason: 'paid by card',
      created_at: body.created_at,
    })
    expect([...Value.Errors(Credit, body)].filter(({ message }) => !message.includes('format'))).toEqual([])
    expect(response.headers.get('idempotent-replayed')).toBeNull()
  })

  test('§13: the same id credits once, with the same body; with another amount or customer it is refused', async () => {
    const [one, two] = [await customer(), await customer()]
    const first = await json(await credit(one.id, { credit_id: 'once', amount_wei: '7', reason: 'a' }))
    const again = await credit(one.id, { credit_id: 'once', amount_wei: '7', reason: 'b' })
    expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([201, 'true'])
    expect(await json(again)).toEqual(first)
    for (const [id, amount] of [
      [one.id, '8'],
      [two.id, '7'],
    ] as const) {
      const refused = await credit(id, { credit_id: 'once', amount_wei: amount })
      expect([refused.status, (await json(refused)).code]).toEqual([409, 'credit_id_conflict'])
    }
    expect(await json(await ask('/v1/billing/account', one))).toMatchObject({ balance_wei: '7' })
  })

  test('twenty at once with one id are one credit', async () => {
    const one = await customer()
    const all = await Promise.all(
      Array.from({ length: 20 }, () => credit(one.id, { credit_id: 'race', amount_wei: '5' })),
    )
    expect(all.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 201))
    expect(all.filter(({ headers }) => headers.get('idempotent-replayed') === null)).toHaveLength(1)
    expect(await json(await ask('/v1/billing/account', one))).toMatchObject({ balance_wei: '5' })
  })

  test('without an id one is made', async () => {
    const { id } = await customer()
    expect(await json(await credit(id, { amount_wei: '1' }))).toMatchObject({
      credit_id: expect.stringMatching(/^led_[0-9A-Z]{26}$/),
      reason: null,
    })
  })

  const most = (2n ** 256n - 1n).toString()
  test.each([
    [{ amount_wei: '0' }, 'amount_wei'],
    [{ amount_wei: '-1' }, 'amount_wei'],
    [{ amount_wei: '01' }, 'amount_wei'],
    [{ amount_wei: '1e3' }, 'amount_wei'],
    [{ amount_wei: 1 }, 'amount_wei'],
    [{ amount_wei: (2n ** 256n).toString() }, 'amount_wei'],
    [{}, 'amount_wei'],
    [{ amount_wei: '1', credit_id: 'a.b' }, 'credit_id'],
    [{ amount_wei: '1', credit_id: 'a'.repeat(65) }, 'credit_id'],
    [{ amount_wei: '1', reason: 'r'.repeat(501) }, 'reason'],
    [{ amount_wei: '1', note: 'x' }, 'note'],
  ])('400 for %j', async (body, at) => {
    const { id } = await customer()
    const refused = await credit(id, body)
    expect(refused.status).toBe(400)
    const problem = await json(refused)
    expect(problem.code).toBe('invalid_request')
    expect(JSON.stringify(problem)).toContain(at)
  })

  test('the largest amount is exact, and one wei more than a balance can be is refused', async () => {
    const one = await customer()
    expect(await json(await credit(one.id, { amount_wei: most }))).toMatchObject({ balance_after_wei: most })
    const refused = await credit(one.id, { amount_wei: '1' })
    expect([refused.status, (await json(refused)).code]).toEqual([400, 'invalid_request'])
    expect(await json(await ask('/v1/billing/account', one))).toMatchObject({ balance_wei: most })
  })

  test('404 for an unknown customer, 403 for an operator', async () => {
    expect((await json(await credit('cus_none', { amount_wei: '1' }))).code).toBe('customer_not_found')
    const { id } = await customer()
    const path = `/v1/admin/customers/${id}/credits`
    const refused = await gateway.ask('POST', path, { as: 'operator', json: { amount_wei: '1' } })
    expect(refused.status).toBe(403)
  })
})

describe('endpoints 11 and 12: account and usage', () => {
  test('every field, with rows behind it', async () => {
    const one = await customer({ policy_version: 'gateway_policy_v1', daily_token_quota: 5 })
    await credit(one.id, { amount_wei: '1000', credit_id: `c-${one.id.slice(4)}` })
    const hash = await payFor(gateway.database, { customerId: one.id, nodeId: 'node_a', amountWei: 100n })
    const open = `req_${one.id.slice(4)}`
    await gateway.gateway.ledger.reserve({ id: open, customerId: one.id, amountWei: 30n })
    const account = await json(await ask('/v1/billing/account', one))
    expect(account).toEqual({
      status: 'ok',
      customer_id: one.id,
      display_name: 'Ada',
      account_status: 'active',
      balance_wei: '900',
      reserved_wei: '30',
      available_wei: '870',
      gateway_policy: {
        policy_version: 'gateway_policy_v1',
        allow_external: false,
        allow_wake: true,
        allowed_models: null,
        denied_models: [],
        route_tiers: [],
        min_privacy_class: 'private',
        node_scope: null,
        max_tokens_per_request: null,
        daily_token_quota: 5,
        rate_limit_rpm: null,
        max_concurrency: null,
        mixture: { enabled: true, max_experts: 4 },
      },
    })
    expect(Value.Check(CustomerAccount, account)).toBe(true)
    const usage = (await json(await ask('/v1/billing/usage', one))) as never as {
      entries: Record<string, unknown>[]
      totals: unknown[]
    }
    expect(Object.keys(usage).sort()).toEqual([
      'customer_id',
      'entries',
      'generated_at',
      'next_cursor',
      'status',
      'totals',
      'truncated',
    ])
    expect(Object.keys(usage).sort()).toEqual(Object.keys(CustomerUsage.properties).sort())
    expect(usage).toMatchObject({
      status: 'ok',
      customer_id: one.id,
      totals: [
        { kind: 'admin_credit', count: 1, amount_wei: '1000' },
        { kind: 'debit', count: 1, amount_wei: '100' },
        { kind: 'reserve', count: 2, amount_wei: '130' },
      ],
    })
    expect(
      usage.entries.map(({ kind, amount_wei, balance_after_wei, reserved_after_wei }) => [
        kind,
        amount_wei,
        balance_after_wei,
        reserved_after_wei,
      ]),
    ).toEqual([
      ['reserve', '30', '900', '30'],
      ['debit', '100', '900', '0'],
      ['reserve', '100', '1000', '100'],
      ['admin_credit', '1000', '1000', '0'],
    ])
    expect(usage.entries[1]).toEqual({
      entry_id: expect.stringMatching(/^led_/),
      private_job_id: null,
      receipt_hash: hash,
      kind: 'debit',
      amount_wei: '100',
      balance_after_wei: '900',
      reserved_after_wei: '0',
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    })
    const limited = (await json(await ask('/v1/billing/usage?limit=1', one))) as {
      entries: unknown[]
      totals: unknown[]
    }
    expect([limited.entries.length, limited.totals.length]).toEqual([1, 3])
    await gateway.database
      .sql`update reservations set expires_at = now() - interval '1 s' where reservation_id = ${open}`
  })

  test('the window leaves out what is older', async () => {
    const one = await customer()
    await gateway.database.sql`update customers set balance_wei = 9 where customer_id = ${one.id}`
    await gateway.database.sql`insert into ledger_entries (entry_id, customer_id, kind, amount_wei, balance_after_wei,
      reserved_after_wei, created_at) values (${`old-${one.id}`}, ${one.id}, 'admin_credit', 9, 9, 0, now() - interval '2 days')`
    const of = async (days: number) =>
      ((await json(await ask(`/v1/billing/usage?window_days=${days}`, one))) as { entries: unknown[] }).entries.length
    expect([await of(1), await of(2), await of(3)]).toEqual([0, 0, 1])
  })

  test.each([
    'window_days=0',
    'window_days=366',
    'window_days=1&window_days=2',
    'window_days=1e0',
    'limit=0',
    'limit=501',
    'limit=',
    'limit=5.0',
  ])('§17: 400 for %s', async (query) => {
    const refused = await ask(`/v1/billing/usage?${query}`, await customer())
    expect([refused.status, (await json(refused)).code]).toEqual([400, 'invalid_parameter'])
  })

  test.each(['window_days=1&limit=1', 'window_days=365&limit=500', 'window_days=007&other=1'])(
    '§17: 200 for %s',
    async (query) => {
      expect((await ask(`/v1/billing/usage?${query}`, await customer())).status).toBe(200)
    },
  )

  test('§4: both headers are needed; unknown id and wrong token are one answer', async () => {
    const [one, two] = [await customer(), await customer()]
    for (const path of ['/v1/billing/account', '/v1/billing/usage?limit=0']) {
      for (const lacking of ['x-svc-customer-id', 'x-svc-customer-token']) {
        const { [lacking]: _, ...headers } = one.headers
        const refused = await gateway.ask('GET', path, { headers })
        expect([refused.status, (await json(refused)).code]).toEqual([401, 'missing_credentials'])
      }
      const wrong = { ...one.headers, 'x-svc-customer-token': two.headers['x-svc-customer-token'] ?? '' }
      const unknown = { ...one.headers, 'x-svc-customer-id': 'cus_none' }
      const bodies = []
      for (const headers of [wrong, unknown]) {
        const refused = await gateway.ask('GET', path, { headers })
        const { request_id, instance, ...body } = await json(refused)
        expect(refused.status).toBe(401)
        bodies.push(body)
      }
      expect(bodies[0]).toEqual(bodies[1] as never)
      expect(bodies[0]).toMatchObject({ code: 'invalid_credentials' })
    }
  })

  test('§3: a suspended account may read them', async () => {
    const one = await customer()
    await gateway.ask('PATCH', `/v1/admin/customers/${one.id}`, { as: 'admin', json: { account_status: 'suspended' } })
    expect(await json(await ask('/v1/billing/account', one))).toMatchObject({ account_status: 'suspended' })
    expect((await ask('/v1/billing/usage', one)).status).toBe(200)
  })
})

describe('endpoint 13: usage export', () => {
  test('every field, and the same rows as CSV', async () => {
    const one = await customer()
    await credit(one.id, { amount_wei: '50' })
    const hash = await payFor(gateway.database, { customerId: one.id, nodeId: 'node_a', amountWei: 20n })
    const path = `/v1/admin/customers/${one.id}/usage-export`
    const body = await json(await gateway.ask('GET', path, { as: 'operator' }))
    expect(Object.keys(body).sort()).toEqual(Object.keys(UsageExport.properties).sort())
    expect(body).toMatchObject({
      object: 'svc.admin.customer_usage_export',
      export_policy: 'customer_usage_export_v1',
      contains_request_content: false,
      customer: { customer_id: one.id, display_name: 'Ada', balance_wei: '30', reserved_wei: '0', available_wei: '30' },
    })
    const { entries } = body.usage as { entries: Record<string, string | null>[] }
    const response = await gateway.ask('GET', `${path}?format=CSV`, { as: 'operator' })
    expect(response.headers.get('content-type')).toBe('text/csv; charset=utf-8; header=present')
    expect(response.headers.get('content-disposition')).toMatch(/^attachment; filename="customer-usage-\d{8}\.csv"$/)
    expect(response.headers.get('x-request-id')).toMatch(/^req_/)
    const lines = (await response.text()).split('\r\n')
    expect(lines[0]).toBe(
      '"entry_id","private_job_id","receipt_hash","kind","amount_wei","balance_after_wei","reserved_after_wei","created_at"',
    )
    expect(lines).toHaveLength(entries.length + 2)
    expect(lines[1]).toBe(`"${entries[0]?.entry_id}","","${hash}","debit","20","30","0","${entries[0]?.created_at}"`)
    const refused = await gateway.ask('GET', `${path}?format=xml`, { as: 'operator' })
    expect([refused.status, (await json(refused)).code]).toEqual([400, 'invalid_parameter'])
    expect((await gateway.ask('GET', `${path}?limit=10000`, { as: 'operator' })).status).toBe(200)
    expect((await gateway.ask('GET', `${path}?limit=10001`, { as: 'operator' })).status).toBe(400)
    const none = await gateway.ask('GET', '/v1/admin/customers/none/usage-export', { as: 'operator' })
    expect((await json(none)).code).toBe('customer_not_found')
  })

  test('§32: an invoice has a line per billed request and nothing else, and pages of both reach every line', async () => {
    const one = await customer()
    await credit(one.id, { amount_wei: '100' })
    const hashes: string[] = []
    for (const amountWei of [5n, 6n, 7n]) {
      hashes.unshift(await payFor(gateway.database, { customerId: one.id, nodeId: 'node_a', amountWei }))
    }
    const path = `/v1/admin/customers/${one.id}/invoice`
    const invoice = (await json(await gateway.ask('GET', path, { as: 'operator' }))) as unknown as Invoice
    expect([...Value.Errors(Invoice, invoice)]).toEqual([])
    expect(invoice).toMatchObject({ total_wei: '18', count: 3, truncated: false, next_cursor: null })
    expect(invoice.lines.map(({ receipt_hash }) => receipt_hash)).toEqual(hashes)
    expect(invoice.lines.map(({ amount_wei }) => amount_wei)).toEqual(['7', '6', '5'])
    const table = await (await gateway.ask('GET', `${path}?format=csv`, { as: 'operator' })).text()
    expect(
      table
        .split('\r\n')
        .slice(1, -1)
        .map((line) => line.split(',').at(-2)),
    ).toEqual(hashes.map((hash) => `"${hash}"`))
    for (const [place, linesOf] of [
      [path, ({ lines }: Record<string, unknown>) => lines as object[]],
      [
        `/v1/admin/customers/${one.id}/usage-export`,
        ({ usage }: Record<string, unknown>) => (usage as { entries: object[] }).entries,
      ],
    ] as const) {
      const whole = linesOf(await json(await gateway.ask('GET', place, { as: 'operator' })))
      const seen: object[] = []
      let next: string | null = ''
      while (next !== null) {
        const cursor: string = next === '' ? '' : `&cursor=${next}`
        const page: Record<string, unknown> = await json(
          await gateway.ask('GET', `${place}?limit=2${cursor}`, { as: 'operator' }),
        )
        seen.push(...linesOf(page))
        next = page.next_cursor as string | null
      }
      expect(seen).toEqual(whole)
      const none = linesOf(
        await json(await gateway.ask('GET', `${place}?to=${new Date(0).toISOString()}`, { as: 'operator' })),
      )
      expect(none).toEqual([])
    }
    const stranger = await gateway.ask('GET', '/v1/admin/customers/none/invoice?format=csv', { as: 'operator' })
    expect([stranger.status, (await json(stranger)).code]).toEqual([404, 'customer_not_found'])
  })

  test('§13: no cell is a formula, null is empty, quotes are doubled', () => {
    const cells = [
      '=1+1',
      '+1',
      '-1',
      '@x',
      '\tx',
      '\rx',
      '\nx',
      '\u0000=x',
      '＝1',
      '＋1',
      '－1',
      '＠1',
      'a"b',
      null,
      5,
    ]
    expect(
      csvText(
        ['c'],
        cells.map((cell) => [cell]),
      ).split('\r\n'),
    ).toEqual(
      [
        '"c"',
        '"\'=1+1"',
        '"\'+1"',
        '"\'-1"',
        '"\'@x"',
        '"\'\tx"',
        '"\'',
        'x"',
        '"\'\nx"',
        '"\'=x"',
        '"\'＝1"',
        '"\'＋1"',
        '"\'－1"',
        '"\'＠1"',
        '"a""b"',
        '""',
        '"5"',
        '',
      ]
        .join('\r\n')
        .replace('"\'\r\nx"', '"\'\rx"')
        .split('\r\n'),
    )
  })
})

describe('§32: costs', () => {
  test('what was paid in a range, by customer, model, key and month, the dearest first, and as a table', async () => {
    const [one, two] = [await customer(), await customer()]
    for (const [{ id }, amountWei] of [
      [one, 30n],
      [two, 50n],
      [one, 40n],
    ] as const) {
      await credit(id, { amount_wei: '100' })
      await payFor(gateway.database, { customerId: id, nodeId: 'node_a', amountWei })
    }
    const ask = async (query: string, as: 'operator' | 'viewer' = 'operator') =>
      gateway.ask('GET', `/v1/admin/billing/costs?${query}`, { as })
    const costs = async (query: string) => (await json(await ask(query))) as unknown as Costs
    const byCustomer = await costs('limit=1000')
    expect([...Value.Errors(Costs, byCustomer)]).toEqual([])
    const ours = byCustomer.costs.filter(({ key }) => key === one.id || key === two.id)
    expect(ours.map(({ key, name, count, amount_wei }) => [key, name, count, amount_wei])).toEqual([
      [one.id, 'Ada', 2, '70'],
      [two.id, 'Ada', 1, '50'],
    ])
    const month = new Date().toISOString().slice(0, 7)
    const byMonth = await costs('by=month')
    expect(byMonth.costs.map(({ key }) => key)).toEqual([month])
    const sum = byCustomer.costs.reduce((total, { amount_wei }) => total + BigInt(amount_wei), 0n)
    expect(byMonth.costs[0]?.amount_wei).toBe(String(sum))
    const byModel = await costs('by=model')
    expect(byModel.costs.reduce((total, { amount_wei }) => total + BigInt(amount_wei), 0n)).toBe(sum)
    expect((await costs('from=2020-05-01T00:00:00Z&to=2020-06-01T00:00:00Z')).costs).toEqual([])
    expect((await costs('limit=1')).truncated).toBe(true)
    const table = await (await ask('format=csv')).text()
    expect(table).toContain(`"${one.id}","Ada","2","70"`)
    expect((await ask('', 'viewer')).status).toBe(403)
    expect((await ask('by=moon')).status).toBe(400)
    const { sql } = gateway.database
    // Before the range ends, which is now: a row of this very millisecond would be behind it.
    const record = (id: string, keyId: string, cost: number) => sql`
      insert into request_records (request_id, at, customer_id, key_id, operation, stream, tries, queue_ms, duration_ms,
        prompt_tokens, completion_tokens, status, cost_wei)
      values (${id}, now() - interval '1 second', ${one.id}, ${keyId}, 'chat', false, 1, 0, 1, 10, 5, 200, ${cost})`
    await record('req_a', 'key_a', 3)
    await record('req_b', 'key_b', 9)
    await record('req_c', 'key_a', 4)
    const byKey = await costs('by=key')
    expect(byKey.costs).toMatchObject([
      { key: 'key_b', count: 1, amount_wei: '9', prompt_tokens: 10, completion_tokens: 5 },
      { key: 'key_a', count: 2, amount_wei: '7' },
    ])
    expect((await costs('by=key&from=2020-05-01T00:00:00Z')).kept_from).not.toBeNull()
  })
})

describe('endpoint 15: treasury report', () => {
  test('every field; debits = payouts + fees, in any window', async () => {
    const one = await customer()
    await credit(one.id, { amount_wei: '1000' })
    const hash = await payFor(gateway.database, { customerId: one.id, nodeId: 'node_a', amountWei: 199n })
    const body = (await json(
      await gateway.ask('GET', '/v1/admin/billing/treasury-report?window_days=1', { as: 'operator' }),
    )) as never as {
      totals: Record<string, string>
      settlement_statuses: Record<string, unknown>[]
      recent_protocol_fees: Record<string, unknown>[]
    }
    expect(Object.keys(body).sort()).toEqual(Object.keys(TreasuryReport.properties).sort())
    const { customer_debits_wei, node_payouts_wei, protocol_fees_wei } = body.totals
    expect(BigInt(customer_debits_wei ?? 0)).toBe(BigInt(node_payouts_wei ?? 0) + BigInt(protocol_fees_wei ?? 0))
    expect(BigInt(customer_debits_wei ?? 0)).toBeGreaterThanOrEqual(199n)
    expect(body).toMatchObject({ status: 'ok', window_days: 1 })
    expect(body.settlement_statuses).toEqual([
      {
        settlement_status: 'pending',
        payout_count: expect.any(Number),
        total_payout_wei: node_payouts_wei,
        total_amount_wei: customer_debits_wei,
      },
    ])
    expect(body.recent_protocol_fees[0]).toEqual({
      entry_id: expect.stringMatching(/^fee_/),
      private_job_id: null,
      receipt_hash: hash,
      amount_wei: '19',
      settlement_status: 'pending',
      created_at: expect.any(String),
    })
    expect(JSON.stringify(body)).not.toContain(one.id)
    const limited = (await json(
      await gateway.ask('GET', '/v1/admin/billing/treasury-report?limit=1', { as: 'operator' }),
    )) as never as { recent_protocol_fees: unknown[]; window_days: number }
    expect([limited.recent_protocol_fees.length, limited.window_days]).toEqual([1, 30])
  })
})

test('§23: the proof balances, and says which rule is broken when it does not', async () => {
  const proof = async () => json(await gateway.ask('GET', '/v1/admin/ledger/proof', { as: 'operator' }))
  const scrape = async () =>
    (await gateway.ask('GET', '/metrics', { headers: { authorization: `Bearer ${gateway.tokens.viewer}` } })).text()
  // Before the first proof nobody knows.
  expect(await scrape()).not.toMatch(/^svc_ledger_books_broken_rules /m)
  const good = await proof()
  expect(Object.keys(good).sort()).toEqual(Object.keys(LedgerProof.properties).sort())
  expect(good).toMatchObject({ balanced: true, broken_rules: [], customers_off: 0, entries_off: 0 })
  const one = await customer()
  await gateway.database.sql`update customers set balance_wei = 1 where customer_id = ${one.id}`
  expect(await proof()).toMatchObject({
    balanced: false,
    broken_rules: ['credits + refunds = balances + debits + admin debits', 'every balance is the sum of its entries'],
    customers_off: 1,
  })
  await gateway.database.sql`update customers set balance_wei = 0 where customer_id = ${one.id}`
  const metrics = await scrape()
  expect(metrics).toContain('svc_ledger_reserved_wei ')
  expect(metrics).toContain('svc_ledger_books_broken_rules 2')
  await proof()
  expect(await scrape()).toContain('svc_ledger_books_broken_rules 0')
  for (const status of ['created', 'submitting', 'submitted', 'completed']) {
    expect(metrics).toContain(`svc_payout_batches{status="${status}"} 0`)
  }
})

test('§13: a reservation lives for 15 minutes unless somebody renews it', async () => {
  const one = await customer()
  await credit(one.id, { amount_wei: '10' })
  const id = `req_life${one.id.slice(4)}`
  const held = await gateway.gateway.ledger.reserve({ id, customerId: one.id, amountWei: 1n })
  const left = async () =>
    (
      await gateway.database.sql<
        { minutes: number }[]
      >`select round(extract(epoch from expires_at - created_at) / 60)::int
        as minutes from reservations where reservation_id = ${id}`
    )[0]?.minutes
  await waitUntil('it is written', async () => (await left()) !== undefined)
  expect(await left()).toBe(15)
  gateway.gateway.ledger.release(held)
  const open = async () =>
    (await gateway.database.sql`select 1 from reservations where reservation_id = ${id} and status = 'open'`).length > 0
  await waitUntil('it is released', async () => !(await open()))
})

test('§18: the metrics of the ledger: what is reserved, what was asked, in how many commits, and what nobody ended', async () => {
  const metric = async (name: string) => {
    const authorization = `Bearer ${gateway.tokens.viewer}`
    const text = await (await gateway.ask('GET', '/metrics', { headers: { authorization } })).text()
    return Number(new RegExp(`^svc_ledger_${name} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN)
  }
  // The proof reads what is reserved as well; by itself that is read every few seconds.
  const reserved = async () => {
    await gateway.ask('GET', '/v1/admin/ledger/proof', { as: 'operator' })
    return metric('reserved_wei')
  }
  const one = await customer()
  await credit(one.id, { amount_wei: '1000' })
  const { ledger } = gateway.gateway
  const [before, requests, commits, stale] = [
    await reserved(),
    await metric('requests_total'),
    await metric('commits_total'),
    await metric('stale_total'),
  ]
  const held = await Promise.all(
    Array.from({ length: 5 }, (_, at) =>
      ledger.reserve({ id: `req_metric${at}${one.id.slice(4)}`, customerId: one.id, amountWei: 10n }),
    ),
  )
  // What the gateway reads by itself may have begun before, and then it writes an older sum over the proof's.
  await waitUntil('they are reserved', async () => (await reserved()) === before + 50)
  expect(await metric('requests_total')).toBe(requests + 5)
  const taken = (await metric('commits_total')) - commits
  expect([taken >= 1, taken <= 5, await metric('waiting')]).toEqual([true, true, 0])
  for (const one of held) ledger.release(one)
  await waitUntil('they are released', async () => (await reserved()) === before)
  const other = new Ledger({ macs: testMacs, ...gateway.database, log: createLog('silent', () => {}) })
  const left = `req_left${one.id.slice(4)}`
  await other.reserve({ id: left, customerId: one.id, amountWei: 7n })
  await gateway.database.sql`update reservations set expires_at = now() - interval '1 s' where reservation_id = ${left}`
  await ledger.sweep()
  expect(await metric('stale_total')).toBe(stale + 1)
  await waitUntil('nothing of it is left', async () => (await reserved()) === before)
})
