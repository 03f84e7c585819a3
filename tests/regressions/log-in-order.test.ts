import { expect, test } from 'bun:test'
import { startTestGateway, stillLog } from '../support/gateways/http-gateway.ts'
import { markRows } from '../support/money/receipt-macs.ts'
import { fixture } from '../support/run/fixture.ts'

const gateway = await fixture(startTestGateway(stillLog))

// The numbers were sorted as texts: from 9,999 to 10,000 some were taken twice, which stopped the log, or never.
test('§31: a backlog of receipts enters the log once and in its order, also where their numbers grow by a digit', async () => {
  const { sql } = gateway.database
  await sql.unsafe(`
    insert into receipt_rows (receipt_hash, issuer, request_id, kind, node_id, node_class, runtime_id, runtime_kind, model_id,
      prompt_tokens, completion_tokens, started_at, completed_at, customer_id)
    select '0x' || encode(sha256(i::text::bytea), 'hex'), 'node', 'req_' || i, 'hosted_chat', 'n', 'c', 'r', 'vllm', 'm', 1, 1,
      now(), now(), 'cus_a'
    from generate_series(1, 12500) i`)
  await markRows(gateway.database)
  await gateway.gateway.sequencer.catchUp()
  const [seen] = await sql<{ receipts: number; logged: number; ordered: boolean }[]>`
    select (select count(*)::int from receipts) as receipts, count(*)::int as logged,
      bool_and(r.seq > coalesce(before, 0)) as ordered
    from (select l.hash, lag(o.seq) over (order by l.entry_index) as before from log_contents l
      join receipts o on o.receipt_hash = l.hash) e
    join receipts r on r.receipt_hash = e.hash`
  expect(seen).toEqual({ receipts: 12_500, logged: 12_500, ordered: true })
})
