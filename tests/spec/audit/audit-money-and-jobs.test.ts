import { expect, test } from 'bun:test'
import { newId } from '../../../src/ids.ts'
import { type AskOptions, json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { payFor } from '../../support/money/money.ts'
import { createBody, jobCustomer, jobNode, postJob } from '../../support/pools/job-pool.ts'
import { fixture } from '../../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())
const customer = await jobCustomer(gateway)

interface Told {
  readonly response: Response
  readonly requestId: string
}

async function tell(method: string, path: string, options: AskOptions = {}): Promise<Told> {
  const response = await gateway.ask(method, path, { as: 'admin', ...options })
  return { response, requestId: response.headers.get('x-request-id') ?? '' }
}

const approvals = async ({ requestId }: Told) => [
  ...(await gateway.database.sql`
    select action, category, target_type, target_id, reason, metadata
    from admin_approval_events where request_id = ${requestId}`),
]
const commands = async ({ requestId }: Told) => [
  ...(await gateway.database.sql`
    select action, command_id, actor_type, actor_role, actor_hash_prefix, reason, metadata
    from admin_command_events where request_id = ${requestId}`),
]

test('§16: a credit has its event; an idempotent replay and a refusal have none', async () => {
  const path = `/v1/admin/customers/${customer.customerId}/credits`
  const body = { credit_id: 'audited', amount_wei: '1000000', reason: 'invoice 7' }
  const made = await tell('POST', path, { json: body })
  expect(made.response.status).toBe(201)
  expect(await approvals(made)).toEqual([
    {
      action: 'customer.credit.create',
      category: 'billing',
      target_type: 'customer',
      target_id: customer.customerId,
      reason: 'invoice 7',
      metadata: { amount_wei: '1000000' },
    },
  ])
  const again = await tell('POST', path, { json: body })
  const refused = await tell('POST', path, { json: { ...body, amount_wei: '2' } })
  expect([again.response.status, refused.response.status]).toEqual([201, 409])
  expect([...(await approvals(again)), ...(await approvals(refused))]).toEqual([])
})

test('§16: a credit whose event cannot be written is not there', async () => {
  const { sql } = gateway.database
  await sql`alter table admin_approval_events rename to away`
  const path = `/v1/admin/customers/${customer.customerId}/credits`
  const { response } = await tell('POST', path, { json: { credit_id: 'never', amount_wei: '5' } })
  await sql`alter table away rename to admin_approval_events`
  expect(response.status).toBe(503)
  expect(await sql`select 1 from ledger_entries where entry_id = 'never'`).toHaveLength(0)
})

test('§16: a usage export has its event, the treasury report and the proof of the books have none', async () => {
  const path = `/v1/admin/customers/${customer.customerId}/usage-export?window_days=7&format=csv`
  const exported = await tell('GET', path, { as: 'operator' })
  expect(await approvals(exported)).toEqual([
    {
      action: 'customer.usage.export',
      category: 'data_export',
      target_type: 'customer',
      target_id: customer.customerId,
      reason: null,
      metadata: expect.objectContaining({ format: 'csv', window_days: 7 }),
    },
  ])
  const none = await tell('GET', '/v1/admin/customers/cus_nobody/usage-export', { as: 'operator' })
  expect(none.response.status).toBe(404)
  const reads = await Promise.all(
    ['/v1/admin/billing/treasury-report', '/v1/admin/ledger/proof'].map((read) => tell('GET', read)),
  )
  expect(reads.map(({ response }) => response.status)).toEqual([200, 200])
  for (const told of [none, ...reads]) expect(await approvals(told)).toEqual([])
})

test('§32: an invoice has its event, as an export of data, and none where there is no customer', async () => {
  const path = `/v1/admin/customers/${customer.customerId}/invoice`
  for (const [query, format] of [
    ['', 'json'],
    ['?format=csv', 'csv'],
  ] as const) {
    const invoiced = await tell('GET', path + query, { as: 'operator' })
    expect(invoiced.response.status).toBe(200)
    await invoiced.response.text()
    expect(await approvals(invoiced)).toEqual([
      {
        action: 'customer.invoice.export',
        category: 'data_export',
        target_type: 'customer',
        target_id: customer.customerId,
        reason: null,
        metadata: expect.objectContaining({ format }),
      },
    ])
  }
  const none = await tell('GET', '/v1/admin/customers/cus_nobody/invoice', { as: 'operator' })
  expect([none.response.status, await approvals(none)]).toEqual([404, []])
})

test('§16: held receipts and payout batches have their events, a dry run too', async () => {
  const { sql } = gateway.database
  const nodeId = newId('node')
  await sql`insert into nodes (node_id, customer_id, kind, name, visibility, privacy_class, node_class, payout_address)
    values (${nodeId}, ${customer.customerId}, 'agent', 'n', 'public', 'public', 'gpu', ${`0x${'1'.repeat(40)}`})`
  const work = { customerId: customer.customerId, nodeId, amountWei: 1_000n, held: true }
  const [paid, never] = [await payFor(gateway.database, work), await payFor(gateway.database, work)]
  const asked = { json: { reason: 'looked at' } }
  const released = await tell('POST', `/v1/admin/receipts/${paid}/release`, asked)
  const rejected = await tell('POST', `/v1/admin/receipts/${never}/reject`, asked)
  const event = (target_id: string, action: string, metadata: object) => [
    {
      action,
      category: 'settlement',
      target_type: 'receipt',
      target_id,
      reason: 'looked at',
      metadata,
    },
  ]
  expect(await approvals(released)).toEqual(event(paid ?? '', 'receipt.release', { result: 'accepted' }))
  expect(await approvals(rejected)).toEqual(
    event(never ?? '', 'receipt.reject', { result: 'rejected', amount_wei: '1000' }),
  )
  const dry = await tell('POST', '/v1/admin/payout-batches', { json: { dry_run: true, reason: 'looked at' } })
  const made = await tell('POST', '/v1/admin/payout-batches', asked)
  const { batch } = (await json(made.response)) as { batch: { batch_id: string } }
  const batched = { action: 'payout.batch.create', category: 'settlement', target_type: 'payout_batch' }
  expect(await approvals(dry)).toMatchObject([{ ...batched, target_id: null, metadata: { dry_run: true } }])
  expect(await approvals(made)).toMatchObject([
    {
      ...batched,
      target_id: batch.batch_id,
      metadata: { dry_run: false, amount_wei: expect.stringMatching(/^[1-9]/) },
    },
  ])
  // Without a chain neither does anything.
  for (const verb of ['submit', 'retry']) {
    const told = await tell('POST', `/v1/admin/payout-batches/${batch.batch_id}/${verb}`, asked)
    expect([told.response.status >= 400, await approvals(told)]).toEqual([true, []])
  }
})

test('§16: a private job has its command event from its customer, once; its cancellation both events', async () => {
  const node = await jobNode(gateway, customer)
  node.turn({ kind: 'hold' })
  const body = createBody(node)
  const send = async (): Promise<Told> => {
    const response = await postJob(gateway, customer, body)
    return { response, requestId: response.headers.get('x-request-id') ?? '' }
  }
  const made = await send()
  const again = await send()
  const { command_id } = await json(made.response)
  expect(await commands(made)).toEqual([
    {
      action: 'job.create',
      command_id,
      actor_type: 'customer',
      actor_role: 'viewer',
      actor_hash_prefix: expect.stringMatching(/^[0-9a-f]{12}$/),
      reason: null,
      metadata: {},
    },
  ])
  expect([again.response.status, await commands(again), await approvals(made)]).toEqual([202, [], []])
  const cancelled = await tell('POST', `/v1/admin/commands/${command_id}/cancel`, {
    as: 'operator',
    json: { reason: 'stuck' },
  })
  expect(cancelled.response.status).toBe(200)
  expect(await commands(cancelled)).toMatchObject([
    { action: 'job.cancel', command_id, actor_type: 'admin_token', actor_role: 'operator', reason: 'stuck' },
  ])
  expect(await approvals(cancelled)).toMatchObject([
    { action: 'command.cancel', category: 'node_control', target_type: 'command', target_id: command_id },
  ])
  const late = await tell('POST', `/v1/admin/commands/${command_id}/cancel`, { as: 'operator' })
  expect([late.response.status >= 400, await commands(late), await approvals(late)]).toEqual([true, [], []])
  await node.stop()
})
