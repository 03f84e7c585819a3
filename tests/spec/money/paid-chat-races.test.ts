import { expect, test } from 'bun:test'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { expectBooksBalance } from '../../support/money/ledger.ts'
import { startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture } from '../../support/run/fixture.ts'
import { lockWaits } from '../../support/run/lock-waits.ts'

const open = { min_privacy_class: 'public' as const }
const usage = { prompt_tokens: 5, completion_tokens: 4, total_tokens: 9 }
const completion = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'a' }, finish_reason: 'stop' }],
  usage,
}

const price = (wei: string) =>
  gateway.admin('PUT', '/v1/admin/models', {
    id: 'm',
    prompt_token_price_wei: wei,
    completion_token_price_wei: wei,
  })

const gateway = await fixture(startTestGateway({ env: { SVC_METRICS_PUBLIC: 'true' } }), ({ database }) =>
  expectBooksBalance(database.db),
)
const owner = await gateway.customer()
const payer = await gateway.customer({ policy: open, keyPolicy: open })
const nodes = await fixture([startScriptedNode(), startScriptedNode()])
const shared = { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' } as const
for (const { url } of nodes) await gateway.node(url, shared)
await price('1000')
await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '10000000' })

const entries = async () =>
  (
    await gateway.database.sql<{ kind: string; amount_wei: string }[]>`select kind, amount_wei from ledger_entries
    where customer_id = ${payer.customerId} and kind <> 'admin_credit' order by seq`
  ).map(({ kind, amount_wei }) => [kind, Number(amount_wei)] as const)
const ask = (init: RequestInit = {}, body: object = {}) =>
  gateway.chat(payer.key, { model: 'm', messages: [{ role: 'user', content: 'x' }], max_tokens: 20, ...body }, init)
const inFlight = async () => {
  const text = await (await fetch(`${gateway.url}/metrics`)).text()
  return Number(/^svc_requests_in_flight (\d+)$/m.exec(text)?.[1])
}
/** So many sessions wait for a lock. */
const waiting = () => lockWaits(gateway.database.sql)

/** Asks for a stream whose client leaves while the statement that `lock` holds up has not come back. */
async function leaveDuring(lock: string, init: RequestInit = {}): Promise<void> {
  const client = new AbortController()
  const held = Promise.withResolvers<void>()
  const locked = Promise.withResolvers<void>()
  const locking = gateway.database.sql.begin(async (sql) => {
    await sql.unsafe(lock)
    locked.resolve()
    await held.promise
  })
  try {
    await locked.promise
    const asking = ask({ ...init, signal: client.signal }, { stream: true }).catch(() => null)
    await waitFor('the statement to wait', async () => (await waiting()) > 0)
    client.abort()
    await asking
    await waitFor('the request to have ended', async () => (await inFlight()) === 0)
  } finally {
    held.resolve()
    await locking
  }
}

test('§13: a client that leaves while its money is being reserved leaves nothing reserved', async () => {
  const before = (await entries()).length
  await leaveDuring(`select 1 from customers where customer_id = '${payer.customerId}' for update`)
  await waitFor('the release', async () => (await entries()).length === before + 2)
  const [reserve, release] = (await entries()).slice(before)
  expect([reserve?.[0], release?.[0], reserve?.[1]]).toEqual(['reserve', 'release', release?.[1]])
  expect(nodes.map(({ calls }) => calls)).toEqual([0, 0])
})

test('§5: a client that leaves while its key is being claimed has its key back, and nothing is reserved', async () => {
  const before = await entries()
  const headers = {
    authorization: `Bearer ${payer.key}`,
    'content-type': 'application/json',
    'idempotency-key': 'left-early',
  }
  await leaveDuring('lock table idempotency_keys in access exclusive mode', { headers })
  const { sql } = gateway.database
  // In this order: a key that is just being claimed is not there yet.
  await waitFor('the claim to be written', async () => {
    const rows = await sql`select 1 from pg_stat_activity where state = 'active' and pid <> pg_backend_pid()
      and datname = current_database() and query like '%idempotency_keys%'`
    return rows.length === 0
  })
  await waitFor('the key to be free', async () => (await sql`select 1 from idempotency_keys`).length === 0)
  const [first, second] = nodes
  for (const node of [first, second]) node?.answer((call) => call.respond(200, completion))
  expect((await ask({ headers })).status).toBe(200)
  for (const node of [first, second]) node?.answer(null)
  // Those of the second request alone.
  expect((await entries()).slice(before.length).map(([kind]) => kind)).toEqual(['reserve', 'debit', 'release'])
})

test('§13: the prices of the quote stand, also where another machine is tried after they changed', async () => {
  const before = (await entries()).length
  const arriving = Promise.race(nodes.map((node) => node.next()))
  const asking = ask()
  const call = await arriving
  await price('7')
  for (const node of nodes) node.answer((other) => other.respond(200, completion))
  call.respond(500, { error: { message: 'no' } })
  expect((await asking).status).toBe(200)
  expect((await entries()).slice(before)[1]).toEqual(['debit', 9 * 1_000])
  await price('1000')
})
