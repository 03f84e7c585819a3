import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { RouteTable } from '../../../src/http/frame/route-table.ts'
import { rawExchange } from '../../support/clients/raw-client.ts'
import { newAccount } from '../../support/gateways/accounts.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

/** Rows of docs/security.md that no other test stands for. */
const gateway = await fixture(
  startTestGateway({ SVC_AUTH_FAILURES_PER_MINUTE: '10000', SVC_PUBLIC_RPM_PER_IP: '1000000' }),
)

const customer = () => newAccount(gateway)
const credits = (id: string) => `/v1/admin/customers/${id}/credits`
const purge = '/v1/admin/retention/audit-events/purge'

test('API1: what a customer reads of money is its own, whatever it asks for', async () => {
  const [rich, poor] = [await customer(), await customer()]
  await gateway.ask('POST', credits(rich.id), { as: 'admin', json: { amount_wei: '77', credit_id: 'of-the-rich' } })
  for (const path of ['/v1/billing/account', '/v1/billing/usage']) {
    const query = `?customer_id=${rich.id}`
    const response = await gateway.ask('GET', `${path}${query}`, { headers: poor.headers })
    const text = await response.text()
    const told = [response.status, text.includes(poor.id), text.includes(rich.id), text.includes('of-the-rich')]
    expect([path, ...told]).toEqual([path, 200, true, false, false])
    // The amount as a whole value: an id or a time may have the same digits.
    expect([path, text.match(/"-?77"/)]).toEqual([path, null])
  }
  const own = await (await gateway.ask('GET', '/v1/billing/account', { headers: rich.headers })).text()
  expect(own).toMatch(/"77"/)
  const mixed = { ...poor.headers, 'x-svc-customer-id': rich.id }
  expect((await gateway.ask('GET', '/v1/billing/account', { headers: mixed })).status).toBe(401)
})

describe('API3: bodies that move money, delete or are sealed take no member that they do not know', () => {
  test.each([
    ['credits', (id: string) => credits(id), { amount_wei: '1', balance_wei: '1000000' }],
    ['customer_id in the body', (id: string) => credits(id), { amount_wei: '1', customer_id: 'cus_other' }],
    ['purge', () => purge, { older_than_days: 1, dry_run: true, tables: 'all' }],
    ['account', () => '/v1/admin/customers', { display_name: 'A', balance_wei: '1' }],
  ] as const)('%s', async (_name, path, body) => {
    const { id } = await customer()
    const refused = await gateway.ask('POST', path(id), { as: 'admin', json: body })
    expect([refused.status, (await json(refused)).code]).toEqual([400, 'invalid_request'])
    const kept = await json(await gateway.ask('GET', `/v1/admin/customers/${id}`, { as: 'operator' }))
    expect(kept.balance_wei).toBe('0')
  })
})

test('API4: admin bodies end at 16 KiB and URLs at 8 KiB', async () => {
  const { id } = await customer()
  const padded = (bytes: number) => {
    const rest = JSON.stringify({ amount_wei: '1', credit_id: 'edge', reason: '' }).length
    return `{"amount_wei":"1","credit_id":"edge","reason":""${' '.repeat(bytes - rest)}}`
  }
  const send = (bytes: number, path = credits(id)) =>
    gateway.ask('POST', path, { as: 'admin', body: padded(bytes), headers: { 'content-type': 'application/json' } })
  expect((await send(16 * 1024 + 1)).status).toBe(413)
  expect((await send(16 * 1024 + 1, purge)).status).toBe(413)
  expect((await send(16 * 1024)).status).toBe(201)
  const url = (chars: number) => {
    const path = '/v1/admin/access-events?x='
    return path + 'x'.repeat(chars - gateway.url.length - path.length)
  }
  expect((await gateway.ask('GET', url(8 * 1024), { as: 'viewer' })).status).toBe(200)
  expect((await gateway.ask('GET', url(8 * 1024 + 1), { as: 'viewer' })).status).toBe(400)
})

test('API4: the headers of a request end at 16 KiB, with 431', async () => {
  const send = (bytes: number) =>
    rawExchange(
      gateway.url,
      `GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Long: ${'x'.repeat(bytes)}\r\n\r\n`,
    )
  expect((await send(15 * 1024)).status).toBe(200)
  expect((await send(16 * 1024 + 1)).status).toBe(431)
})

test('API6: a credit that is asked for twenty times at once, and a purge without its words, change nothing more', async () => {
  const { id } = await customer()
  const credit = () =>
    gateway.ask('POST', credits(id), { as: 'admin', json: { amount_wei: '5', credit_id: `c-${id}` } })
  const answers = await Promise.all(Array.from({ length: 20 }, credit))
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201))
  const account = await json(await gateway.ask('GET', `/v1/admin/customers/${id}`, { as: 'operator' }))
  expect(account.balance_wei).toBe('5')
  for (const confirm of [undefined, '', 'purge audit events', 'PURGE AUDIT EVENTS ']) {
    const body = { older_than_days: 1, ...(confirm === undefined ? {} : { confirm }) }
    const refused = await gateway.ask('POST', purge, { as: 'admin', json: body })
    expect([confirm, refused.status, (await json(refused)).code]).toEqual([confirm, 400, 'confirmation_required'])
  }
})

const rows = () => new RouteTable(gateway.app).rows.filter(({ method }) => /^[A-Z]+$/.test(method) && method !== 'WS')
const openToPages = [
  '/v1/api',
  '/v1/api/pricing',
  '/v1/public/settlement',
  '/:segment/models',
  '/v1/api/models',
  '/v1/models',
]
const isOpen = (path: string) =>
  openToPages.includes(path) || path.endsWith('/models/*') || path === '/marketplace/models'

test('API8: every route: nosniff, a cache rule, no page of another origin but on the public reads, no trace of code', async () => {
  for (const { method, path } of rows()) {
    for (const as of ['viewer', undefined] as const) {
      const response = await gateway.ask(method, path.replaceAll(/:\w+/g, 'none'), {
        ...(as === undefined ? {} : { as }),
        ...(method === 'GET' ? {} : { json: {} }),
        headers: { origin: 'https://evil.example' },
      })
      const { headers } = response
      const place = `${method} ${path} ${response.status}`
      expect([place, headers.get('x-content-type-options')]).toEqual([place, 'nosniff'])
      expect([place, headers.get('cache-control') !== null]).toEqual([place, true])
      for (const name of ['x-powered-by', 'server', 'access-control-allow-credentials']) {
        expect([place, name, headers.get(name)]).toEqual([place, name, null])
      }
      const origin = headers.get('access-control-allow-origin')
      if (!isOpen(path)) expect([place, origin]).toEqual([place, null])
      if (response.status >= 400) {
        expect(await response.text()).not.toMatch(/node_modules|\.ts:\d|\bat \w+ \(|stack|postgres|select /i)
      } else await response.body?.cancel()
    }
  }
})

test('API8: no credential is ever taken from a cookie or from the query', async () => {
  const { admin } = gateway.tokens
  const cookie = await gateway.ask('GET', '/v1/admin/nodes', {
    headers: { cookie: `x-svc-admin-token=${admin}; token=${admin}` },
  })
  expect(cookie.status).toBe(401)
  for (const name of ['token', 'x-svc-admin-token', 'access_token']) {
    expect((await gateway.ask('GET', `/v1/admin/nodes?${name}=${admin}`)).status).toBe(401)
  }
})

test('§19: docs/security.md has every row, and each names tests that exist', () => {
  const root = join(import.meta.dir, '../../..')
  const text = readFileSync(join(root, 'docs/security.md'), 'utf8')
  const named = [...text.matchAll(/`((?:tests\/)[\w./-]+\.test\.ts)`/g)].map(([, path]) => path ?? '')
  const existing = new Set(readdirSync(join(root, 'tests'), { recursive: true }).map((path) => `tests/${path}`))
  expect(named.filter((path) => !existing.has(path))).toEqual([])
  for (let api = 1; api <= 10; api++) {
    const lines = text.split('\n').filter((line) => line.startsWith(`| API${api} `))
    expect([api, lines.length > 0 && lines.every((line) => line.includes('.test.ts`'))]).toEqual([api, true])
  }
})
