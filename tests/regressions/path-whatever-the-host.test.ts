import { expect, test } from 'bun:test'
import { RouteTable } from '../../src/http/frame/route-table.ts'
import { type RawExchange, rawExchange } from '../support/clients/raw-client.ts'
import { waitFor } from '../support/gateways/gateway.ts'
import { startTestGateway, type TestGateway } from '../support/gateways/http-gateway.ts'
import { startLoneAgent } from '../support/nodes/lone-agent.ts'
import { fixture } from '../support/run/fixture.ts'

/*
 * Behind a host of up to three characters the path of a request was looked for too late: `GET /ab/v1/admin/customers`
 * with `Host: x` reached the admin route, past whatever in front of the gateway guards that path.
 */

const gateway = await fixture(
  startTestGateway({ SVC_AUTH_FAILURES_PER_MINUTE: '10000', SVC_PUBLIC_RPM_PER_IP: '1000000' }),
)
const agent = await fixture(startLoneAgent())

const hosts = ['x', 'xy', 'xyz', 'x:1', '[::1]', '[::1]:7070', ':7070', 'gateway.example', 'a.b:65535']
const unusable = ['', ' ', 'a b', 'a/v1/api', 'a?b', 'a#b', 'u@h', 'a\\b', 'x, y']
const methodOf = (method: string) => (method === 'ALL' ? 'GET' : method)
const pathOf = (template: string) => template.replaceAll(/:\w+/g, 'none')

const ask = (url: string, method: string, target: string, host: string, more = '') =>
  rawExchange(url, `${method} ${target} HTTP/1.1\r\nHost: ${host}\r\n${more}Connection: close\r\n\r\n`)
const codeOf = ({ text }: RawExchange) => /"code":"(\w+)"/.exec(text)?.[1]

/** All routes but the one of the operator's choice: its first segment is anything. */
function routesOf(app: TestGateway['app']): { method: string; path: string }[] {
  const rows = new RouteTable(app).rows.map(({ method, path }) => ({ method: methodOf(method), path: pathOf(path) }))
  expect(rows.length).toBeGreaterThan(5)
  return rows
}

test('no route of the gateway answers to a path before or behind which something else stands', async () => {
  const rows = routesOf(gateway.app)
  expect(rows.length).toBeGreaterThan(60)
  for (const { method, path } of rows) {
    if (path === '/') continue
    const answers = await Promise.all([
      ...hosts.slice(0, 4).map((host) => ask(gateway.url, method, `/ab${path}`, host)),
      ask(gateway.url, method, `http://x/ab${path}`, 'y'),
    ])
    for (const answer of answers) expect([path, answer.status, codeOf(answer)]).toEqual([path, 404, 'route_not_found'])
  }
})

test('each route of the gateway answers to its own path under every host', async () => {
  for (const { method, path } of routesOf(gateway.app)) {
    const own = await ask(gateway.url, method, path, 'localhost')
    const answers = await Promise.all([
      ...hosts.map((host) => ask(gateway.url, method, path, host)),
      ask(gateway.url, method, `http://elsewhere.example${path}`, 'x'),
    ])
    for (const answer of answers) expect([path, answer.status, codeOf(answer)]).toEqual([path, own.status, codeOf(own)])
  }
})

test('each route of the agent, likewise', async () => {
  const { url } = agent.node
  const rows = ['/healthz', '/v1/models', '/v1/chat/completions', '/v1/rerank', '/v1/node/status']
  for (const path of rows) {
    for (const method of ['GET', 'POST']) {
      const own = await ask(url, method, path, 'localhost')
      for (const host of hosts)
        expect([path, host, (await ask(url, method, path, host)).status]).toEqual([path, host, own.status])
      for (const host of hosts.slice(0, 4)) expect((await ask(url, method, `/ab${path}`, host)).status).toBe(404)
    }
  }
})

test('a host that is none, or two of them: 400 for every path, in the words of the route, and it is in log and audit', async () => {
  for (const host of unusable) {
    const chat = await ask(gateway.url, 'POST', '/v1/api/chat/completions', host)
    expect([host, chat.status, codeOf(chat)]).toEqual([host, 400, 'invalid_request'])
    expect(chat.text).toContain('"param":"header.host"')
    const agents = await ask(agent.node.url, 'GET', '/healthz', host)
    expect([host, agents.status]).toEqual([host, 400])
  }
  const twice = await ask(gateway.url, 'GET', '/v1/admin/nodes', 'x', 'Host: y\r\n')
  expect([twice.status, codeOf(twice)]).toEqual([400, 'invalid_request'])
  const id = /x-request-id: (\S+)/i.exec(twice.text)?.[1] ?? ''
  const event = await waitFor('the event', async () => {
    await gateway.gateway.audit.writer.flush()
    return (await gateway.database.sql`select * from admin_access_events where request_id = ${id}`)[0] ?? null
  })
  expect(event).toMatchObject({ path_template: '/v1/admin/nodes', status_code: 400, error_code: 'invalid_request' })
  expect(gateway.logged().find(({ request_id }) => request_id === id)).toMatchObject({ route: '/v1/admin/nodes' })
})

test('the template in log and audit is that of the route that answered, whatever the host', async () => {
  const answer = await ask(
    gateway.url,
    'GET',
    '/ab/v1/admin/customers',
    'x',
    `x-svc-admin-token: ${gateway.tokens.admin}\r\n`,
  )
  expect([answer.status, codeOf(answer)]).toEqual([404, 'route_not_found'])
  const id = /x-request-id: (\S+)/i.exec(answer.text)?.[1] ?? ''
  const line = await waitFor(
    'the line',
    async () => gateway.logged().find(({ request_id }) => request_id === id) ?? null,
  )
  expect(line).toMatchObject({ route: 'unmatched', status: 404 })
})

test('a URL of more than 8 KiB is refused on every route', async () => {
  const long = 'x'.repeat(8 * 1024)
  for (const { method, path } of routesOf(gateway.app)) {
    const answer = await ask(gateway.url, method, `${path}?q=${long}`, 'localhost')
    expect([path, answer.status, codeOf(answer)]).toEqual([path, 400, 'invalid_parameter'])
  }
  expect((await ask(agent.node.url, 'GET', `/healthz?q=${long}`, 'localhost')).status).toBe(400)
  expect((await ask(gateway.url, 'GET', `/healthz?q=${'x'.repeat(8_000)}`, 'localhost')).status).toBe(200)
})
