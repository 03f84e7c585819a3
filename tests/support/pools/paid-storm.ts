import { expect } from 'bun:test'
import { Ledger } from '../../../src/actors/money/ledger.ts'
import type { FakeNode } from '../../../src/fake-node/fake-node.ts'
import { createLog } from '../../../src/log.ts'
import { postJson } from '../clients/post-json.ts'
import { freePort } from '../gateways/free-port.ts'
import { startTestGateway, type TestCustomer, type TestGateway, waitFor } from '../gateways/gateway.ts'
import { type GatewayProcess, spawnGateway } from '../gateways/gateway-process.ts'
import { expectBooksBalance } from '../money/ledger.ts'
import { testMacs } from '../money/receipt-macs.ts'
import { nodeAt, startFakeNodes } from '../nodes/fake-nodes.ts'

const clients = 64
const creditWei = 10n ** 12n
const open = { min_privacy_class: 'public' as const }
const messages = [{ role: 'user', content: 'hello there' }]

export interface PaidPool {
  readonly gateway: TestGateway
  readonly payer: TestCustomer
  readonly node: FakeNode
  /** `kill -9` of the gateway, and another on the same port and database. */
  restart(): Promise<void>
  stop(): Promise<void>
}

/** A gateway in a process of its own, a public node with a price, and one customer who pays. */
export async function startPaidPool(): Promise<PaidPool> {
  let running: GatewayProcess | null = null
  const gateway = await startTestGateway({
    env: { SVC_PORT: String(freePort()) },
    launch: async (env) => {
      running = await spawnGateway(env)
      return { url: running.url, stop: async () => running?.stop() }
    },
  })
  const owner = await gateway.customer({ policy: open, keyPolicy: open })
  const payer = await gateway.customer({ policy: open, keyPolicy: open })
  const nodes = startFakeNodes(1, { models: ['paid'] })
  const node = nodeAt(nodes, 0)
  node.setAnswer({ chunks: 6, firstTokenMs: 5, intervalMs: 5 })
  await gateway.node(node.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
  await gateway.admin('PUT', '/v1/admin/models', { id: 'paid', completion_token_price_wei: '1000' })
  await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: creditWei.toString() })
  const pool: PaidPool = {
    gateway,
    payer,
    node,
    restart: async () => {
      await running?.kill()
      running = await spawnGateway(gateway.env)
    },
    stop: async () => {
      await gateway.stop()
      for (const each of nodes) each.stop()
    },
  }
  await waitFor('a paid answer', async () => (await askOnce(pool, 'first', { stream: false, leave: false })) !== null)
  return pool
}

interface Kind {
  readonly stream: boolean
  /** The client goes away after its first chunk. */
  readonly leave: boolean
}

/** The receipt of an answer that came whole; null: it failed, was refused or left. */
async function askOnce(
  { gateway, payer }: PaidPool,
  key: string | null,
  { stream, leave }: Kind,
): Promise<string | null> {
  const gone = new AbortController()
  try {
    const response = await postJson(
      `${gateway.url}/v1/api/chat/completions`,
      payer.key,
      { model: 'paid', messages, max_tokens: 20, stream },
      {
        headers: key === null ? {} : { 'idempotency-key': key },
        signal: AbortSignal.any([gone.signal, AbortSignal.timeout(20_000)]),
      },
    )
    if (leave) {
      await response.body?.getReader().read()
      gone.abort()
      return null
    }
    const text = await response.text()
    const whole = response.status === 200 && (!stream || text.includes('[DONE]'))
    return whole ? (/"receipt_hash":"(0x[0-9a-f]{64})"/.exec(text)?.[1] ?? null) : null
  } catch {
    return null
  }
}

export interface StormCount {
  readonly answered: number
  readonly debits: number
  readonly openAfterKill: number
  /** Wei that the killed gateway had leased. */
  readonly leasedAfterKill: bigint
}

/** Of every debit: which receipt, once. */
async function debitsOf({ gateway, payer }: PaidPool) {
  const rows = await gateway.database.sql<{ hash: string; wei: string }[]>`
    select receipt_hash hash, amount_wei::text wei from ledger_entries
    where kind = 'debit' and customer_id = ${payer.customerId}`
  return rows.map(({ hash, wei }) => ({ hash, wei: BigInt(wei) }))
}

async function accountOf({ gateway, payer }: PaidPool) {
  const [row] = await gateway.database.sql<{ balance: string; reserved: string; leased: string; opened: number }[]>`
    select balance_wei::text balance, reserved_wei::text reserved, leased_wei::text leased,
      (select count(*)::int from reservations where customer_id = ${payer.customerId} and status = 'open') opened
    from customers where customer_id = ${payer.customerId}`
  const [balance, reserved, leased] = [row?.balance, row?.reserved, row?.leased].map((wei) => BigInt(wei ?? -1))
  return { balance: balance ?? -1n, reserved: reserved ?? -1n, leased: leased ?? -1n, opened: row?.opened ?? -1 }
}

/**
 * 64 clients on one customer, with streams, failures of the node and clients that leave, until the gateway is killed in
 * the middle of it. What a client saw whole is on the books once, nothing is overdrawn, and the books balance with what
 * the dead gateway left open.
 */
export async function paidRound(pool: PaidPool, round: number): Promise<StormCount> {
  const answered = new Set<string>()
  let running = true
  const client = async (n: number) => {
    for (let i = 0; running; i++) {
      const kind = { stream: (n + i) % 2 === 0, leave: (n + i) % 9 === 0 }
      // What has a key is a row while it runs, and what has none is reserved under a lease.
      const hash = await askOnce(pool, n % 4 === 0 ? `r${round}-${n}-${i}` : null, kind)
      if (hash !== null) answered.add(hash)
      else await Bun.sleep(10)
    }
  }
  pool.node.setFaults({ kind: 'dropMidStream', afterChunks: 3, times: 20 })
  const load = Promise.all(Array.from({ length: clients }, (_, n) => client(n)))
  await waitFor('answers', () => answered.size > 100, 30_000)
  const restarted = pool.restart()
  running = false
  await Promise.all([restarted, load])
  pool.node.clearFaults()

  await expectBooksBalance(pool.gateway.database.db)
  const debits = await debitsOf(pool)
  const hashes = new Set(debits.map(({ hash }) => hash))
  expect(hashes.size).toBe(debits.length)
  expect([...answered].filter((hash) => !hashes.has(hash))).toEqual([])
  const after = await accountOf(pool)
  expect(after.balance).toBe(creditWei - debits.reduce((sum, { wei }) => sum + wei, 0n))
  expect(after.balance >= after.reserved + after.leased && after.reserved >= 0n).toBe(true)
  return { answered: answered.size, debits: debits.length, openAfterKill: after.opened, leasedAfterKill: after.leased }
}

/** What dead gateways left is given back once nobody has renewed it for its time. */
export async function expectReleased(pool: PaidPool): Promise<void> {
  const { db, sql } = pool.gateway.database
  await sql`update reservations set expires_at = now() - interval '1 s' where status = 'open'`
  await sql`update money_leases set ends_at = now() - interval '1 s'`
  const ledger = new Ledger({ macs: testMacs, db, sql, log: createLog('silent', () => {}) })
  while ((await ledger.sweep()) > 0);
  expect(await accountOf(pool)).toMatchObject({ reserved: 0n, leased: 0n, opened: 0 })
  await expectBooksBalance(db)
}
