import { expect, test } from 'bun:test'
import { sql } from 'drizzle-orm'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { startTestGateway, type TestCustomer, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import { startReplicatedPostgres } from '../support/run/replicated-postgres.ts'

const rounds = Number(process.env.FAILOVER_ROUNDS ?? 5)
const clients = 16
const open = { min_privacy_class: 'public' as const }

/** The receipt of an answer that came whole; null: it did not. */
async function ask(gateway: TestGateway, payer: TestCustomer): Promise<string | null> {
  try {
    const body = { model: 'paid', max_tokens: 20, messages: [{ role: 'user', content: 'hello there' }] }
    const response = await gateway.chat(payer.key, body, { signal: AbortSignal.timeout(20_000) })
    const text = await response.text()
    return response.status === 200 ? (/"receipt_hash":"(0x[0-9a-f]{64})"/.exec(text)?.[1] ?? null) : null
  } catch {
    return null
  }
}

async function failOverOnce(round: number): Promise<object> {
  const postgres = await startReplicatedPostgres()
  const gateway = await startTestGateway({ env: { DATABASE_URL: postgres.url } })
  const node = startFakeNode({ models: ['paid'] })
  node.setAnswer({ chunks: 4, firstTokenMs: 2, intervalMs: 2 })
  try {
    const owner = await gateway.customer({ policy: open, keyPolicy: open })
    const payer = await gateway.customer({ policy: open, keyPolicy: open })
    await gateway.node(node.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
    await gateway.admin('PUT', '/v1/admin/models', { id: 'paid', completion_token_price_wei: '1000' })
    await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '1000000000000' })
    await waitFor('a paid answer', () => ask(gateway, payer))

    const acknowledged: string[] = []
    let running = true
    const load = Promise.all(
      Array.from({ length: clients }, async () => {
        while (running) {
          const hash = await ask(gateway, payer)
          if (hash === null) await Bun.sleep(10)
          else acknowledged.push(hash)
        }
      }),
    )
    const leased = async () => {
      const [row] = await postgres.db.execute<{ charges: number }>(
        sql`select coalesce(sum(rows), 0)::int as charges from charge_groups where reserve_seq is not null`,
      )
      return row?.charges ?? 0
    }
    await waitFor('answers before', () => acknowledged.length > 200, 60_000)
    await waitFor('charges under a lease', async () => (await leased()) > 0, 60_000)
    const lostMs = performance.now()
    await postgres.failOver()
    const promotedMs = performance.now()
    const before = acknowledged.length
    const leasedBefore = await leased()
    await waitFor('a paid answer again', () => acknowledged.length > before + 50, 60_000)
    const paidMs = performance.now()
    await waitFor('charges under a lease again', async () => (await leased()) > leasedBefore, 60_000)
    await waitFor('readiness', async () => (await fetch(`${gateway.url}/readyz`)).status === 200)
    running = false
    await load

    const rows = await postgres.db.execute<{ hash: string }>(
      sql`select receipt_hash hash from ledger_entries where kind = 'debit' and customer_id = ${payer.customerId}`,
    )
    const kept = new Set(rows.map(({ hash }) => hash))
    expect(acknowledged.filter((hash) => !kept.has(hash))).toEqual([])
    expect(kept.size).toBe(rows.length)
    await expectBooksBalance(postgres.db)
    return {
      round,
      before,
      acknowledged: acknowledged.length,
      leased: await leased(),
      promoted_ms: Math.round(promotedMs - lostMs),
      paid_again_ms: Math.round(paidMs - promotedMs),
    }
  } finally {
    await gateway.stop()
    node.stop()
    await postgres.stop()
  }
}

test(`§26: PostgreSQL fails over ${rounds} times under paid load: no receipt that a client has is lost`, async () => {
  const seen: object[] = []
  for (let round = 1; round <= rounds; round++) seen.push(await failOverOnce(round))
  console.table(seen)
})
