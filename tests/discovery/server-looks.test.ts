import { afterAll, expect, test } from 'bun:test'
import { ServerLooks } from '../../src/discovery/server-looks.ts'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { Discovered } from '../../src/protocol/wire/nodes/discovery.ts'
import { commandLine } from '../cli/command-line.ts'
import { freePort } from '../support/gateways/free-port.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'
import { settled, waitUntil } from '../support/run/wait-until.ts'

const port = freePort()
const place = '/v1/admin/nodes/discover'
const undo: (() => unknown)[] = []

/** A server of the local network: all of 127.0.0.0/8 is this computer. */
function serverAt(hostname: string, fetch: (request: Request) => Response | Promise<Response>): void {
  const server = Bun.serve({ hostname, port, fetch })
  undo.push(() => server.stop(true))
}

afterAll(async () => {
  for (const step of undo.reverse()) await step()
})
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const node = startFakeNode({ models: ['phi-4', 'qwen3'] })
undo.push(() => node.stop())
serverAt('127.77.0.3', (request) => {
  const { pathname, search } = new URL(request.url)
  return fetch(node.url + pathname + search, { method: request.method })
})
serverAt('127.77.0.5', () => new Response('<html>a printer</html>', { headers: { 'content-type': 'text/html' } }))
serverAt('127.77.0.6', () => Response.redirect('http://127.77.0.3/'))

const look = (body: object, token = gateway.tokens.operator, signal?: AbortSignal) =>
  fetch(gateway.url + place, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-svc-admin-token': token },
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  })

test('§39: a range is asked address by address; what is a model server is offered, and nothing is registered', async () => {
  const response = await look({ range: '127.77.0.0/28', ports: [port] })
  expect(response.status).toBe(200)
  const { asked, servers } = (await response.json()) as Discovered
  expect(asked).toBe(14)
  expect(servers).toEqual([
    { url: `http://127.77.0.3:${port}`, runtime_kind: 'openai', models: ['phi-4', 'qwen3'], node_id: null },
  ])
  expect((await gateway.admin<{ count: number }>('GET', '/v1/admin/nodes')).count).toBe(0)
})

test('§39: one that is a node already is named so, and the gateway does not find itself', async () => {
  const id = await gateway.node(`http://127.77.0.3:${port}`, { customerId: customer.customerId })
  const { port: own } = new URL(gateway.url)
  const response = await look({ range: '127.77.0.3', ports: [port, Number(own)] })
  expect(((await response.json()) as Discovered).servers.map(({ node_id }) => node_id)).toEqual([id])
  const itself = (await (await look({ range: '127.0.0.1', ports: [Number(own)] })).json()) as Discovered
  expect(itself).toMatchObject({ asked: 1, servers: [] })
})

test('§39: of a server that says much no more is kept than is told of it', async () => {
  const data = Array.from({ length: 900 }, (_, at) => ({ id: `m${at}`, object: 'model', owned_by: 'x'.repeat(900) }))
  serverAt('127.77.2.3', ({ url }) =>
    new URL(url).pathname === '/v1/models'
      ? Response.json({ object: 'list', data })
      : new Response('no', { status: 404 }),
  )
  const places = [{ address: '127.77.2.3', port }]
  const { found } = await new ServerLooks().look({ places, signal: new AbortController().signal })
  expect(found[0]?.models.length).toBe(20)
  expect(JSON.stringify(found).length).toBeLessThan(500)
})

test('§39: what may not be asked is refused before anything is', async () => {
  for (const body of [
    { range: '8.8.8.0/24' },
    { range: '10.0.0.0/8' },
    { range: 'fd00::/64' },
    { range: '169.254.169.254', public: true },
    { range: '127.77.0.3', ports: [0] },
    { range: '127.77.0.3', ports: Array.from({ length: 9 }, (_, at) => at + 1) },
    { addresses: ['127.77.0.3'] },
  ]) {
    const response = await look(body)
    expect([body, response.status]).toEqual([body, 400])
  }
  expect((await look({ range: '127.77.0.3' }, gateway.tokens.viewer)).status).toBe(403)
})

test('§39: one look at a time; it ends with its caller', async () => {
  let reached = 0
  const silent = Bun.listen({
    hostname: '127.77.1.9',
    port,
    socket: {
      open: () => {
        reached++
      },
      data: () => {},
    },
  })
  undo.push(() => silent.stop(true))
  const leaving = new AbortController()
  const first = look({ range: '127.77.1.0/24', ports: [port] }, gateway.tokens.operator, leaving.signal).catch(
    (error: unknown) => (error as Error).name,
  )
  await waitUntil('the first connection', () => reached > 0)
  const second = await look({ range: '127.77.0.3', ports: [port] })
  expect([second.status, ((await second.json()) as { code: string }).code]).toEqual([409, 'invalid_state'])
  leaving.abort()
  expect(await settled('its end', first)).toBe('AbortError')
  await waitUntil('the next look', async () => (await look({ range: '127.77.0.3', ports: [port] })).status === 200)
})

test('§39: `nodes discover` shows what answers, and the command that adds it', async () => {
  const cli = commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.operator })
  undo.push(() => cli.close())
  const shown = await cli.run(['nodes', 'discover', '127.77.0.0/28', '--port', String(port)])
  expect([shown.code, shown.err]).toEqual([0, ''])
  expect(shown.out).toMatch(/http:\/\/127\.77\.0\.3:\d+ +openai +phi-4, qwen3/)
  const none = await cli.run(['nodes', 'discover', '127.77.0.9', '--port', String(port)])
  expect(none.out).toContain('No model server answered (1 addresses and ports were asked)')
  const wrong = await cli.run(['nodes', 'discover', '--port', '99999', '127.77.0.9'])
  expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining('--port must be a number')])
})

test('§39: where nothing announces itself, `nodes discover` says how to ask each address', async () => {
  const quiet = Bun.serve({
    port: 0,
    fetch: () => Response.json({ object: 'svc.admin.node_discovery', asked: 0, servers: [] }),
  })
  undo.push(() => quiet.stop(true))
  const cli = commandLine({ SVC_BASE_URL: quiet.url.origin, SVC_ADMIN_TOKEN: gateway.tokens.operator })
  undo.push(() => cli.close())
  const { out } = await cli.run(['nodes', 'discover'])
  expect(out).toContain('No model server announces itself')
  expect(out).toContain('name a range such as 192.168.1.0/24')
})
