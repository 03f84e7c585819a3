import { expect, test } from 'bun:test'
import { rawExchange } from '../support/clients/raw-client.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'

/*
 * `GET /v1/%\../admin/customers` was answered as the admin route: Bun's router takes the two characters behind a percent sign that begins
 * no escape for a part of it, so that the backslash was not among the segments, and its URL has resolved the dots behind it.
 */

const gateway = await fixture(startTestGateway())

const asked = (path: string) =>
  rawExchange(
    gateway.url,
    `GET ${path} HTTP/1.1\r\nHost: localhost\r\nX-SVC-Admin-Token: ${gateway.tokens.admin}\r\nConnection: close\r\n\r\n`,
  )

test.each([
  '/v1/%\\../admin/customers',
  '/v1/a%\\../admin/customers',
  '/v1/%2\\../admin/customers',
  '/v1/%zz\\../admin/customers',
  '/v1/%/../admin/customers',
  '/v1/x/%\\..\\../admin/customers',
  '/%\\../v1/admin/customers',
])('§1: %s reaches no route', async (path) => {
  const { status, text } = await asked(path)
  expect([status, text.includes('"code":"invalid_request"'), text.includes('"customers"')]).toEqual([400, true, false])
})

test('§1: letters beyond ASCII pass, as they are and encoded', async () => {
  for (const path of ['/v1/api/models/%C3%A9', '/v1/admin/nodes/%E2%82%AC'])
    expect((await asked(path)).status).toBe(404)
  expect((await asked('/v1/admin/customers')).status).toBe(200)
})
