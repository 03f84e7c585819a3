import { expect, test } from 'bun:test'
import { RouteTable } from '../../../src/http/frame/route-table.ts'
import { startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

const gateway = await fixture(startTestGateway({ SVC_PUBLIC_RPM_PER_IP: '100000' }))

const warningOf = async (method: string, path: string) =>
  (await gateway.ask(method, path, { as: 'admin' })).headers.get('warning')

test('§27: a parameter that the route does not read is named in the answer, and ignored as before', async () => {
  const asked = await gateway.ask('GET', '/v1/admin/customers?limit=1&limmit=2', { as: 'admin' })
  expect([asked.status, asked.headers.get('warning')]).toEqual([200, '299 - "unknown query parameter: limmit"'])
  expect(await warningOf('GET', '/v1/admin/customers?limit=1')).toBeNull()
  expect(await warningOf('GET', '/v1/api?a=1&b=2&a=3')).toBe('299 - "unknown query parameter: a, b"')
  expect(await warningOf('POST', '/v1/api/chat/completions?node_id=n&nodeid=n')).toContain(': nodeid"')
  // Of an answer that is a refusal, of one that is not HTML, and where there is no route.
  expect(await warningOf('GET', '/v1/admin/customers?limit=x&limmit=2')).toContain('limmit')
  expect(await warningOf('GET', '/marketplace/models?page=2')).toContain('page')
  expect(await warningOf('GET', '/nothing?a=1')).toBeNull()
})

test('§27: names only, so many, and none that could be more than a name', async () => {
  const many = Array.from({ length: 30 }, (_, at) => `n${at}=secret-value`).join('&')
  const warning = await warningOf('GET', `/v1/api?${many}`)
  expect(warning).toBe('299 - "unknown query parameter: n0, n1, n2, n3, n4, n5, n6, n7, 22 more"')
  const odd = await warningOf('GET', `/v1/api?a%22b=1&c%0d%0ad=1&${'x'.repeat(33)}=1&svc_gateway_9GHTdUOmEIHt=1`)
  expect(odd).toBe('299 - "unknown query parameter: 4 more"')
})

test('§27: what a route documents is known to it', async () => {
  const rows = new RouteTable(gateway.app).rows.filter(({ method, query }) => method === 'GET' && query.length > 0)
  expect(rows.length).toBeGreaterThan(10)
  for (const { path, query } of rows) {
    const target = `${path.replaceAll(/:\w+/g, 'none')}?${query.map((name) => `${name}=`).join('&')}`
    expect([path, await warningOf('GET', target)]).toEqual([path, null])
  }
})
