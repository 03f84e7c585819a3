import { expect } from 'bun:test'
import { tagsBetween } from '../../../src/db/queries/requests/request-groups.ts'
import { keepRequestRecords } from '../../../src/db/queries/requests/request-records.ts'
import type { CustomerRequestList } from '../../../src/protocol/wire/admin/requests.ts'
import type { CustomerUsage } from '../../../src/protocol/wire/money/billing.ts'
import type { Costs } from '../../../src/protocol/wire/money/costs.ts'
import { dayMs } from '../../../src/time.ts'
import { parseCsv } from '../clients/csv.ts'
import { json, type TestGateway } from '../gateways/http-gateway.ts'
import { insertRequests } from './request-rows.ts'

const days = 7
const creditWei = 10n ** 18n

export interface Owner {
  readonly id: string
  readonly headers: Readonly<Record<string, string>>
}

export async function makeOwners(gateway: TestGateway, names: readonly string[]): Promise<readonly Owner[]> {
  const owners: Owner[] = []
  for (const name of names) {
    const made = await gateway.ask('POST', '/v1/admin/customers', { as: 'admin', json: { display_name: name } })
    const { customer_id: id, customer_token: token } = await json(made)
    const headers = { 'x-svc-customer-id': String(id), 'x-svc-customer-token': String(token) }
    owners.push({ id: String(id), headers })
  }
  return owners
}

/**
 * So many requests of the last week before `now`, Unix ms: a row each in the table `counted_paid`, which no view reads, and from there where the
 * gateway keeps them. Each eighth is paid for, and each fortieth was given its money back.
 */
export async function insertPaid(
  { database: { db, sql } }: TestGateway,
  owners: readonly Owner[],
  rows: number,
  now: number,
): Promise<void> {
  await keepRequestRecords(db, new Date(now - days * dayMs), new Date(now), new Date(0))
  await sql`set statement_timeout = 0`
  const ids = owners.map(({ id }) => `'${id}'`).join(', ')
  await sql.unsafe(`create table counted_paid as select i, 'req_' || lpad(i::text, 26, '0') as request_id,
      (to_timestamp(${now / 1_000}) - interval '${days} days' + i * (interval '${days} days' / ${rows}))::timestamptz(3) as at,
      (array[${ids}])[1 + i % ${owners.length}] as customer_id, 'key_' || i % 7 as key_id, 'model-' || i % 11 as model,
      case when i % 10 = 1 then 429 else 200 end as status, case when i % 10 = 1 then 'rate_limited' end as code,
      case when i % 8 = 0 then (1 + i * 7919::bigint % 997)::numeric end as cost, i % 40 = 0 as refunded,
      (i % 100)::int as prompt, (i % 300)::int as completion, '0x' || lpad(to_hex(i), 64, '0') as receipt
    from generate_series(1, ${rows}) i`)
  await insertRequests(
    sql,
    `select request_id, at, customer_id, key_id, 'chat', true, model, 'node_' || i % 5, 1, 0, null, 2, 40, 900, prompt, completion, null,
      status, code, cost, case when cost is not null then receipt end, null from counted_paid`,
  )
  // All of a minute have the same tags, which stand beside their group.
  await sql.unsafe(`alter table counted_paid add tags text[]`)
  await sql.unsafe(`update counted_paid set tags = case extract(minute from at)::int % 4 when 0 then array['nightly', 'batch']
    when 2 then array['nightly'] else '{}' end`)
  await sql.unsafe(`update request_groups set shared[23] = case extract(minute from minute)::int % 4
    when 0 then 'nightly${tagsBetween}batch' else 'nightly' end where extract(minute from minute)::int % 2 = 0`)
  const entry =
    'insert into ledger_rows (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei'
  await sql.unsafe(`${entry}, created_at)
    select 'led_c' || customer_id, customer_id, 'admin_credit', ${creditWei}, ${creditWei}, 0, min(at) from counted_paid group by customer_id`)
  await sql.unsafe(`${entry}, reservation_id, receipt_hash, created_at)
    select 'led_d' || i, customer_id, 'debit', cost, ${creditWei}, 0, request_id, receipt, at from counted_paid where cost is not null order by i`)
  await sql.unsafe(`${entry}, reservation_id, receipt_hash, created_at)
    select 'led_r' || i, customer_id, 'refund', cost, ${creditWei}, 0, request_id, receipt, at from counted_paid
    where cost is not null and refunded order by i`)
  await sql.unsafe(`insert into receipt_rows (receipt_hash, issuer, request_id, kind, node_id, node_class, runtime_id, runtime_kind, model_id,
      prompt_tokens, completion_tokens, started_at, completed_at, customer_id, billed, created_at)
    select receipt, 'gateway', request_id, 'hosted_chat', 'node_1', 'gpu', 'rt_1', 'vllm', model, prompt, completion, at, at, customer_id, true, at
    from counted_paid where cost is not null`)
  await sql.unsafe('create index on counted_paid (at); analyze counted_paid, request_groups, ledger_rows, receipt_rows')
}

const iso = (ms: number) => new Date(ms).toISOString()

/** Every view of money and every view that a customer has of its own, in a range, against a count over the rows. */
export class PaidCounts {
  constructor(
    private readonly gateway: TestGateway,
    private readonly owners: readonly Owner[],
  ) {}

  async agree(fromMs: number, toMs: number): Promise<void> {
    const range = `from=${iso(fromMs)}&to=${iso(toMs)}`
    const where = `at >= '${iso(fromMs)}' and at < '${iso(toMs)}'`
    for (const by of ['customer', 'model', 'key', 'month', 'tag']) await this.costs(by, range, where)
    for (const owner of this.owners) await this.own(owner, range, `${where} and customer_id = '${owner.id}'`)
  }

  private async count(columns: string, where: string, more = '', from = 'counted_paid') {
    const rows = await this.gateway.database.sql.unsafe(`select ${columns} from ${from} where ${where} ${more}`)
    return rows as unknown as readonly Readonly<Record<string, unknown>>[]
  }

  private async costs(by: string, range: string, where: string): Promise<void> {
    const key = {
      customer: 'customer_id',
      model: 'model',
      key: 'key_id',
      month: `to_char(at at time zone 'UTC', 'YYYY-MM')`,
      tag: 'tag',
    }[by]
    const counted = await this.count(
      `${key} as key, count(*)::int as count, sum(cost)::text as amount_wei,
        coalesce(sum(cost) filter (where refunded), 0)::text as refunded_wei, sum(prompt)::int as prompt_tokens,
        sum(completion)::int as completion_tokens`,
      `${where} and cost is not null`,
      'group by 1',
      by === 'tag' ? 'counted_paid cross join unnest(tags) tag' : 'counted_paid',
    )
    const answer = await this.gateway.ask('GET', `/v1/admin/billing/costs?by=${by}&${range}&limit=1000`, {
      as: 'operator',
    })
    const { costs, truncated } = (await json(answer)) as unknown as Costs
    const byKey = (a: { readonly key?: unknown }, b: { readonly key?: unknown }) =>
      String(a.key) < String(b.key) ? -1 : 1
    const shown = costs.map(({ name: _, ...cost }) => cost).toSorted(byKey)
    expect([by, range, truncated, shown]).toEqual([
      by,
      range,
      false,
      counted.map((row) => ({ ...row })).toSorted(byKey),
    ] as never)
  }

  private async own({ headers, id }: Owner, range: string, where: string): Promise<void> {
    const read = async (path: string) => {
      const answer = await this.gateway.ask('GET', path, { headers })
      expect([path, answer.status]).toEqual([path, 200])
      return answer
    }
    const [all] = await this.count(
      `count(*)::int as requests, count(*) filter (where status = 429)::int as refused, coalesce(sum(prompt), 0)::int as prompt,
        count(cost)::int as debits, coalesce(sum(cost), 0)::text as debited, count(cost) filter (where refunded)::int as refunds,
        coalesce(sum(cost) filter (where refunded), 0)::text as refunded`,
      where,
    )
    const table = async (filter: string) => {
      const [head = [], ...lines] = parseCsv(
        await (await read(`/v1/billing/requests?format=csv&${range}${filter}`)).text(),
      )
      return { head, lines }
    }
    const { head, lines } = await table('')
    const sum = (name: string) => lines.reduce((total, line) => total + BigInt(line[head.indexOf(name)] || 0), 0n)
    const usage = (await json(await read(`/v1/billing/usage?${range}`))) as unknown as CustomerUsage
    const total = (kind: string) => usage.totals.find((each) => each.kind === kind)
    expect([
      id,
      range,
      {
        requests: lines.length,
        refused: (await table('&status=429')).lines.length,
        prompt: Number(sum('prompt_tokens')),
        debits: total('debit')?.count ?? 0,
        debited: total('debit')?.amount_wei ?? '0',
        refunds: total('refund')?.count ?? 0,
        refunded: total('refund')?.amount_wei ?? '0',
      },
    ]).toEqual([id, range, { ...all }] as never)
    expect(String(sum('cost_wei'))).toBe(String(all?.debited))
    const [first] = await this.count('request_id', where, 'order by at desc, request_id desc limit 1')
    const page = (await json(await read(`/v1/billing/requests?limit=1&${range}`))) as unknown as CustomerRequestList
    expect(page.requests.map((each) => each.request_id)).toEqual(first === undefined ? [] : [String(first.request_id)])
    const account = await json(await read('/v1/billing/account'))
    expect(account.customer_id).toBe(id)
    const invoice = await this.gateway.ask('GET', `/v1/admin/customers/${id}/invoice?format=csv&${range}`, {
      as: 'operator',
    })
    const [, ...bills] = parseCsv(await invoice.text())
    expect([id, range, bills.length]).toEqual([id, range, Number(all?.debits)])
  }
}
