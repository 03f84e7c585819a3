import { expect, test } from 'bun:test'
import { sessionOf } from '../../../src/db/client.ts'
import { startTestGateway } from '../../support/gateways/http-gateway.ts'
import { markOf } from '../../support/money/receipt-macs.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const gateway = await fixture(startTestGateway({ SVC_LOG_INTERVAL_MS: '50' }))

const hashOf = (digit: string) => `0x${digit.repeat(64)}`
const insertion = (digit: string) => `
  insert into receipt_rows (receipt_hash, issuer, request_id, kind, node_id, node_class, runtime_id, runtime_kind, model_id,
    prompt_tokens, completion_tokens, started_at, completed_at, customer_id, mac)
  values ('${hashOf(digit)}', 'gateway', 'req_${digit}', 'hosted_chat', 'n', 'c', 'r', 'k', 'm', 1, 1, now(), now(), 'cus_a', '${markOf(hashOf(digit), 'cus_a')}')`

/** When the log's writer has looked for open transactions, by each of the gateway's connections. */
async function lookedAt(): Promise<readonly string[]> {
  const rows = await gateway.database.sql<{ at: string }[]>`
    select query_start::text as at from pg_stat_activity
    where datname = current_database() and query like '%virtualtransaction%' and query not like '%pg_stat_activity%'`
  return rows.map(({ at }) => at)
}

const isLogged = async (digit: string) =>
  (await gateway.ask('GET', `/v1/public/log/proof?receipt_hash=${hashOf(digit)}`)).status === 200

/** More turns than it takes to write what was seen at the turn before. */
const turns = 6

test('§31: the timer’s turns wait for a transaction that is still open, and leave nothing out that it wrote', async () => {
  const open = sessionOf(gateway.database.sql)
  try {
    await open.unsafe('begin')
    await open.unsafe(insertion('a'))
    // It has the larger number, and is committed first.
    await gateway.database.sql.unsafe(insertion('b'))
    const seen = new Set<string>()
    await waitUntil('some turns of the timer', async () => {
      for (const at of await lookedAt()) seen.add(at)
      return seen.size > turns
    })
    expect([await isLogged('a'), await isLogged('b')]).toEqual([false, false])
    await open.unsafe('commit')
  } finally {
    await open.end()
  }
  for (const digit of ['a', 'b']) await waitUntil(`receipt ${digit} in the log`, () => isLogged(digit))
  const order = await gateway.database.sql<{ hash: string }[]>`
    select hash from log_contents where kind = 'receipt' order by entry_index`
  expect(order.map(({ hash }) => hash)).toEqual([hashOf('a'), hashOf('b')])
  const { faults } = await gateway.gateway.checkBooks()
  // The rows are made up; nothing else is wrong with them.
  expect([...new Set(faults.map(({ rule }) => rule))]).toEqual(['every receipt has the hash of its facts'])
})
