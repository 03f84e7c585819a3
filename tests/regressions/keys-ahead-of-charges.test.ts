import { expect, test } from 'bun:test'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { answerTooLate } from '../support/money/late-charges.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import { type ScriptedCall, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'
import { lockWaits } from '../support/run/lock-waits.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: the idempotency key of a streamed list that failed said that it was billed, by a receipt that was not there yet. Had the gateway died then,
 * nothing would have been billed, and the key would have been used up for a day.
 * Cause: the key was completed when the list had failed, and the charges for what had passed were still under way.
 * Fix: the key is completed when all charges of the list have ended.
 */
const open = { min_privacy_class: 'public' as const }
const model = 'paid'

const gateway = await fixture(startTestGateway(), ({ database }) => expectBooksBalance(database.db))
const { sql } = gateway.database
const owner = await gateway.customer({ policy: open, keyPolicy: open })
const node = await fixture(startScriptedNode(model))
await gateway.node(node.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
await gateway.admin('PUT', '/v1/admin/models', { id: model, completion_token_price_wei: '1000' })
await sql.unsafe(`create table early (receipt text);
  create function note_early() returns trigger language plpgsql as $$ begin
    if not exists (select 1 from receipts where receipt_hash = new.receipt_hash and billed) then
      insert into early values (new.receipt_hash);
    end if;
    return new;
  end $$;
  create trigger noted before update on idempotency_keys for each row when (new.status = 'completed') execute function note_early()`)

test.each([
  ['both calls have', ['a', 'b']],
  ['the second call alone has', ['b']],
])(
  '§5: the key of a streamed list that fails says that it was billed once it is, where %s brought something',
  async (_, brought) => {
    const held: ScriptedCall[] = []
    node.answer((call) => void held.push(call))
    const payer = await gateway.customer({ policy: open, keyPolicy: open })
    await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '100000000' })
    const ask = () =>
      postJson(
        `${gateway.url}/v1/completions`,
        payer.key,
        { model, max_tokens: 20, prompt: ['a', 'b'], stream: true },
        { headers: { 'idempotency-key': 'list' } },
      )
    const again = async () => {
      const response = await ask()
      return [response.status, JSON.parse(await response.text()).error.code]
    }
    const asked = ask()
    await waitUntil('both run', () => held.length === 2)
    const calls = held.filter(({ body }) => brought.includes(String(body.prompt)))
    for (const call of calls) {
      call.open()
      await call.event({ choices: [{ index: 0, text: 'four words are here', finish_reason: null }] })
    }
    const reader = ((await asked).body as ReadableStream<Uint8Array>).getReader()
    let text = ''
    const read = async (until: () => boolean) => {
      while (!until()) {
        const { done, value } = await reader.read()
        if (done) return
        text += Buffer.from(value).toString()
      }
    }
    await read(() => text.split('four words').length > calls.length)
    await sql.begin(async (tx) => {
      await tx`select 1 from customers where customer_id = ${payer.customerId} for update`
      calls[0]?.cut('reset')
      await read(() => false)
      expect(text).toContain('"error"')
      await waitUntil('the charges wait', async () => (await lockWaits(sql, '%charge%')) > 0)
      expect(await again()).toEqual([409, 'idempotency_in_progress'])
    })
    await waitUntil('the key is complete', async () => {
      const keys = await sql`select status from idempotency_keys where customer_id = ${payer.customerId}`
      return keys[0]?.status === 'completed'
    })
    expect([...(await sql`select receipt from early`)]).toEqual([])
    expect(await again()).toEqual([409, 'idempotency_completed'])
    const debits = await sql`select 1 from ledger_entries where kind = 'debit' and customer_id = ${payer.customerId}`
    expect(debits).toHaveLength(brought.length)
    await waitUntil('nothing stays reserved', async () => {
      const [row] = await sql`select reserved_wei::int as wei from customers where customer_id = ${payer.customerId}`
      return row?.wei === 0
    })
  },
)

// As of a gateway that was cut off for long. Its key said for a day that it was billed.
test('§5: the key of a list whose charges all come too late is free', async () => {
  const held: ScriptedCall[] = []
  node.answer((call) => void held.push(call))
  const payer = await gateway.customer({ policy: open, keyPolicy: open })
  await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '100000000' })
  const headers = { 'idempotency-key': 'late' }
  const asked = postJson(
    `${gateway.url}/v1/completions`,
    payer.key,
    { model, max_tokens: 20, prompt: ['a', 'b'] },
    { headers },
  )
  await waitUntil('both run', () => held.length === 2)
  const reserved = await sql<
    { id: string; wei: string }[]
  >`select reservation_id as id, amount_wei::text as wei from reservations where customer_id = ${payer.customerId}`
  await answerTooLate(gateway.database, payer.customerId, reserved, held)
  expect((await asked).status).toBe(200)
  expect(reserved).toHaveLength(2)
  const rows = async () => [
    ...(await sql`select kind from ledger_entries where kind = 'debit' and customer_id = ${payer.customerId}`),
  ]
  await waitUntil('the key is free', async () => {
    const keys = await sql`select 1 from idempotency_keys where customer_id = ${payer.customerId}`
    return keys.length === 0
  })
  expect(await rows()).toEqual([])
})
