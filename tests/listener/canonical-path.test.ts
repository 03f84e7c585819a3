import { afterAll, expect, test } from 'bun:test'
import type { AnyElysia } from 'elysia'
import fc from 'fast-check'
import { RouteTable } from '../../src/http/frame/route-table.ts'
import { createOllamaApp } from '../../src/http/ollama/ollama-app.ts'
import { createPeerApp } from '../../src/http/peer-app.ts'
import { type RawExchange, rawExchange } from '../support/clients/raw-client.ts'
import { startTestGateway } from '../support/gateways/http-gateway.ts'
import { startLoneAgent } from '../support/nodes/lone-agent.ts'
import { tunnelPair } from '../support/nodes/tunnel-pair.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitLimitMs } from '../support/run/limits.ts'

/** A path of each listener that a route answers, so that a refusal is the path's own. */
interface Listener {
  readonly name: string
  readonly url: string
  readonly path: `/${string}/${string}`
}

const beside: AnyElysia[] = []
const opened = (app: AnyElysia): string => {
  beside.push(app.listen({ port: 0, hostname: '127.0.0.1' }))
  return app.server?.url.origin ?? ''
}
afterAll(async () => {
  for (const app of beside) await app.server?.stop(true)
})
const gateway = await fixture(
  startTestGateway({ SVC_AUTH_FAILURES_PER_MINUTE: '10000', SVC_PUBLIC_RPM_PER_IP: '1000000' }),
)
const agent = await fixture(startLoneAgent())
const listeners: readonly Listener[] = [
  { name: 'gateway', url: gateway.url, path: '/v1/admin/customers' },
  { name: 'ollama', url: opened(createOllamaApp(gateway.gateway, '127.0.0.1')), path: '/api/tags' },
  { name: 'agent', url: agent.node.url, path: '/v1/models' },
  { name: 'peers', url: opened(createPeerApp(gateway.gateway)), path: '/v1/peer/own/loads' },
]

const ask = (url: string, target: string, method = 'GET') =>
  rawExchange(url, `${method} ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`)
const codeOf = ({ text }: RawExchange) => /"code":"(\w+)"/.exec(text)?.[1]
const said = ({ status, text }: RawExchange) => [status, codeOf({ status, text } as RawExchange)]

/** Spellings of a path that a proxy may read as another one, `/a/b/c` in the place of the listener's own. */
function spellings(path: string): string[] {
  const [, first = '', ...rest] = path.split('/')
  const tail = rest.join('/')
  const others = [
    `/${first}\\${tail}`,
    `\\${first}/${tail}`.replace('\\', '/\\'),
    `/x\\..\\${first}/${tail}`,
    `/${first}//${tail}`,
    `//${first}/${tail}`,
    `/${first}/${tail}//`,
    `/${first}//../${tail}`,
    `/x/../${first}/${tail}`,
    `/${first}/./${tail}`,
    `/./${first}/${tail}`,
    `/${first}/${tail}/.`,
    `/${first}/${tail}/x/..`,
    `/${first}/api/../${tail}`,
    ...['%2e', '%2E'].map((dot) => `/${first}/${dot}/${tail}`),
    ...['%2e%2e', '%2E%2e', '.%2E', '%2e.'].map((dots) => `/${first}/x/${dots}/${tail}`),
    ...['%2f', '%2F', '%5c', '%5C'].map((slash) => `/${first}${slash}${tail}`),
    ...['%00', '%0a', '%1F', '%7f', '\u007f', '%', '%2', '%zz', '%u0041', '#x'].map((odd) => `${path}${odd}`),
    `/${first}%2e/${tail}`,
    `${'/x'.repeat(40)}${'/..'.repeat(40)}${path}`,
  ]
  return [...others, ...others.slice(0, 3).map((other) => `http://elsewhere.example${other}`)]
}

test('§1: a path that two programs may read differently is 400 before any route, on each listener', async () => {
  for (const { name, url, path } of listeners) {
    expect([name, (await ask(url, path)).status]).not.toEqual([name, 400])
    expect([name, (await ask(url, path)).status]).not.toEqual([name, 404])
    for (const target of spellings(path)) {
      const answer = await ask(url, target)
      expect([name, target, answer.status]).toEqual([name, target, 400])
      expect(answer.text).toContain(name === 'ollama' ? 'The path has' : 'invalid_request')
    }
  }
})

test('§1: a control byte ends its connection without an answer of a route, on each listener', async () => {
  for (const { name, url, path } of listeners) {
    for (const byte of ['\u0000', '\u0001', '\t', '\u001f']) {
      const { status, text } = await ask(url, path + byte)
      expect([name, byte, status >= 400, text.includes('x-request-id')]).toEqual([name, byte, true, false])
    }
  }
})

test('§1: a byte below 0x21 ends the connection with 505, on each listener', async () => {
  for (const { name, url, path } of listeners) {
    for (const byte of ['\u0001', '\t', '\u001f', ' '])
      expect([name, byte, (await ask(url, path + byte)).status]).toEqual([name, byte, 505])
  }
})

test('§1: a path has at most 32 segments, on each listener', async () => {
  for (const { name, url, path } of listeners) {
    const [, first = ''] = path.split('/')
    const of = (segments: number) => `/${first}${'/x'.repeat(segments - 1)}`
    expect([name, (await ask(url, of(32))).status]).not.toEqual([name, 400])
    expect([name, (await ask(url, of(33))).status]).toEqual([name, 400])
  }
})

test('§1: a refused path stands in log and audit below the route that it would have reached', async () => {
  const { text } = await ask(gateway.url, '/v1\\admin\\customers')
  const id = /x-request-id: (\S+)/i.exec(text)?.[1]
  const line = gateway.logged().find(({ request_id }) => request_id === id)
  expect(line).toMatchObject({ status: 400, code: 'invalid_request', route: '/v1/admin/customers' })
})

test('§1: what stands behind the question mark is no path, and a slash at the end changes nothing', async () => {
  const own = said(await ask(gateway.url, '/v1/admin/customers'))
  for (const target of ['?x=//', '?x=..%2f\\', '?x=/../%2e', '/', '/?x=%5c']) {
    expect([target, ...said(await ask(gateway.url, `/v1/admin/customers${target}`))]).toEqual([target, ...own])
  }
  expect((await ask(gateway.url, 'http://elsewhere.example/healthz')).status).toBe(200)
  expect((await ask(gateway.url, 'http://elsewhere.example')).status).toBe((await ask(gateway.url, '/')).status)
  expect((await ask(gateway.url, '/v1/api/models/a/b/c')).status).toBe(404)
})

test('§28: the id of a model may have encoded slashes, and nothing else may', async () => {
  // Where nothing is public, only the list below /v1/api needs no key (§9).
  const bases = [
    ['/v1/models/', 401, 'missing_credentials'],
    ['/v1/api/models/', 404, 'model_not_found'],
  ] as const
  for (const [base, ...reached] of bases) {
    for (const id of ['demo%2Fwordplay', 'a%2fb%2Fc', 'org%2Fm%3Aq4', 'org%2Fm%40x']) {
      expect([id, ...said(await ask(gateway.url, base + id))]).toEqual([id, ...reached])
    }
    for (const id of ['%2Fa', 'a%2F%2Fb', 'a%2F..%2Fb', '..%2Fadmin', 'a%2F.', 'a%2Fb/c', 'a%2F%2e', 'a%2F%20']) {
      expect([id, ...said(await ask(gateway.url, base + id))]).toEqual([id, 400, 'invalid_request'])
    }
  }
  for (const path of ['/v1/admin/customers/a%2Fb', '/v1/models%2Fa', '/v1/admin%2Fmodels/a', '/x/v1/models/a%2Fb']) {
    expect([path, ...said(await ask(gateway.url, path))]).toEqual([path, 400, 'invalid_request'])
  }
  const load = (id: string) => ask(agent.node.url, `/svc/v1/models/${id}/load`, 'POST')
  expect(said(await load('org%2Fa'))).toEqual([401, 'missing_credentials'])
  for (const id of ['..%2Fa', 'a%2F%2Fb', 'a%5cb'])
    expect([id, ...said(await load(id))]).toEqual([id, 400, 'invalid_request'])
})

test('§22: a tunnel carries no path that becomes another one', async () => {
  const reached: string[] = []
  const pair = await tunnelPair(async (request) => {
    reached.push(new URL(request.url).pathname)
    return new Response('ok')
  })
  const through = (path: string) =>
    pair.transport.fetch(path, { method: 'GET', signal: AbortSignal.timeout(waitLimitMs) })
  await (await through('/v1/models')).text(100)
  for (const path of ['/x/../v1/models', '/x\\..\\v1/models', '/v1/./models']) {
    expect(
      await through(path).then(
        ({ status }) => status,
        () => 'failed',
      ),
    ).toBe('failed')
  }
  expect(reached).toEqual(['/v1/models'])
  await pair.stop()
  for (const path of ['/v1%2fmodels', '/v1//models', '/v1/models%5c']) {
    expect((await agent.node.handle(new Request(`http://localhost${path}`))).status).toBe(400)
  }
})

const honest = [
  'v1/admin/customers',
  'v1/admin/nodes/a',
  'v1/api/models',
  'v1/models/a/b',
  'v1/models/demo%2Fx',
  'healthz',
]
const noise = fc.constantFrom(
  ...['', 'a', '.', '..', '%2e', '.%2E', '\\', '..\\', '\\..', '%5c', '%2f', '%00', '%zz', '..;', 'x^|{}', '%61', 'é'],
)
/** A path of a route with something between two of its segments, or beside one. */
const target = fc
  .tuple(
    fc.constantFrom(...honest),
    fc.array(fc.tuple(fc.nat(6), noise, fc.constantFrom('/', '\\', '')), { maxLength: 2 }),
  )
  .map(([path, more]) => {
    const segments = path.split('/')
    for (const [at, text, joint] of more) {
      const place = Math.min(at, segments.length)
      if (joint === '/') segments.splice(place, 0, text)
      else segments[place] = `${segments[place] ?? ''}${joint}${text}`
    }
    return `/${segments.join('/')}`
  })

/** The template as a pattern over the bytes that were sent. */
const literally = (template: string) =>
  new RegExp(
    `^${template
      .replaceAll('.', '\\.')
      .replaceAll('*', '.+')
      .replaceAll(/:[A-Za-z_]+/g, '[^/]+')}/?$`,
  )

test('§1: whatever path reaches a route, its template matches the bytes that were sent', async () => {
  const templates = new Set(new RouteTable(gateway.app).rows.map(({ path }) => path))
  const reached = new Map<string, string>()
  await fc.assert(
    fc.asyncProperty(target, async (path) => {
      const { status, text } = await ask(gateway.url, path)
      if (status === 400) return
      expect(path).not.toMatch(/\\|\/\/|\/\.{1,2}(?:\/|$)|%2e|%5c|%00|%zz/i)
      reached.set(/x-request-id: (\S+)/i.exec(text)?.[1] ?? '', path)
    }),
    { numRuns: 1_500, seed: 7 },
  )
  const lines = gateway.logged().filter(({ request_id }) => reached.has(String(request_id)))
  const routed = lines.filter(({ route }) => templates.has(String(route)))
  expect(routed.length).toBeGreaterThan(100)
  for (const { request_id, route } of routed) {
    expect(reached.get(String(request_id))).toMatch(literally(String(route)))
  }
})
