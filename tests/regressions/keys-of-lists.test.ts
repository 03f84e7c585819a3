import { afterAll, afterEach, beforeEach, expect, test } from 'bun:test'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway, type TestCustomer } from '../support/gateways/gateway.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import { type ScriptedCall, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'
import { lockWaits } from '../support/run/lock-waits.ts'
import { waitFor, waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: a list of prompts was billed twice for one idempotency key, when the second request with the key came some time after the first,
 * which still ran.
 * Cause: a key whose request has no reservation in the database counts as left behind by a gateway that died. The reservations of a list were
 * in memory where the customer's money was leased, and none had the request's id where the first call had ended on a machine of the customer's own.
 * Fix: the first reservation of a request with a key is a row with the request's id, and one that was charged 0 counts as charged. It goes back
 * in the commit that completes the key.
 */
const open = { min_privacy_class: 'public' as const }
const model = 'paid'
/** As many at once as a lease needs, and some more. */
const busy = 12
/** Calls of a list. */
const atOnce = 16

let payer: TestCustomer
let held: ScriptedCall[] = []
afterAll(async () => {
  await expectBooksBalance(gateway.database.db)
})
const gateway = await fixture(startTestGateway())
const owner = await gateway.customer({ policy: open, keyPolicy: open })
const node = await fixture(startScriptedNode(model))
await gateway.node(node.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
await gateway.admin('PUT', '/v1/admin/models', { id: model, completion_token_price_wei: '1000' })
beforeEach(async () => {
  held = []
  node.answer((call) => void held.push(call))
  payer = await gateway.customer({ policy: open, keyPolicy: open })
  await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '100000000' })
})
afterEach(answerHeld)

async function answer(call: ScriptedCall, text = 'some words were here'): Promise<void> {
  const usage = { prompt_tokens: 1, completion_tokens: text === '' ? 0 : 4, total_tokens: text === '' ? 1 : 5 }
  const choices = [{ index: 0, text, finish_reason: 'stop' }]
  if (call.body.stream !== true) return call.respond(200, { choices, usage })
  call.open()
  await call.event({ choices, usage })
  await call.event('[DONE]')
  call.end()
}
function answerHeld(): void {
  for (const call of held.splice(0)) void answer(call)
}
const ask = (
  prompt: string | readonly string[],
  key: string | null = null,
  stream = false,
  signal: AbortSignal | null = null,
) =>
  postJson(
    `${gateway.url}/v1/completions`,
    payer.key,
    { model, max_tokens: 20, prompt, stream },
    { headers: key === null ? {} : { 'idempotency-key': key }, signal },
  )
/** As if the first request with a key had come an hour ago. */
const anHourLater = () => gateway.database.sql`update idempotency_keys set created_at = now() - interval '1 hour'`
const codeOf = async (response: Response) => {
  const { error } = (await response.json()) as { error?: { code: string } }
  return [response.status, error?.code]
}
const debits = async () =>
  (await gateway.database.sql`select 1 from ledger_entries where kind = 'debit' and customer_id = ${payer.customerId}`)
    .length

test('§5: the key of a list is in use while the list runs, though the money of its customer is leased', async () => {
  const others = Array.from({ length: busy }, () => ask('other'))
  await waitUntil('a lease', async () => {
    const rows = await gateway.database.sql`select 1 from money_leases where customer_id = ${payer.customerId}`
    return rows.length === 1 && held.length === busy
  })
  const first = ask(['a', 'b'], 'leased')
  await waitUntil('the list runs', () => held.length === busy + 2)
  node.answer((call) => answer(call))
  await anHourLater()
  expect(await codeOf(await ask(['a', 'b'], 'leased'))).toEqual([409, 'idempotency_in_progress'])
  answerHeld()
  expect((await first).status).toBe(200)
  await Promise.all(others.map(async (other) => (await other).text()))
  expect(await debits()).toBe(busy + 2)
})

test('§5: and though its first call was answered by a machine of its own', async () => {
  const limits = (max_concurrency: number) =>
    gateway.admin('PATCH', `/v1/admin/customers/${payer.customerId}`, { gateway_policy: { ...open, max_concurrency } })
  // One call after the other.
  await limits(1)
  const own = startScriptedNode(model)
  const nodeId = await gateway.node(own.url, { customerId: payer.customerId })
  try {
    const first = ask(['a', 'b', 'c'], 'own')
    const call = await own.next()
    await gateway.admin('POST', `/v1/admin/nodes/${nodeId}/drain`, {})
    await answer(call)
    await waitUntil('a call goes to the machine of others', () => held.length === 1)
    await limits(2)
    node.answer((call) => answer(call))
    await anHourLater()
    const again = await waitFor('the new limit', async () => {
      const seen = await codeOf(await ask(['a', 'b', 'c'], 'own'))
      return seen[1] === 'concurrency_limited' ? null : seen
    })
    expect(again).toEqual([409, 'idempotency_in_progress'])
    answerHeld()
    expect((await first).status).toBe(200)
    expect(await debits()).toBe(2)
  } finally {
    answerHeld()
    await gateway.admin('DELETE', `/v1/admin/nodes/${nodeId}`)
    own.stop()
  }
})

test('§5: and though its first call cost nothing', async () => {
  const first = ask(['a', 'b'], 'nothing', true)
  await waitUntil('the list runs', () => held.length === 2)
  const at = held.findIndex(({ body }) => body.prompt === 'a')
  for (const call of held.splice(at, 1)) await answer(call, '')
  await waitUntil('the first call has ended', async () => {
    const ended = await gateway.database.sql`select 1 from reservations
      where customer_id = ${payer.customerId} and status = 'released'`
    return ended.length === 1
  })
  node.answer((call) => answer(call))
  await anHourLater()
  const again = await ask(['a', 'b'], 'nothing', true)
  expect([again.status, await again.text()]).toEqual([409, expect.stringContaining('idempotency_in_progress')])
  answerHeld()
  expect(await (await first).text()).toContain('[DONE]')
  expect(await debits()).toBe(1)
})

/** Of the reservations of the payer: the one by which the key is in use, and how many of the others were charged. */
async function standing(): Promise<readonly unknown[]> {
  const rows = await gateway.database.sql`select status, exists (select 1 from idempotency_keys
      where request_id = reservation_id) as guards from reservations where customer_id = ${payer.customerId}`
  const guard = rows.find(({ guards }) => guards === true)
  return [guard?.status, rows.filter(({ guards, status }) => guards !== true && status === 'settled').length]
}

test.each([false, true])(
  '§5: and though nothing of it was used, until the key says that the list was billed: stream %p',
  async (stream) => {
    const own = startScriptedNode(model)
    const nodeId = await gateway.node(own.url, { customerId: payer.customerId })
    const client = new AbortController()
    try {
      const first = ask([...'abcdefghijklmnopq'], 'unused', stream, client.signal)
      // All calls that run at once are on the own machine, so that nothing is ever charged for the first of them.
      const calls = await Promise.all(Array.from({ length: atOnce }, () => own.next()))
      await gateway.admin('POST', `/v1/admin/nodes/${nodeId}/drain`, {})
      const [last, ...others] = calls.reverse() as [ScriptedCall, ...ScriptedCall[]]
      await answer(last)
      await waitUntil('a call goes to the machine of others', () => held.length === 1)
      const { sql } = gateway.database
      await sql`create function hold_completion() returns trigger language plpgsql as
        $$ begin perform pg_advisory_xact_lock_shared(1); return new; end $$`
      await sql`create trigger held before update of status on idempotency_keys for each row execute function hold_completion()`
      await sql.begin(async (tx) => {
        await tx`select pg_advisory_xact_lock(1)`
        node.answer((each) => answer(each))
        answerHeld()
        for (const other of others) await answer(other)
        await waitUntil(
          'the key is being completed',
          async () => (await lockWaits(sql, '%update idempotency_keys%')) > 0,
        )
        if (stream) {
          client.abort()
          await waitUntil('the client has left', async () => {
            const path = `/v1/admin/requests?customer_id=${payer.customerId}`
            const { requests } = await gateway.admin<{ requests: readonly { status: number }[] }>('GET', path)
            return requests.some(({ status }) => status === 499)
          })
        }
        expect(await standing()).toEqual(['open', 1])
      })
      await first.then((response) => response.text()).catch(() => null)
      await waitUntil('the key is complete', async () => {
        const rows = await sql`select status from idempotency_keys where customer_id = ${payer.customerId}`
        return rows[0]?.status === 'completed'
      })
      expect(await standing()).toEqual(['released', 1])
    } finally {
      answerHeld()
      await gateway.database.sql`drop function if exists hold_completion cascade`
      await gateway.admin('DELETE', `/v1/admin/nodes/${nodeId}`)
      own.stop()
    }
  },
)
