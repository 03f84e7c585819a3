import { expect, test } from 'bun:test'
import { json, startTestGateway } from '../support/gateways/http-gateway.ts'
import { fixture, scoped } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const gateway = await fixture(startTestGateway())

const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } })

test('§1: /metrics takes any role token as bearer, and nothing less', async () => {
  for (const role of ['viewer', 'operator', 'admin'] as const) {
    const response = await gateway.ask('GET', '/metrics', bearer(gateway.tokens[role]))
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
  }
  const none = await gateway.ask('GET', '/metrics')
  expect([none.status, (await json(none)).code]).toEqual([401, 'missing_credentials'])
  expect(none.headers.get('www-authenticate')).toBe('Bearer realm="svc"')
  const wrong = await gateway.ask('GET', '/metrics', bearer('nonsense'))
  expect([wrong.status, (await json(wrong)).code]).toEqual([401, 'invalid_credentials'])
})

test('§1: SVC_METRICS_PUBLIC opens it', async () => {
  await using open = await scoped(startTestGateway({ SVC_METRICS_PUBLIC: 'true' }))
  expect((await open.ask('GET', '/metrics')).status).toBe(200)
})

test('§18: requests are counted by template, never by what a caller can make up', async () => {
  await gateway.ask('GET', '/v1/admin/nodes/node_made_up', { as: 'viewer' })
  await gateway.ask('GET', '/made/up')
  expect((await gateway.ask('PROPFIND', '/v1/api')).status).toBe(405)
  const text = async () => (await gateway.ask('GET', '/metrics', bearer(gateway.tokens.viewer))).text()
  const line = 'svc_http_requests_total{route="/v1/admin/nodes/:node_id",method="GET",status="404"} 1'
  await waitUntil('the request is counted', async () => (await text()).includes(line))
  const all = await text()
  expect(all).toContain('svc_http_requests_total{route="unmatched",method="GET",status="404"} 1')
  expect(all).toContain('svc_http_requests_total{route="/v1/api",method="other",status="405"} 1')
  expect(all).toContain('svc_http_request_duration_seconds_count{route="/v1/admin/nodes/:node_id",method="GET"} 1')
  for (const made of ['made_up', 'made/up', 'PROPFIND', '127.0.0.1', 'cus_', 'node_0']) expect(all).not.toContain(made)
})
