import { expect, test } from 'bun:test'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import { startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: the idempotency key of a list that was answered and charged was said to be in progress long after.
 * Cause: a key that could not be completed at that moment, as when the connection to the database had just ended, was left as it was.
 * Fix: it is completed until the database has taken it, behind the answer.
 */
const open = { min_privacy_class: 'public' as const }
const model = 'paid'

const gateway = await fixture(startTestGateway(), ({ database }) => expectBooksBalance(database.db))
const { sql } = gateway.database
const owner = await gateway.customer({ policy: open, keyPolicy: open })
const payer = await gateway.customer({ policy: open, keyPolicy: open })
const node = await fixture(startScriptedNode(model))
node.answer((call) =>
  call.respond(200, {
    choices: [{ index: 0, text: 'word', finish_reason: 'stop' }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  }),
)
await gateway.node(node.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
await gateway.admin('PUT', '/v1/admin/models', { id: model, completion_token_price_wei: '1000' })
await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '100000000' })

test('§5: the key of a list is completed, though the database is away at the moment of its answer', async () => {
  // As a connection that ends: the sequence is not set back.
  await sql.unsafe(`create sequence completions;
    create function cut_first() returns trigger language plpgsql as $$ begin
      if nextval('completions') = 1 then raise exception 'cut' using errcode = '57P01'; end if;
      return new;
    end $$;
    create trigger cut_first before update on idempotency_keys for each row when (new.status = 'completed') execute function cut_first()`)
  const ask = () =>
    postJson(
      `${gateway.url}/v1/completions`,
      payer.key,
      { model, max_tokens: 5, prompt: ['a', 'b'] },
      { headers: { 'idempotency-key': 'list' } },
    )
  expect((await ask()).status).toBe(200)
  await waitUntil('the key is complete', async () => {
    const keys = await sql`select status from idempotency_keys where customer_id = ${payer.customerId}`
    return keys[0]?.status === 'completed'
  })
  const again = await ask()
  expect([again.status, await again.text()]).toEqual([409, expect.stringContaining('idempotency_completed')])
})
