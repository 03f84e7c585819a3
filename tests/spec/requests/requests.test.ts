import { afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import {
  type AdminRequest,
  AdminRequestList,
  CustomerRequestList,
  RequestStory,
} from '../../../src/protocol/wire/admin/requests.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { startOwnedPool } from '../../support/pools/owned-pool.ts'
import { fixture } from '../../support/run/fixture.ts'

const secret = 'the-prompt-nobody-may-see'
const own = { owner: 'A', visibility: 'private', privacyClass: 'private' } as const
const nodes = {
  one: { ...own, fake: { models: ['both', 'single'] } },
  two: { ...own, fake: { models: ['both'] } },
  three: { ...own, fake: { models: ['pair'] } },
  four: { ...own, fake: { models: ['pair'] } },
  other: { ...own, owner: 'B', fake: { models: ['foreign'] } },
} as const

const gateway = await fixture(startTestGateway({ env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000' } }))
const pool = await fixture(startOwnedPool(gateway, ['A', 'B'], nodes))

afterEach(() => {
  for (const name of Object.keys(nodes)) pool.fake(name).clearFaults()
})

async function ask(customer: string, model: string, more: object = {}): Promise<{ id: string; status: number }> {
  const { key } = pool.customer(customer)
  const response = await gateway.chat(key, { model, messages: [{ role: 'user', content: secret }], ...more })
  await response.text()
  return { id: response.headers.get('x-request-id') ?? '', status: response.status }
}

const get = (path: string, token = gateway.tokens.operator) =>
  fetch(gateway.url + path, { headers: { 'x-svc-admin-token': token } })

async function list(query = '', token = gateway.tokens.operator): Promise<AdminRequestList> {
  const found = await gateway.admin<AdminRequestList>('GET', `/v1/admin/requests${query}`, undefined, token)
  expect([...Value.Errors(AdminRequestList, found)]).toEqual([])
  expect(found.count).toBe(found.requests.length)
  return found
}
const idsOf = ({ requests }: { readonly requests: readonly { readonly request_id: string }[] }) =>
  requests.map(({ request_id }) => request_id)

async function story(id: string, token = gateway.tokens.operator): Promise<RequestStory> {
  const found = await gateway.admin<RequestStory>('GET', `/v1/admin/requests/${id}`, undefined, token)
  expect([...Value.Errors(RequestStory, found)]).toEqual([])
  return found
}

const refusal = async (path: string, token?: string) => {
  const response = await get(path, token)
  return [response.status, ((await response.json()) as { code: string }).code]
}

const billed = (customer: string, query = '') => {
  const { customerId, customerToken } = pool.customer(customer)
  const headers = { 'x-svc-customer-id': customerId, 'x-svc-customer-token': customerToken }
  return fetch(`${gateway.url}/v1/billing/requests${query}`, { headers })
}

describe('§32: one row per request', () => {
  test('a stream that was served: who, where, how long, how much, and its receipt', async () => {
    const before = Date.now()
    const { id } = await ask('A', 'single', { stream: true })
    const [row] = (await list('?limit=1')).requests
    const { customerId, keyId } = pool.customer('A')
    expect(row).toMatchObject({
      request_id: id,
      customer_id: customerId,
      key_id: keyId,
      node_id: pool.nodeId('one'),
      operation: 'chat',
      stream: true,
      model: 'single',
      tries: 1,
      status: 200,
      code: null,
      cost_wei: null,
    })
    const seen = row as AdminRequest
    expect(Date.parse(seen.at)).toBeGreaterThanOrEqual(before - 1)
    expect(Date.parse(seen.at)).toBeLessThanOrEqual(Date.now())
    expect(seen.ttft_ms).toBeGreaterThanOrEqual(seen.sent_ms ?? Number.NaN)
    expect(seen.duration_ms).toBeGreaterThanOrEqual(seen.ttft_ms ?? Number.NaN)
    expect(seen.prompt_tokens).toBeGreaterThan(0)
    expect(seen.completion_tokens).toBeGreaterThan(0)
    expect(seen.receipt_hash).toMatch(/^0x[0-9a-f]{64}$/)
  })

  test('a refusal of a known account leaves one; a stranger leaves none; no table holds a prompt', async () => {
    const refused = await ask('A', 'nobody-has-it')
    expect(refused.status).toBe(404)
    const stranger = await gateway.chat('svc_gateway_nobody', { model: 'single', messages: [] })
    expect(stranger.status).toBe(401)
    const found = await list('?limit=1000')
    expect(found.requests[0]).toMatchObject({
      request_id: refused.id,
      status: 404,
      code: 'model_not_found',
      model: null,
    })
    const { cause } = await story(refused.id)
    expect(cause).toMatchObject({ title: 'No such model', help_url: `${gateway.url}/docs/errors#model_not_found` })
    expect(cause?.next).toContain('/v1/models')
    expect((await story((await ask('A', 'single')).id)).cause).toBeNull()
    expect(idsOf(found)).not.toContain(stranger.headers.get('x-request-id') ?? '')
    const [{ rows } = { rows: '' }] = await gateway.database.sql<{ rows: string }[]>`
      select coalesce(string_agg(r::text, ''), '') as rows from request_records r`
    expect(rows).toContain(refused.id)
    expect(rows).not.toContain(secret)
    expect(rows).not.toContain('127.0.0.1')
  })

  test('its story: a call that failed, the call that answered, and why each node was chosen', async () => {
    pool.fake('one').setFaults({ kind: 'status500', times: 1 })
    pool.fake('two').setFaults({ kind: 'status500', times: 1 })
    // Whichever is asked first fails; the other one, too: then the request has failed on both.
    const failed = await ask('A', 'both')
    expect(failed.status).toBe(502)
    const told = await story(failed.id)
    expect(told.request).toMatchObject({ status: 502, tries: 2, code: 'upstream_error' })
    expect(told.attempts.map(({ code }) => code)).toEqual(['upstream_error', 'upstream_error'])
    expect(told.attempts.map(({ node_id }) => node_id).sort()).toEqual([pool.nodeId('one'), pool.nodeId('two')].sort())
    expect(told.explain?.tries.slice(0, 2).map(({ result }) => result)).toEqual(['placed', 'placed'])
    pool.fake('one').setFaults({ kind: 'status500', times: 1 })
    const single = await story((await ask('A', 'single')).id)
    expect(single.attempts).toMatchObject([{ node_id: pool.nodeId('one'), code: 'upstream_error' }])
  })

  test('its way through the chart of requests, from its record alone', async () => {
    const { id } = await ask('A', 'single', { stream: true })
    expect((await story(id)).states.map(({ state }) => state)).toEqual([
      'queued',
      'trying',
      'streaming',
      'settled.served',
    ])
    const refused = await ask('A', 'nobody-has-it')
    expect((await story(refused.id)).states.map(({ state }) => state)).toEqual(['queued', 'settled.failed'])
  })

  test('a second try that answers stands behind the one that failed', async () => {
    const first = await story((await ask('A', 'pair')).id)
    const names =
      first.request.node_id === pool.nodeId('three') ? (['three', 'four'] as const) : (['four', 'three'] as const)
    // The cache of the first one draws the same prompt there again.
    pool.fake(names[0]).setFaults({ kind: 'status500', times: 1 })
    const { id, status } = await ask('A', 'pair')
    expect(status).toBe(200)
    const { request, attempts } = await story(id)
    expect(request).toMatchObject({ tries: 2, node_id: pool.nodeId(names[1]), code: null })
    expect(attempts.map(({ node_id, code }) => [node_id, code])).toEqual([
      [pool.nodeId(names[0]), 'upstream_error'],
      [pool.nodeId(names[1]), null],
    ])
    expect(attempts[1]?.started_ms).toBeGreaterThanOrEqual(attempts[0]?.started_ms ?? Number.NaN)
  })
})

describe('§32: filters and cursors', () => {
  let all: AdminRequestList
  beforeAll(async () => {
    await ask('B', 'foreign', { stream: true })
    await ask('B', 'foreign')
    await ask('A', 'single', { stream: true })
    all = await list('?limit=1000')
  })

  test('each filter shows exactly the rows that fit, newest first', async () => {
    const { customerId, keyId } = pool.customer('B')
    const cases: readonly (readonly [string, (row: AdminRequest) => boolean])[] = [
      ['model=single', ({ model }) => model === 'single'],
      [`node_id=${pool.nodeId('other')}`, ({ node_id }) => node_id === pool.nodeId('other')],
      [`customer_id=${customerId}`, ({ customer_id }) => customer_id === customerId],
      [`key_id=${keyId}`, ({ key_id }) => key_id === keyId],
      ['status=404', ({ status }) => status === 404],
      ['code=upstream_error', ({ code }) => code === 'upstream_error'],
      ['min_ttft_ms=0', ({ ttft_ms }) => ttft_ms !== null],
      ['model=foreign&status=200', ({ model, status }) => model === 'foreign' && status === 200],
      ['model=foreign&status=404', () => false],
    ]
    for (const [query, fits] of cases) {
      const expected = all.requests.filter(fits)
      if (query !== 'model=foreign&status=404') expect(expected.length).toBeGreaterThan(0)
      expect(idsOf(await list(`?limit=1000&${query}`))).toEqual(idsOf({ requests: expected }))
    }
    const sorted = all.requests.map(({ at, request_id }) => `${at} ${request_id}`)
    expect(sorted).toEqual([...sorted].sort().reverse())
  })

  test('a range takes its first moment and leaves its last one', async () => {
    const [newest, ...rest] = all.requests
    const oldest = rest.at(-1)
    const within = await list(`?limit=1000&from=${oldest?.at}&to=${newest?.at}`)
    expect(idsOf(within)).toEqual(idsOf({ requests: all.requests.filter(({ at }) => at < (newest?.at ?? '')) }))
  })

  test('pages follow each other without a gap or a repetition, by cursor and by Link', async () => {
    const seen: string[] = []
    let path = '/v1/admin/requests?limit=3&from=2020-01-01T00:00:00Z'
    for (;;) {
      const response = await get(path)
      const page = (await response.json()) as AdminRequestList
      seen.push(...idsOf(page))
      const link = /^<(.*)>; rel="next"$/.exec(response.headers.get('link') ?? '')?.[1]
      expect(page.truncated).toBe(page.next_cursor !== null)
      expect(link === undefined).toBe(!page.truncated)
      if (link === undefined) break
      expect(link.startsWith(`${gateway.url}/v1/admin/requests?`)).toBe(true)
      expect(new URL(link).searchParams.get('cursor')).toBe(page.next_cursor)
      path = link.slice(gateway.url.length)
    }
    expect(seen).toEqual(idsOf(all))
  })

  test('a CSV has every page, and no more than a limit that was given', async () => {
    const lines = async (query: string) =>
      (await (await get(`/v1/admin/requests?format=csv${query}`)).text()).split('\r\n')
    const whole = await lines('')
    expect(whole.slice(1, -1).map((line) => line.slice(1, 31))).toEqual(idsOf(all))
    expect((await lines('&limit=2')).length).toBe(4)
  })

  test('what is no filter is refused by its name', async () => {
    for (const query of [
      'from=yesterday',
      'from=2026-13-40T00:00:00Z',
      'from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z',
      'cursor=nonsense',
      'status=99',
      'code=NOT+A+CODE',
      'min_ttft_ms=-1',
      'model=a&model=b',
      'limit=0',
      'limit=1001',
      'format=xlsx',
    ]) {
      expect([query, ...(await refusal(`/v1/admin/requests?${query}`))]).toEqual([query, 400, 'invalid_parameter'])
    }
    const missing = `req_${'0'.repeat(26)}`
    expect(await refusal(`/v1/admin/requests/${missing}`)).toEqual([404, 'request_not_found'])
    expect(await refusal('/v1/admin/requests/nonsense')).toEqual([404, 'request_not_found'])
  })
})

describe('§32: who sees what', () => {
  test('a viewer sees neither customers nor keys, and cannot ask for them', async () => {
    const { viewer } = gateway.tokens
    const { customerId, keyId } = pool.customer('A')
    for (const row of (await list('', viewer)).requests) expect([row.customer_id, row.key_id]).toEqual([null, null])
    for (const query of [`customer_id=${customerId}`, `key_id=${keyId}`]) {
      expect(await refusal(`/v1/admin/requests?${query}`, viewer)).toEqual([403, 'insufficient_role'])
      expect(await refusal(`/v1/admin/requests?format=csv&${query}`, viewer)).toEqual([403, 'insufficient_role'])
    }
    const { id } = await ask('A', 'single')
    const told = await story(id, viewer)
    expect([told.request.customer_id, told.request.key_id, told.explain?.customer_id]).toEqual([null, null, null])
  })

  test('a customer sees its own requests, and no node', async () => {
    const { id } = await ask('B', 'foreign')
    const response = await billed('B', '?limit=1000')
    const found = (await response.json()) as CustomerRequestList
    expect([...Value.Errors(CustomerRequestList, found)]).toEqual([])
    expect(found.requests[0]?.request_id).toBe(id)
    expect(JSON.stringify(found)).not.toContain('node_')
    const { customerId } = pool.customer('B')
    expect(idsOf(found)).toEqual(idsOf(await list(`?limit=1000&customer_id=${customerId}`)))
    const csv = await (await billed('B', '?format=csv')).text()
    expect(csv.split('\r\n')[0]).not.toContain('node_id')
    expect(csv.split('\r\n').length).toBe(found.count + 2)
    const { customerId: other } = pool.customer('A')
    const asked = (await (await billed('B', `?customer_id=${other}&limit=1000`)).json()) as CustomerRequestList
    expect(idsOf(asked)).toEqual(idsOf(found))
  })
})

test('§32: metrics name the node of a first token and of a duration', async () => {
  const { id } = await ask('A', 'single', { stream: true })
  const { node_id } = (await story(id)).request
  const text = await (
    await fetch(`${gateway.url}/metrics`, { headers: { authorization: `Bearer ${gateway.tokens.viewer}` } })
  ).text()
  for (const name of ['gen_ai_server_time_to_first_token_seconds', 'gen_ai_client_operation_duration_seconds']) {
    expect(text).toMatch(new RegExp(`^${name}_count\\{.*gen_ai_request_model="single",node="${node_id}"\\} [1-9]`, 'm'))
  }
  // A node without a name is called by its address, which is for no metric.
  expect(text).not.toContain(new URL(pool.fake('one').url).host)
})
