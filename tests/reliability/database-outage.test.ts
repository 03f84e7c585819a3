import { afterAll, expect, test } from 'bun:test'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { start } from '../../src/main.ts'
import { newToken } from '../../src/secrets.ts'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { type SeverableDatabase, severable } from '../support/gateways/severed-database.ts'
import { fixture } from '../support/run/fixture.ts'
import { stopwatch } from '../support/run/stopwatch.ts'

/** SVC_KEY_OUTAGE_MS, scaled. */
const outageMs = 12_000

let database: SeverableDatabase

const gateway = await fixture(
  startTestGateway({
    env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000', SVC_KEY_OUTAGE_MS: String(outageMs), SVC_METRICS_PUBLIC: 'true' },
    launch: async (env) => {
      database = await severable(env.DATABASE_URL ?? '')
      return start({ ...env, DATABASE_URL: database.url }, { quiet: true })
    },
  }),
)
const node = await fixture(startFakeNode({ models: ['m'] }))
afterAll(async () => {
  await database.close()
})
const customer = await gateway.customer()
await gateway.node(node.url, { customerId: customer.customerId })

const ask = (key: string, stream = false) =>
  gateway.chat(key, { model: 'm', stream, messages: [{ role: 'user', content: 'hi' }] })
const codeOf = async (response: Response) => ((await response.json()) as { error: { code: string } }).error.code
const statusOf = async (path: string) => {
  const response = await fetch(gateway.url + path)
  await response.body?.cancel()
  return response.status
}
const receipts = async () =>
  Number((await gateway.database.sql<{ n: number }[]>`select count(*)::int as n from receipts`)[0]?.n)

test('§3, §17: a database that goes away and comes back', async () => {
  const neverUsed = await gateway.customer()
  for (let at = 0; at < 3; at++) expect((await ask(customer.key)).status).toBe(200)
  await waitFor('their receipts', async () => (await receipts()) === 3)
  node.setAnswer({ chunks: 40, intervalMs: 25 })
  const running = await ask(customer.key, true)

  await database.sever()
  const severedMs = stopwatch()

  // What runs goes on, and a known key streams from memory.
  expect(await running.text()).toEndWith('data: [DONE]\n\n')
  node.setAnswer({ chunks: 3, intervalMs: 0 })
  for (let at = 0; at < 4; at++) {
    const response = await ask(customer.key, true)
    expect(response.status).toBe(200)
    expect(await response.text()).toEndWith('data: [DONE]\n\n')
  }
  // Never 401: nobody can say whether these exist.
  for (const key of [neverUsed.key, newToken('gateway')]) {
    const response = await ask(key)
    expect(response.status).toBe(503)
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
    expect(await codeOf(response)).toBe('service_unavailable')
  }
  // A malformed key needs no database to be wrong.
  expect((await ask('svc_gateway_nonsense')).status).toBe(401)
  expect(await statusOf('/healthz')).toBe(200)
  await waitFor('/readyz to say so', async () => (await statusOf('/readyz')) === 503)
  expect(await statusOf('/v1/api/models')).toBe(200)

  await waitFor('the known key to be doubted', async () => (await ask(customer.key)).status === 503)
  expect(severedMs()).toBeGreaterThan(outageMs / 2)
  expect(await codeOf(await ask(customer.key))).toBe('service_unavailable')
  const admin = await fetch(`${gateway.url}/v1/admin/customers`, {
    headers: { 'x-svc-admin-token': gateway.tokens.admin },
  })
  expect(admin.status).toBe(503)
  await admin.body?.cancel()

  const answered = node.stats().finishedRequests
  await database.restore()

  await waitFor('service again', async () => (await ask(customer.key)).status === 200)
  await waitFor('/readyz', async () => (await statusOf('/readyz')) === 200)
  // Known now, and nothing is there for it.
  expect((await ask(neverUsed.key)).status).toBe(404)
  expect((await ask(newToken('gateway'))).status).toBe(401)
  // Each answer has its receipt, those of the outage too.
  expect(answered).toBeGreaterThanOrEqual(8)
  await waitFor('the receipts of the outage', async () => (await receipts()) === node.stats().finishedRequests)
})

test('§26: what was changed while the database was away for this gateway holds as soon as it is back', async () => {
  expect((await ask(customer.key)).status).toBe(200)
  await database.sever()
  await gateway.database.sql`update gateway_keys set revoked_at = now() where key_id = ${customer.keyId}`
  await database.restore()
  await waitFor('the revoked key to be refused', async () => (await ask(customer.key)).status === 401)
})
