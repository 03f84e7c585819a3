import { expect, test } from 'bun:test'
import { RouteTable } from '../../../src/http/frame/route-table.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())

test('endpoint 4: name, base_url, endpoints, openapi_url and documentation_url, and nothing else', async () => {
  const response = await gateway.ask('GET', '/v1/api')
  expect(response.status).toBe(200)
  const body = await json(response)
  expect(Object.keys(body).sort()).toEqual(['base_url', 'documentation_url', 'endpoints', 'name', 'openapi_url'])
  expect(body).toMatchObject({
    base_url: gateway.url,
    openapi_url: `${gateway.url}/openapi.json`,
    documentation_url: `${gateway.url}/docs`,
  })
})

test('§9: the index lists what is mounted, without administration and extensions, and each entry answers', async () => {
  const { endpoints } = (await json(await gateway.ask('GET', '/v1/api'))) as { endpoints: string[] }
  expect(endpoints.slice(0, 3)).toEqual(['POST /v1/api/chat/completions', 'GET /v1/api/models', 'GET /v1/api'])
  const rows = new RouteTable(gateway.app).rows.map(({ method, path }) => `${method} ${path}`)
  for (const entry of endpoints) {
    expect(rows).toContain(entry.replaceAll(/\{(\w+)\}/g, ':$1'))
    expect(entry).not.toMatch(/admin|healthz|metrics|openapi/)
    const [method = '', path = ''] = entry.split(' ')
    expect((await gateway.ask(method, path)).status).not.toBe(404)
  }
})

test('§9: Link names the description and the documentation, and both are there', async () => {
  const response = await gateway.ask('GET', '/v1/api')
  expect(response.headers.get('link')).toBe(
    `<${gateway.url}/openapi.json>; rel="service-desc"; type="application/json", <${gateway.url}/docs>; rel="service-doc"`,
  )
  for (const path of ['/openapi.json', '/docs']) expect((await gateway.ask('GET', path)).status).toBe(200)
})

test('§1: the index may be cached for 5 minutes and read by any web page', async () => {
  const { headers } = await gateway.ask('GET', '/v1/api')
  expect(headers.get('cache-control')).toBe('public, max-age=300')
  expect(headers.get('access-control-allow-origin')).toBe('*')
  expect(headers.get('x-content-type-options')).toBe('nosniff')
})

test('RFC 9727: the API catalogue is a linkset with the same links, and no page of another origin reads it', async () => {
  const response = await gateway.ask('GET', '/.well-known/api-catalog')
  expect(response.headers.get('content-type')).toBe('application/linkset+json')
  expect(response.headers.get('access-control-allow-origin')).toBeNull()
  expect(await json(response)).toEqual({
    linkset: [
      {
        anchor: `${gateway.url}/v1/api`,
        'service-desc': [{ href: `${gateway.url}/openapi.json`, type: 'application/json' }],
        'service-doc': [{ href: `${gateway.url}/docs`, type: 'text/html' }],
        status: [{ href: `${gateway.url}/healthz`, type: 'application/json' }],
      },
    ],
  })
})

test('§25: SVC_PUBLIC_URL is the base of every link; with https it also brings HSTS', async () => {
  await using other = await scoped(startTestGateway({ SVC_PUBLIC_URL: 'https://gw.example/' }))
  const response = await other.ask('GET', '/v1/api')
  expect(response.headers.get('strict-transport-security')).toBe('max-age=31536000')
  expect(await json(response)).toMatchObject({
    base_url: 'https://gw.example',
    openapi_url: 'https://gw.example/openapi.json',
  })
  expect((await gateway.ask('GET', '/v1/api')).headers.get('strict-transport-security')).toBeNull()
})
