import { describe, expect, test } from 'bun:test'
import { arrayText } from '../../../src/db/arrays.ts'
import { groupName, requestColumns, tagsBetween } from '../../../src/db/queries/requests/request-groups.ts'
import type { AdminRequest } from '../../../src/protocol/wire/admin/requests.ts'
import { tagSeparator } from '../../../src/protocol/wire/inference/tags.ts'
import { parseCsv } from '../../support/clients/csv.ts'
import { postJson } from '../../support/clients/post-json.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { nodeAt, startFakeNodes } from '../../support/nodes/fake-nodes.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const open = { min_privacy_class: 'public' as const }
const messages = [{ role: 'user', content: 'hello' }]
const gateway = await fixture(
  startTestGateway({ env: { SVC_OLLAMA_LISTEN: '127.0.0.1:0', SVC_METRICS_PUBLIC: 'true' } }),
)
const customer = await gateway.customer({ policy: open, keyPolicy: open })
const nodes = await fixture(startFakeNodes(2, (at) => ({ models: [at === 0 ? 'm' : 'paid'] })))
const node = nodeAt(nodes, 0)
await gateway.node(node.url, { customerId: customer.customerId })
await gateway.node(nodeAt(nodes, 1).url, { visibility: 'public', privacyClass: 'public' })
await gateway.admin('PUT', '/v1/admin/models', { id: 'paid', completion_token_price_wei: '1000' })
await gateway.admin('POST', `/v1/admin/customers/${customer.customerId}/credits`, { amount_wei: '1000000' })

const post = (path: string, body: object, headers: Readonly<Record<string, string>> = {}) =>
  postJson(`${path.startsWith('/api/') ? gateway.ollamaUrl : gateway.url}${path}`, customer.key, body, { headers })
const ask = (more: object = {}, headers: Readonly<Record<string, string>> = {}) =>
  post('/v1/chat/completions', { model: 'm', messages, ...more }, headers)
async function tagsAfter(response: Response, status = 200): Promise<readonly string[]> {
  await response.text()
  expect(response.status).toBe(status)
  const id = response.headers.get('x-request-id')
  const { request } = await gateway.admin<{ request: AdminRequest }>('GET', `/v1/admin/requests/${id}`)
  return request.tags
}
const refused = async (response: Response) => {
  const { error } = (await response.json()) as { error: { code: string; param: string; message: string } }
  return [response.status, error.code, error.param, error.message] as const
}
type List = { readonly requests: readonly AdminRequest[] }
const billing = (query: string) =>
  fetch(`${gateway.url}/v1/billing/requests?${query}`, {
    headers: { 'x-svc-customer-id': customer.customerId, 'x-svc-customer-token': customer.customerToken },
  })

describe('§32: tags of a request', () => {
  test('of the header and of metadata, each once, in the order of the alphabet', async () => {
    expect(await tagsAfter(await ask({}, { 'x-svc-tags': 'team:search, app/notes' }))).toEqual([
      'app/notes',
      'team:search',
    ])
    expect(await tagsAfter(await ask({ metadata: { tags: ['b', 'a', 'b'] } }))).toEqual(['a', 'b'])
    expect(await tagsAfter(await ask({ metadata: { tags: 'b, a' } }, { 'x-svc-tags': 'c,a' }))).toEqual(['a', 'b', 'c'])
    for (const metadata of [null, {}, { tags: null }, { tags: [] }, { tags: '' }, 'text', { other: ['x y'] }]) {
      expect(await tagsAfter(await ask({ metadata }))).toEqual([])
    }
    expect(await tagsAfter(await ask({ metadata: { tags: ['x'.repeat(64)] } }))).toEqual(['x'.repeat(64)])
  })

  test('at every door, streams and mixtures included, and no node is sent them', async () => {
    const metadata = { tags: ['door'] }
    const asked: readonly (readonly [string, object])[] = [
      ['/v1/chat/completions', { messages, stream: true }],
      ['/v1/responses', { input: 'hi' }],
      ['/v1/messages', { messages, max_tokens: 5 }],
      ['/api/chat', { messages, stream: false }],
      ['/api/generate', { prompt: 'hi', stream: false }],
      [
        '/v1/chat/completions',
        { messages, svc: { mixture: { strategy: 'vote', experts: [{ model: 'm' }, { model: 'm' }] } } },
      ],
    ]
    for (const [path, body] of asked) {
      expect(await tagsAfter(await post(path, { model: 'm', metadata, ...body }))).toEqual(['door'])
      expect(JSON.stringify(node.requests.at(-1)?.body)).not.toContain('door')
    }
  })

  test('of requests that no node serves, too: completions, embeddings, rankings', async () => {
    const metadata = { tags: ['unserved'] }
    const asked: readonly (readonly [string, object])[] = [
      ['/v1/completions', { prompt: 'hi' }],
      ['/v1/embeddings', { input: 'hi' }],
      ['/api/embed', { input: 'hi' }],
      ['/api/embeddings', { prompt: 'hi' }],
      ['/v1/rerank', { query: 'hi', documents: ['a'] }],
      ['/v1/audio/speech', { input: 'hi', voice: 'v' }],
    ]
    for (const [path, body] of asked) {
      const response = await post(path, { model: 'nowhere', metadata, ...body })
      expect([path, await tagsAfter(response, 404)]).toEqual([path, ['unserved']])
    }
  })

  test('a refusal of the pool has them, too', async () => {
    const response = await ask({ model: 'nowhere' }, { 'x-svc-tags': 'lost' })
    expect(response.status).toBe(404)
    const { requests } = await gateway.admin<List>('GET', '/v1/admin/requests?tag=lost')
    expect(requests.map(({ status, tags }) => [status, tags])).toEqual([[404, ['lost']]])
  })

  const faults: readonly (readonly [string, object, string | null, string, string])[] = [
    ['a space in a tag', { tags: ['two words'] }, null, 'invalid_request', 'metadata.tags[0]'],
    ['an empty tag', { tags: ['a', ''] }, null, 'invalid_request', 'metadata.tags[1]'],
    ['a comma in a tag', { tags: ['a,b'] }, null, 'invalid_request', 'metadata.tags[0]'],
    ['a tag of 65 characters', { tags: ['x'.repeat(65)] }, null, 'invalid_request', 'metadata.tags[0]'],
    ['a letter beyond ASCII', { tags: 'größe' }, null, 'invalid_request', 'metadata.tags'],
    ['a number', { tags: [7] }, null, 'invalid_request', 'metadata.tags[0]'],
    ['an object', { tags: { a: 'b' } }, null, 'invalid_request', 'metadata.tags'],
    ['nine', { tags: [...'abcdefghi'] }, null, 'invalid_request', 'metadata.tags'],
    ['a long text', { tags: 'a,'.repeat(100_000) }, null, 'invalid_request', 'metadata.tags'],
    ['a long header', {}, ' '.repeat(500) + 'a,'.repeat(500), 'invalid_parameter', 'header.x-svc-tags'],
    ['nine with the header', { tags: [...'abcde'] }, 'f,g,h,i', 'invalid_request', 'metadata.tags'],
    ['nine in the header', {}, 'a,b,c,d,e,f,g,h,i', 'invalid_parameter', 'header.x-svc-tags'],
    ['a sign in the header', {}, 'ok,no?', 'invalid_parameter', 'header.x-svc-tags'],
  ]
  test.each(faults)('400 before a node is asked: %s', async (_, metadata, header, code, param) => {
    const before = node.requests.length
    const response = await ask({ metadata }, header === null ? {} : { 'x-svc-tags': header })
    const [status, told, where, message] = await refused(response)
    expect([status, told, where]).toEqual([400, code, param])
    expect(message).not.toContain('two words')
    expect(node.requests.length).toBe(before)
  })

  test('a label of no metric and a word of no log line', async () => {
    await tagsAfter(await ask({}, { 'x-svc-tags': 'secret-project' }))
    const metrics = await (await fetch(`${gateway.url}/metrics`)).text()
    expect(metrics).toContain('svc_')
    expect(metrics).not.toContain('secret-project')
  })
})

describe('§32: what tags are for', () => {
  test('both lists filter by one of them, the tables have a column', async () => {
    await tagsAfter(await ask({}, { 'x-svc-tags': 'list-a,list-b' }))
    await tagsAfter(await ask({}, { 'x-svc-tags': 'list-b' }))
    const found = async (tag: string) =>
      (await gateway.admin<List>('GET', `/v1/admin/requests?tag=${tag}`)).requests.map(({ tags }) => tags)
    expect(await found('list-a')).toEqual([['list-a', 'list-b']])
    expect(await found('list-b')).toEqual([['list-b'], ['list-a', 'list-b']])
    expect(await found('list')).toEqual([])
    const own = (await (await billing('tag=list-a')).json()) as List
    expect(own.requests.map(({ tags }) => tags)).toEqual([['list-a', 'list-b']])
    for (const text of [
      await (await billing('tag=list-a&format=csv')).text(),
      await (
        await fetch(`${gateway.url}/v1/admin/requests?tag=list-a&format=csv`, {
          headers: { 'x-svc-admin-token': gateway.tokens.admin },
        })
      ).text(),
    ]) {
      const [head = [], row = []] = parseCsv(text)
      expect(row[head.indexOf('tags')]).toBe('list-a list-b')
    }
    expect((await billing('tag=two%20words')).status).toBe(400)
  })

  test('viewers neither see them nor ask for them', async () => {
    await tagsAfter(await ask({}, { 'x-svc-tags': 'hidden' }))
    const { viewer } = gateway.tokens
    const { requests } = await gateway.admin<List>('GET', '/v1/admin/requests?limit=1', undefined, viewer)
    expect(requests.map(({ tags }) => tags)).toEqual([[]])
    expect(gateway.admin('GET', '/v1/admin/requests?tag=hidden', undefined, viewer)).rejects.toThrow('403')
  })

  test('what was paid, by tag: a request counts for each of its own', async () => {
    for (const tags of ['cost-a,cost-b', 'cost-b']) {
      await tagsAfter(await ask({ model: 'paid', max_tokens: 5 }, { 'x-svc-tags': tags }))
    }
    await tagsAfter(await ask({ model: 'paid', max_tokens: 5 }))
    interface Cost {
      readonly key: string
      readonly count: number
      readonly amount_wei: string
      readonly completion_tokens: number
    }
    const read = async () =>
      (await gateway.admin<{ costs: readonly Cost[] }>('GET', '/v1/admin/billing/costs?by=tag')).costs
    // Records are written in groups, a moment after their answers.
    await waitUntil('the records', async () => (await read()).some(({ key, count }) => key === 'cost-b' && count === 2))
    const costs = await read()
    const one = costs.find(({ key }) => key === 'cost-a')
    expect(costs.map(({ key, count }) => [key, count])).toEqual([
      ['cost-b', 2],
      ['cost-a', 1],
    ])
    expect(BigInt(costs[0]?.amount_wei ?? 0)).toBe(2n * BigInt(one?.amount_wei ?? 0))
    expect(BigInt(one?.amount_wei ?? 0)).toBe(1_000n * BigInt(one?.completion_tokens ?? 0))
  })
})

describe('§32: tags and gateways of the version before', () => {
  test('a group that such a gateway writes is read, beside groups with tags', async () => {
    const { sql } = gateway.database
    const [there] = await sql<{ id: string; minute: string; oldest: string }[]>`select request_id[1] as id,
      minute::text, oldest::text from request_groups limit 1`
    const id = `${there?.id.slice(0, -4)}OLDR`
    const said: Readonly<Record<string, string>> = {
      customer_id: customer.customerId,
      operation: 'chat',
      stream: 'false',
      model: 'm',
      tries: '1',
      queue_ms: '0',
      duration_ms: '5',
      status: '200',
    }
    const others = requestColumns.slice(1).filter(({ field }) => field !== 'tags')
    const shared = [null, null, ...others.map(({ column }) => said[column] ?? null)]
    const columns = [`{${id}}`, '{1}', ...others.map(() => '')]
    expect([shared.length, columns.length]).toEqual([22, 22])
    await sql`select request_group_insert(${there?.minute ?? ''}, ${id}, ${there?.oldest ?? ''}, ${there?.oldest ?? ''}, 1,
      ${arrayText([groupName('customer', customer.customerId)])}, null, ${arrayText(shared)},
      ${arrayText(columns)}::text::text[])`
    const [row] = await sql`select request_id, tags, status, duration_ms from request_records where request_id = ${id}`
    expect(row).toEqual({ request_id: id, tags: null, status: 200, duration_ms: 5 })
    const { requests } = await gateway.admin<List>(
      'GET',
      `/v1/admin/requests?customer_id=${customer.customerId}&limit=1000`,
    )
    expect(requests.find(({ request_id }) => request_id === id)?.tags).toEqual([])
  })

  test('a row of its own may have them', async () => {
    const { sql } = gateway.database
    const [sample] = await sql<{ id: string; at: Date }[]>`select request_id as id, at from request_records limit 1`
    const id = `${sample?.id.slice(0, -4)}ROWS`
    await sql`insert into request_records (request_id, at, customer_id, operation, stream, tries, queue_ms, duration_ms,
      status, tags) values (${id}, ${sample?.at ?? ''}, ${customer.customerId}, 'chat', false, 1, 0, 5, 200, 'row-a,row-b')`
    const { requests } = await gateway.admin<List>('GET', '/v1/admin/requests?tag=row-b')
    expect(requests.map(({ request_id, tags }) => [request_id, tags])).toEqual([[id, ['row-a', 'row-b']]])
  })

  test('between two tags stands the same in a record as in its column', () => {
    expect(tagsBetween).toBe(tagSeparator)
  })
})
