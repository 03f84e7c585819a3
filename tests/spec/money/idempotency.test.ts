import { expect, test } from 'bun:test'
import { dropOldKeys } from '../../../src/db/queries/accounts/idempotency.ts'
import { postJson } from '../../support/clients/post-json.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { expectBooksBalance } from '../../support/money/ledger.ts'
import { nodeAt, startFakeNodes } from '../../support/nodes/fake-nodes.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'
import { waitLimitMs } from '../../support/run/limits.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const open = { min_privacy_class: 'public' as const }
const messages = [{ role: 'user', content: 'once' }]
const gateway = await fixture(startTestGateway(), ({ database }) => expectBooksBalance(database.db))
const owner = await gateway.customer({ policy: open, keyPolicy: open })
const payer = await gateway.customer({ policy: open, keyPolicy: open })
const nodes = await fixture(startFakeNodes(1, { models: ['paid'] }))
const node = nodeAt(nodes, 0)
await gateway.node(node.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
await gateway.admin('PUT', '/v1/admin/models', { id: 'paid', completion_token_price_wei: '1000' })
await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '1000000' })
const beside = await fixture(startTestGateway({ beside: gateway }))
await waitFor('the other gateway serves', async () => (await ask('warm-up', {}, beside)).status === 200)

/** `key` null: none is sent. */
function ask(key: string | null, body: object = {}, at = gateway, as = payer.key): Promise<Response> {
  return postJson(
    `${at.url}/v1/api/chat/completions`,
    as,
    { model: 'paid', messages, max_tokens: 20, ...body },
    { headers: key === null ? {} : { 'idempotency-key': key } },
  )
}
const debits = async () => (await gateway.database.sql`select 1 from ledger_entries where kind = 'debit'`).length
const refusal = async (response: Response) => {
  const { error } = (await response.json()) as { error: { code: string; svc: { original?: Record<string, unknown> } } }
  return { status: response.status, code: error.code, original: error.svc.original }
}

test('§5: completed: 409 with what is known of the first, streams included, on either gateway', async () => {
  for (const stream of [false, true]) {
    const before = await debits()
    const key = `done-${stream}`
    const first = await ask(key, { stream })
    const id = first.headers.get('x-request-id')
    const text = await first.text()
    expect(first.status).toBe(200)
    for (const at of [gateway, beside]) {
      const again = await ask(key, { stream }, at)
      expect(again.headers.get('x-should-retry')).toBe('false')
      const { status, code, original } = await refusal(again)
      expect([status, code]).toEqual([409, 'idempotency_completed'])
      expect(original).toEqual({
        request_id: id,
        status: 200,
        receipt_hash: expect.stringMatching(/^0x[0-9a-f]{64}$/),
        usage: expect.objectContaining({ total_tokens: expect.any(Number) }),
        completed_at: expect.any(String),
      })
      expect(text).toContain(String(original?.receipt_hash))
    }
    expect(await debits()).toBe(before + 1)
  }
})

test('§5: the key may stand in quotes; members in another order are the same request', async () => {
  expect((await ask('quoted')).status).toBe(200)
  expect((await refusal(await ask('"quoted"'))).code).toBe('idempotency_completed')
  const swapped = await postJson(
    `${gateway.url}/v1/api/chat/completions`,
    payer.key,
    { max_tokens: 20, messages, model: 'paid' },
    { headers: { 'idempotency-key': 'quoted' } },
  )
  expect((await refusal(swapped)).code).toBe('idempotency_completed')
})

test('§5: another body under the same key is 422', async () => {
  expect((await ask('other')).status).toBe(200)
  const { status, code } = await refusal(await ask('other', { max_tokens: 21 }))
  expect([status, code]).toEqual([422, 'idempotency_key_reused'])
})

test('§5: a key that was used at another endpoint is refused, and nothing is billed', async () => {
  expect((await ask('elsewhere')).status).toBe(200)
  const billed = await debits()
  const body = { model: 'paid', prompt: 'once', max_tokens: 20 }
  const response = await postJson(`${gateway.url}/v1/api/completions`, payer.key, body, {
    headers: { 'idempotency-key': 'elsewhere' },
  })
  const { status, code } = await refusal(response)
  expect([status, code, await debits()]).toEqual([422, 'idempotency_key_reused', billed])
})

test('§5: while the pepper is replaced, gateway by gateway, a key is billed once, whichever gateway is asked first', async () => {
  const started = (peppers: string) => startTestGateway({ beside: gateway, env: { SVC_TOKEN_PEPPER: peppers } })
  await using before = await scoped(started('test-pepper,new-pepper'))
  await using after = await scoped(started('new-pepper,test-pepper'))
  for (const at of [before, after]) await waitFor('it serves', async () => (await ask(null, {}, at)).status === 200)
  for (const [at, [first, second]] of [[before, after] as const, [after, before] as const].entries()) {
    const billed = await debits()
    expect((await ask(`rotated-${at}`, {}, first)).status).toBe(200)
    expect((await refusal(await ask(`rotated-${at}`, {}, second))).code).toBe('idempotency_completed')
    expect((await refusal(await ask(`rotated-${at}`, { max_tokens: 21 }, second))).code).toBe('idempotency_key_reused')
    expect(await debits()).toBe(billed + 1)
  }
  const billed = await debits()
  const answers = await Promise.all([before, after].map((at) => ask('rotated-at-once', {}, at)))
  const served = answers.filter(({ status }) => status === 200).length
  expect(answers.filter(({ status }) => ![200, 409].includes(status))).toEqual([])
  expect(served).toBeLessThanOrEqual(1)
  expect(await debits()).toBe(billed + served)
})

test('§5: another query under the same key is another request', async () => {
  const withQuery = (query: string) =>
    postJson(
      `${gateway.url}/v1/api/chat/completions${query}`,
      payer.key,
      { model: 'paid', messages, max_tokens: 20 },
      { headers: { 'idempotency-key': 'query' } },
    )
  expect((await withQuery('?trace=1')).status).toBe(200)
  expect((await refusal(await withQuery('?trace=1'))).code).toBe('idempotency_completed')
  for (const other of ['?trace=2', '']) {
    const { status, code } = await refusal(await withQuery(other))
    expect([other, status, code]).toEqual([other, 422, 'idempotency_key_reused'])
  }
})

test('§5: in flight: 409 to try again, over two gateways; billed once', async () => {
  node.setAnswer({ firstTokenMs: waitLimitMs })
  const before = await debits()
  let refused = 0
  const asked = Array.from({ length: 10 }, async (_, at) => {
    const response = await ask('race', {}, at % 2 === 0 ? gateway : beside)
    if (response.status === 409) refused++
    return response
  })
  // However long they take to be looked at, the first one is in flight.
  await waitUntil('all others are refused', () => refused === asked.length - 1)
  node.setAnswer({ firstTokenMs: 0 })
  node.release()
  const seen = await Promise.all(
    asked.map(async (each) => {
      const response = await each
      return [response.status, await response.text(), response.headers] as const
    }),
  )
  expect(seen.filter(([status]) => status === 200)).toHaveLength(1)
  for (const [status, text, headers] of seen.filter(([each]) => each !== 200)) {
    expect([status, text]).toEqual([409, expect.stringContaining('idempotency_in_progress')])
    expect([headers.get('retry-after'), headers.get('x-should-retry')]).toEqual(['2', 'true'])
  }
  expect(await debits()).toBe(before + 1)
})

test('§5: what bills nothing frees the key', async () => {
  node.setFaults({ kind: 'status500' })
  expect((await ask('free-again')).status).toBe(502)
  node.clearFaults()
  const left = async () =>
    (await gateway.database.sql`select 1 from idempotency_keys where status = 'in_progress'`).length
  await waitUntil('it is free', async () => (await left()) === 0)
  await waitUntil('the node serves again', async () => (await ask(null)).status === 200)
  expect((await ask('free-again')).status).toBe(200)
  expect((await ask('too-much', { max_tokens: 1_000_000 })).status).toBe(402)
  await waitUntil('it is free', async () => (await left()) === 0)
  expect((await ask('too-much', { max_tokens: 1 })).status).toBe(200)
})

test('§5: free work runs again, whatever its key', async () => {
  for (let i = 0; i < 2; i++) expect((await ask('own', {}, gateway, owner.key)).status).toBe(200)
})

test('§5: one customer does not see the keys of another; no key is stored', async () => {
  const other = await gateway.customer({ policy: open, keyPolicy: open })
  await gateway.admin('POST', `/v1/admin/customers/${other.customerId}/credits`, { amount_wei: '1000000' })
  expect((await ask('shared-name')).status).toBe(200)
  expect((await ask('shared-name', {}, gateway, other.key)).status).toBe(200)
  const rows = JSON.stringify(await gateway.database.sql`select * from idempotency_keys`)
  expect(rows).not.toContain('shared-name')
  expect(rows).not.toContain('once')
})

test.each(['', '""', 'a b', 'x'.repeat(256)])('§5: %j is no key', async (key) => {
  const { status, code } = await refusal(await ask(key))
  expect([status, code]).toEqual([400, 'invalid_request'])
})

test('a claim whose gateway died is taken over, and one whose money may still be being set aside is not', async () => {
  const first = await ask('dead')
  expect(first.status).toBe(200)
  const claimed = (ago: string) => gateway.database.sql`
    update idempotency_keys set status = 'in_progress', completed_at = null, receipt_hash = null,
      request_id = 'req_dead', created_at = now() - ${ago}::interval
    where request_id in (${first.headers.get('x-request-id') ?? ''}, 'req_dead')`
  // Two commits, each behind another one, with a recall of leases between.
  await claimed('90 seconds')
  expect((await refusal(await ask('dead'))).code).toBe('idempotency_in_progress')
  await claimed('3 minutes')
  expect((await ask('dead')).status).toBe(200)
})

test('§5: a key is kept for 24 hours; after that it may be used again, and is removed', async () => {
  const first = await ask('yesterday')
  expect(first.status).toBe(200)
  const id = first.headers.get('x-request-id') ?? ''
  await first.text()
  const { sql, db } = gateway.database
  const [kept] = await sql`select extract(epoch from expires_at - created_at)::int as s from idempotency_keys
    where request_id = ${id}`
  expect(kept).toEqual({ s: 86_400 })
  expect((await refusal(await ask('yesterday'))).code).toBe('idempotency_completed')
  await sql`update idempotency_keys set expires_at = now() - interval '1 s' where request_id = ${id}`
  const before = await debits()
  const again = await ask('yesterday')
  expect(again.status).toBe(200)
  await again.text()
  expect(await debits()).toBe(before + 1)
  await sql`update idempotency_keys set expires_at = now() - interval '1 s'`
  await dropOldKeys(db)
  expect(await sql`select 1 from idempotency_keys`).toHaveLength(0)
})

test('§2: the type of its errors is idempotency_error', async () => {
  await (await ask('typed')).text()
  for (const [body, status] of [
    [{}, 409],
    [{ max_tokens: 21 }, 422],
  ] as const) {
    const response = await ask('typed', body)
    const { error } = (await response.json()) as { error: { type: string } }
    expect([response.status, error.type]).toEqual([status, 'idempotency_error'])
  }
})
