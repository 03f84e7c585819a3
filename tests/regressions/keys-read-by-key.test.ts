import { expect, test } from 'bun:test'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { type ScriptedCall, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: a charge with an idempotency key took the longer the more keys there were, and with it all charges of its commit.
 * Cause: the key was looked for by the id of its request, for which there is no index: each charge read all keys of a day.
 * Fix: it is looked for by what it is known by, its customer and its hash.
 */
const open = { min_privacy_class: 'public' as const }
const model = 'paid'
const gateway = await fixture(startTestGateway())
const { sql } = gateway.database
const owner = await gateway.customer({ policy: open, keyPolicy: open })
const payer = await gateway.customer({ policy: open, keyPolicy: open })
const node = await fixture(startScriptedNode(model))
await gateway.node(node.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
await gateway.admin('PUT', '/v1/admin/models', { id: model, completion_token_price_wei: '1000' })
await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '100000000' })
const answer = (call: ScriptedCall) =>
  call.respond(200, {
    choices: [{ index: 0, text: 'some words were here', finish_reason: 'stop' }],
    usage: { prompt_tokens: 1, completion_tokens: 4, total_tokens: 5 },
  })
const many = 20_000

test('§5: a key is completed, kept and freed without a look at the others', async () => {
  await sql`insert into idempotency_keys (customer_id, key_hash, fingerprint, request_id, expires_at)
    select ${payer.customerId}, sha256(n::text::bytea), '', 'req_' || n, now() + interval '1 day'
    from generate_series(1, ${many}) as g (n)`
  await sql`vacuum analyze idempotency_keys`
  const scans = async () => {
    const [row] = await sql<{ scans: number; changed: number }[]>`select seq_scan::int as scans,
      (n_tup_upd + n_tup_del)::int as changed from pg_stat_user_tables where relname = 'idempotency_keys'`
    return row ?? { scans: 0, changed: 0 }
  }
  const ask = (key: string, prompt: string | readonly string[]) =>
    postJson(
      `${gateway.url}/v1/completions`,
      payer.key,
      { model, prompt, max_tokens: 20 },
      { headers: { 'idempotency-key': key } },
    )
  node.answer(answer)
  const before = await scans()
  expect((await ask('one', 'a')).status).toBe(200)
  expect((await ask('list', ['a', 'b'])).status).toBe(200)
  node.answer((call) => call.respond(500, {}))
  expect((await ask('freed', 'a')).status).toBe(502)
  // Sessions report what they did after a second at the earliest.
  await waitUntil('the changes are counted', async () => (await scans()).changed >= before.changed + 4)
  expect((await scans()).scans).toBe(before.scans)
})
