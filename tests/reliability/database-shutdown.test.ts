import { afterAll, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { openDatabase } from '../../src/db/client.ts'
import { startEmbedded } from '../../src/db/embedded/embedded.ts'
import { migrateDatabase } from '../../src/db/migrate.ts'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { json, startTestGateway } from '../support/gateways/http-gateway.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import { fixture } from '../support/run/fixture.ts'
import { testLimitMs } from '../support/run/limits.ts'
import { openFolder } from '../support/run/open-folder.ts'
import { turn } from '../support/run/turn.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * A PostgreSQL of its own is told to stop in the middle of paid traffic, and started again by its gateway: fast (SIGINT, which ends all
 * connections), smart (SIGTERM, which refuses new ones first) and at once (SIGQUIT). Streams are committed at once, so that what fails
 * is an event of the stream.
 */
const clients = 16
const creditWei = 10n ** 12n
const quietMs = 60_000
const open = { min_privacy_class: 'public' as const }

afterAll(() => rmSync(folder, { recursive: true, force: true }))

const admin = async (path: string, body: object) => json(await gateway.ask('POST', path, { as: 'admin', json: body }))
async function customer() {
  const limits = { daily_token_quota: 1_000_000_000, rate_limit_rpm: 1_000_000, max_concurrency: 1_000 }
  const made = await admin('/v1/admin/customers', { display_name: 'x', gateway_policy: { ...open, ...limits } })
  const id = String(made.customer_id)
  const key = await admin(`/v1/admin/customers/${id}/keys`, { name: 'k', model_policy: open })
  return { id, token: String(made.customer_token), key: String(key.gateway_key) }
}

let asked = 0
const chat = ({ stream = false, once = false }: { stream?: boolean; once?: boolean }) =>
  gateway.ask('POST', '/v1/api/chat/completions', {
    headers: {
      authorization: `Bearer ${payer.key}`,
      ...(once ? { 'idempotency-key': `once-${asked++}` } : {}),
    },
    json: { model: 'paid', max_tokens: 20, stream, messages: [{ role: 'user', content: 'hello there' }] },
  })

const folder = openFolder('database-shutdown-')
const log = { info: () => {}, warn: () => {} }
const embedded = await fixture(
  startEmbedded({ dataDir: join(folder, 'data'), log, preferNobody: true, connectionsMax: 40 }),
)
await migrateDatabase(embedded.url)
const gateway = await fixture(
  startTestGateway({ SVC_HEADER_COMMIT_MS: '0', SVC_POLL_INTERVAL_MS: '100' }, async () => embedded.url),
)
const owner = await customer()
const payer = await customer()
const node = await fixture(startFakeNode({ models: ['paid'] }))
node.setAnswer({ chunks: 4, firstTokenMs: 2, intervalMs: 2 })
const offered = { visibility: 'public', privacy_class: 'public', node_class: 'gpu' }
await admin('/v1/admin/nodes', { customer_id: owner.id, url: node.url, ...offered })
const prices = { id: 'paid', completion_token_price_wei: '1000' }
await gateway.ask('PUT', '/v1/admin/models', { as: 'admin', json: prices })
await admin(`/v1/admin/customers/${payer.id}/credits`, { amount_wei: creditWei.toString() })
await waitUntil('a paid answer', async () => (await chat({})).status === 200)

const own = (path: string) =>
  gateway.ask('GET', path, { headers: { 'x-svc-customer-id': payer.id, 'x-svc-customer-token': payer.token } })

/** Whoever pays, and whoever reads what was paid. */
const calls: readonly (() => Promise<Response>)[] = [
  () => chat({}),
  () => chat({ stream: true }),
  () => chat({ once: true }),
  () => chat({ stream: true, once: true }),
  () => own('/v1/billing/account'),
  () => own('/v1/billing/usage'),
  () => gateway.ask('GET', '/v1/admin/ledger/proof', { as: 'operator' }),
  () => gateway.ask('GET', '/v1/admin/billing/treasury-report', { as: 'operator' }),
  () => gateway.ask('GET', `/v1/admin/customers/${payer.id}/invoice`, { as: 'operator' }),
]
const paidCalls = 4

class Traffic {
  running = true
  /** Receipts of answers that came whole. */
  readonly receipts = new Set<string>()
  refused = 0
  readonly wrong: string[] = []

  async client(n: number): Promise<void> {
    for (let at = n; this.running; at++) {
      const index = n < paidCalls * 2 ? at % paidCalls : at % calls.length
      const response = await calls[index]?.()
      if (response !== undefined) this.saw(index, response, await response.text())
      await turn()
    }
  }

  private saw(index: number, { status, headers }: Response, text: string): void {
    const failed = /"code":"(\w+)"/.exec(text)?.[1] ?? ''
    if (failed === 'service_unavailable') this.refused++
    const soon = status === 200 || Number(headers.get('retry-after')) >= 1
    if ((status !== 200 && status !== 503) || !['', 'service_unavailable'].includes(failed) || !soon) {
      this.wrong.push(`${index}: ${status} ${failed}`)
    }
    const receipt = /"receipt_hash":"(0x[0-9a-f]{64})"/.exec(text)?.[1]
    if (index < paidCalls && status === 200 && failed === '' && receipt !== undefined) this.receipts.add(receipt)
  }
}

type Stop = (server: number, sql: ReturnType<typeof openDatabase>['sql']) => Promise<unknown>
const stops: readonly (readonly [string, Stop])[] = [
  ['SIGINT', async (server) => process.kill(server, 'SIGINT')],
  [
    'SIGTERM',
    async (server, sql) => {
      process.kill(server, 'SIGTERM')
      // It goes on with those that are there, and refuses them when they come again.
      await sql`select pg_terminate_backend(pid) from pg_stat_activity
        where backend_type = 'client backend' and pid <> pg_backend_pid()`
    },
  ],
  ['SIGQUIT', async (server) => process.kill(server, 'SIGQUIT')],
]

/** One server may be back so soon that hardly anybody was refused. */
let refusedInAll = 0
test.each([...stops, ...stops])(
  '§3: PostgreSQL ends by %s under paid traffic: 503 with Retry-After, never 500, and the books are exact',
  async (_, stop) => {
    const traffic = new Traffic()
    const load = Promise.all(Array.from({ length: clients }, (_, n) => traffic.client(n)))
    await waitUntil('answers', () => traffic.receipts.size > 60, quietMs)
    const before = openDatabase({ url: embedded.url, connectionsMax: 1 })
    const serverOf = async ({ sql }: Pick<typeof before, 'sql'>) =>
      Number.parseInt((await sql`select pg_read_file('postmaster.pid') as text`)[0]?.text, 10)
    const server = await serverOf(before)
    await stop(server, before.sql)
    // A smart stop ends when the last one has gone.
    await before.close()
    const after = openDatabase({ url: embedded.url, connectionsMax: 2 })
    await waitUntil('another server', async () => (await serverOf(after).catch(() => server)) !== server, quietMs)
    const answered = traffic.receipts.size
    await waitUntil('answers again', () => traffic.receipts.size > answered + 60, quietMs)
    traffic.running = false
    await load
    refusedInAll += traffic.refused

    expect(traffic.wrong).toEqual([])
    // A reserve whose answer was lost may have been committed after its release found nothing: the sweeper's to end.
    await after.sql`update reservations set expires_at = now() - interval '1 s' where status = 'open'`
    await gateway.gateway.ledger.sweep()
    await expectBooksBalance(after.db)
    const debits = await after.sql<{ hash: string; wei: string }[]>`
      select receipt_hash as hash, amount_wei::text as wei from ledger_entries where kind = 'debit'`
    const charged = new Set(debits.map(({ hash }) => hash))
    expect(charged.size).toBe(debits.length)
    expect([...traffic.receipts].filter((hash) => !charged.has(hash))).toEqual([])
    const [account] =
      await after.sql`select balance_wei::text as balance, reserved_wei::text as reserved from customers where customer_id = ${payer.id}`
    expect(account?.reserved).toBe('0')
    expect(BigInt(account?.balance)).toBe(creditWei - debits.reduce((sum, { wei }) => sum + BigInt(wei), 0n))
    const recorded = await gateway.ask('GET', '/v1/admin/requests?code=internal_error', { as: 'viewer' })
    expect(await json(recorded)).toMatchObject({ count: 0 })
    expect(gateway.logged().filter(({ event }) => event === 'unhandled')).toEqual([])
    await after.close()
  },
  testLimitMs,
)

test('§3: callers were refused while PostgreSQL was away', () => {
  expect(refusedInAll).toBeGreaterThan(5)
})
