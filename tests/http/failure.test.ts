import { afterEach, expect, test } from 'bun:test'
import { problemOf } from '../../src/http/frame/failure.ts'
import { createLog } from '../../src/log.ts'
import { newToken } from '../../src/secrets.ts'
import { json, startTestGateway, type TestGateway } from '../support/gateways/http-gateway.ts'
import { type SeverableDatabase, severable } from '../support/gateways/severed-database.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const running: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const stop of running.splice(0).reverse()) await stop()
})

test('§2: what was thrown never shows: a defect is 500, logged once, by its class alone', () => {
  let logged = ''
  const log = createLog('debug', (text) => {
    logged += text
  })
  const place = { requestId: 'req_1', route: '/x' }
  const defect = Object.assign(new TypeError('prompt: secret', { cause: new Error('secret') }), { code: 'E_SECRET?' })
  const problem = problemOf(defect, log, place)
  log.flush()
  expect(problem?.code).toBe('internal_error')
  expect(problem?.message).toBe('Internal error')
  expect(logged.split('\n').filter((line) => line !== '')).toHaveLength(1)
  expect(logged).not.toContain('secret')
  expect(problemOf(new DOMException('gone', 'AbortError'), log, place)).toBeNull()
})

test('§3: what drivers say of an absent database is 503, everything else they say is a defect', () => {
  const log = createLog('silent', () => {})
  const codeOf = (code: string) =>
    problemOf(Object.assign(new Error('x'), { cause: Object.assign(new Error('y'), { code }) }), log, {
      requestId: 'r',
      route: '/',
    })?.code
  const away = ['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ENOTFOUND', 'CONNECTION_CLOSED', 'CONNECT_TIMEOUT']
  const states = ['57P01', '57P02', '57P03', '57014', '08006', '53100', '53300', '25006', '58030']
  for (const code of [...away, ...states]) {
    expect([code, codeOf(code)]).toEqual([code, 'service_unavailable'])
  }
  for (const code of ['23505', '42P01', '22021', '25P02', 'UNSAFE_TRANSACTION']) {
    expect([code, codeOf(code)]).toEqual([code, 'internal_error'])
  }
})

async function cutOff(): Promise<{ gateway: TestGateway; database: SeverableDatabase }> {
  let database: SeverableDatabase | null = null
  const gateway = await startTestGateway({}, async (url) => {
    database = await severable(url)
    return database.url
  })
  running.push(
    async () => database?.close(),
    () => gateway.stop(),
  )
  if (database === null) throw new Error('no database')
  return { gateway, database }
}

test('§3: without the database: 503 and never 401, readyz says so, healthz goes on, and all comes back', async () => {
  const { gateway, database } = await cutOff()
  expect((await gateway.ask('GET', '/readyz')).status).toBe(200)
  await database.sever()
  const list = await gateway.ask('GET', '/v1/admin/customers', { as: 'operator' })
  expect(list.status).toBe(503)
  expect(Number(list.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
  expect(await json(list)).toMatchObject({ code: 'service_unavailable', retryable: true })
  const authorization = `Bearer ${newToken('gateway')}`
  const models = await gateway.ask('GET', '/v1/api/models', { headers: { authorization } })
  expect([models.status, models.headers.get('x-should-retry')]).toEqual([503, 'true'])
  expect(await json(models)).toMatchObject({
    error: { code: 'service_unavailable', type: 'service_unavailable_error' },
  })
  expect((await gateway.ask('GET', '/v1/api/models')).status).toBe(200)
  await waitUntil('readyz says so', async () => (await gateway.ask('GET', '/readyz')).status === 503)
  expect(await json(await gateway.ask('GET', '/readyz'))).toEqual({ status: 'database_away' })
  expect(await json(await gateway.ask('GET', '/healthz'))).toEqual({ status: 'ok' })
  await database.restore()
  await waitUntil('readyz is back', async () => (await gateway.ask('GET', '/readyz')).status === 200)
  await waitUntil(
    'the list is back',
    async () => (await gateway.ask('GET', '/v1/admin/customers', { as: 'operator' })).status === 200,
    10_000,
  )
})

test('§1: while stopping readyz answers 503', async () => {
  const gateway = await startTestGateway()
  running.push(() => gateway.stop())
  gateway.gateway.beginStop()
  const response = await gateway.ask('GET', '/readyz')
  expect([response.status, await json(response)]).toEqual([503, { status: 'stopping' }])
  expect((await gateway.ask('GET', '/healthz')).status).toBe(200)
})
