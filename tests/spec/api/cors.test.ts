import { expect, test } from 'bun:test'
import { RouteTable } from '../../../src/http/frame/route-table.ts'
import { startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

const open = [
  '/v1/api',
  '/v1/api/models',
  '/v1/models',
  '/v1/api/pricing',
  '/v1/public/settlement',
  '/marketplace/models',
]
const exposed = 'Link, x-request-id, retry-after'

const gateway = await fixture(startTestGateway({ SVC_PUBLIC_RPM_PER_IP: '40' }))

const origin = { origin: 'https://page.example' }
const corsOf = ({ headers }: Response) => [
  headers.get('access-control-allow-origin'),
  headers.get('access-control-expose-headers'),
]

test('§27: the preflight of a public GET answers with the headers of the GET, and with what a page may send', async () => {
  for (const path of open) {
    const get = await gateway.ask('GET', path, { headers: origin })
    // Nothing is public here, and the list says that it needs a key.
    expect([path, get.status, ...corsOf(get)]).toEqual([path, path === '/v1/models' ? 401 : 200, '*', exposed])
    const asked = { ...origin, 'access-control-request-method': 'GET', 'access-control-request-headers': 'x-own' }
    const preflight = await gateway.ask('OPTIONS', path, { headers: asked })
    expect([path, preflight.status, ...corsOf(preflight)]).toEqual([path, 204, '*', exposed])
    expect(preflight.headers.get('access-control-allow-methods')).toBe('GET, HEAD')
    expect(preflight.headers.get('access-control-allow-headers')).toBe('*')
    expect(preflight.headers.get('allow')).toContain('GET')
  }
})

test('§1: no other route is open to pages, whatever is asked', async () => {
  const paths = new Set(new RouteTable(gateway.app).rows.map(({ path }) => path.replaceAll(/:\w+/g, 'none')))
  expect(paths.size).toBeGreaterThan(40)
  for (const path of paths) {
    if (open.includes(path) || path.endsWith('/models/*')) continue
    const preflight = await gateway.ask('OPTIONS', path, { headers: origin })
    expect([path, preflight.status, ...corsOf(preflight)]).toEqual([path, 204, null, null])
  }
})

test('§27: a page can read how long to wait where a public GET is refused', async () => {
  for (;;) {
    const response = await gateway.ask('GET', '/v1/api/pricing', { headers: origin })
    if (response.status === 200) continue
    expect([response.status, ...corsOf(response)]).toEqual([429, '*', exposed])
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
    return
  }
})
