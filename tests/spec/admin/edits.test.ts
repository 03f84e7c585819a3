import { describe, expect, test } from 'bun:test'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { json, startTestGateway, type TestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())
const fake = await fixture(startFakeNode({ models: ['m'] }))

type Row = Readonly<Record<string, unknown>> & { readonly etag: string }
type Init = Parameters<TestGateway['ask']>[2]
const ask = (method: string, path: string, init: Init = {}) => gateway.ask(method, path, { as: 'admin', ...init })
const matching = (etag: string) => ({ 'if-match': etag })

async function changed(method: string, path: string, body: object, headers: Record<string, string> = {}): Promise<Row> {
  const response = await ask(method, path, { json: body, headers })
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
  const row = (await response.json()) as Row
  expect(response.headers.get('etag')).toBe(row.etag)
  return row
}
async function refused(response: Response): Promise<unknown> {
  expect(response.headers.get('content-type')).toStartWith('application/problem+json')
  const { code } = await json(response)
  return [response.status, code]
}
const failed = [412, 'precondition_failed']

/** Something that can be edited: how it is made, read and changed. */
interface Editable {
  readonly make: () => Promise<{ readonly path: string; readonly id: string }>
  readonly read: (made: { readonly path: string; readonly id: string }) => Promise<Row>
  readonly method: 'PATCH' | 'PUT'
  /** Two changes of different fields, and what the row shows of each. */
  readonly changes: readonly [body: object, shows: object][]
}

let made = 0
const customer = async () => {
  const { customer_id } = await json(
    await ask('POST', '/v1/admin/customers', { json: { display_name: `customer ${++made}` } }),
  )
  return String(customer_id)
}
const modelOf = async (id: string) => {
  const { models } = (await json(await ask('GET', '/v1/admin/models'))) as never as { models: (Row & { id: string })[] }
  const found = models.find((model) => model.id === id)
  if (found === undefined) throw new Error(`no ${id}`)
  return found
}
const readByPath = async ({ path }: { readonly path: string }): Promise<Row> => {
  const response = await ask('GET', path)
  const row = (await response.json()) as Row
  expect(response.headers.get('etag')).toBe(row.etag)
  return row
}
/** Whose each key is: a key is read in the list of its customer. */
const keyOwners = new Map<string, string>()
const keyOf = async (id: string) => {
  const list = await json(await ask('GET', `/v1/admin/customers/${keyOwners.get(id)}/keys`))
  const found = (list as never as { keys: (Row & { key_id: string })[] }).keys.find(({ key_id }) => key_id === id)
  if (found === undefined) throw new Error(`no ${id}`)
  return found
}
const model: Omit<Editable, 'method'> = {
  make: async () => {
    const id = `org/model-${++made}`
    await changed('PUT', '/v1/admin/models', { id, name: 'A model', prompt_token_price_wei: '5' })
    return { path: '/v1/admin/models', id }
  },
  read: ({ id }) => modelOf(id),
  changes: [
    [{ prompt_token_price_wei: '7' }, { prompt_token_price_wei: '7' }],
    [{ context_length: 4_096 }, { context_length: 4_096 }],
    [{ serves: ['embedding'] }, { serves: ['embedding'] }],
  ],
}
const editables: Readonly<Record<string, Editable>> = {
  'a model, in part': { ...model, method: 'PATCH' },
  'a node': {
    make: async () => {
      const customerId = await customer()
      const body = {
        customer_id: customerId,
        url: `http://127.0.0.1:9/${++made}`,
        visibility: 'private',
        node_class: 'c',
        privacy_class: 'private',
      }
      const { node_id: id } = await json(await ask('POST', '/v1/admin/nodes', { json: body }))
      return { path: `/v1/admin/nodes/${id}`, id: String(id) }
    },
    read: readByPath,
    method: 'PATCH',
    changes: [
      [{ name: 'rack' }, { name: 'rack' }],
      [{ rank: 3 }, { rank: 3 }],
      [{ api_key: 'sk-new' }, { has_api_key: true }],
      [{ serves: { '*': ['rerank'] } }, { serves: { '*': ['rerank'] } }],
    ],
  },
  'a customer': {
    make: async () => {
      const id = await customer()
      return { path: `/v1/admin/customers/${id}`, id }
    },
    read: readByPath,
    method: 'PATCH',
    changes: [
      [{ display_name: 'Renamed' }, { display_name: 'Renamed' }],
      [{ account_status: 'suspended' }, { account_status: 'suspended' }],
      [{ gateway_policy: { rate_limit_rpm: 9 } }, { gateway_policy: { rate_limit_rpm: 9 } }],
    ],
  },
  'a key': {
    make: async () => {
      const owner = await customer()
      const { key_id: id } = await json(
        await ask('POST', `/v1/admin/customers/${owner}/keys`, { json: { name: 'first' } }),
      )
      keyOwners.set(String(id), owner)
      return { path: `/v1/admin/keys/${id}`, id: String(id) }
    },
    read: ({ id }) => keyOf(id),
    method: 'PATCH',
    changes: [
      [{ name: 'second' }, { name: 'second' }],
      [{ model_policy_changes: { priority: 9 } }, { model_policy: { priority: 9 } }],
      [{ node_scope: ['node_a'] }, { node_scope: ['node_a'] }],
      [{ expires_at: '2100-01-01T00:00:00Z' }, { expires_at: '2100-01-01T00:00:00.000Z' }],
    ],
  },
  'the policy of a customer, in part': {
    make: async () => {
      const id = await customer()
      return { path: `/v1/admin/customers/${id}`, id }
    },
    read: readByPath,
    method: 'PATCH',
    changes: [
      [{ gateway_policy_changes: { daily_token_quota: 100 } }, { gateway_policy: { daily_token_quota: 100 } }],
      [{ gateway_policy_changes: { max_concurrency: 2 } }, { gateway_policy: { max_concurrency: 2 } }],
    ],
  },
}

const events = async () =>
  ((await json(await ask('GET', '/v1/admin/approval-events?limit=1000'))) as never as { events: unknown[] }).events
    .length

describe.each(Object.entries(editables))('§23: an edit of %s', (_name, { make, read, method, changes }) => {
  const bodyOf = (id: string, body: object) => (method === 'PATCH' && !id.startsWith('org/') ? body : { id, ...body })

  test('names the row that was read, and is refused once somebody has changed it', async () => {
    const place = await make()
    let seen = await read(place)
    for (const [body, shows] of changes) {
      expect(seen.etag).toMatch(/^"[^"]{16,}"$/)
      const now = await changed(method, place.path, bodyOf(place.id, body), matching(seen.etag))
      expect(now).toMatchObject(shows)
      expect(now.etag).not.toBe(seen.etag)
      expect((await read(place)).etag).toBe(now.etag)
      // Whoever still has the row of before is refused, whatever it changes, and leaves no event.
      const before = await events()
      for (const [other] of changes) {
        const late = await ask(method, place.path, { json: bodyOf(place.id, other), headers: matching(seen.etag) })
        expect(await refused(late)).toEqual(failed)
      }
      expect(await events()).toBe(before)
      expect(await read(place)).toEqual(expect.objectContaining({ etag: now.etag }))
      seen = now
    }
  })

  test('of two at once one is made and one is refused', async () => {
    const place = await make()
    for (let round = 0; round < 10; round++) {
      const { etag } = await read(place)
      const bodies = [0, 1].map((at) => {
        const [field = '', value] = Object.entries(changes[0]?.[0] ?? {})[0] ?? []
        const other =
          typeof value === 'object'
            ? { ...value, daily_token_quota: 1_000 * (round + 1) + at }
            : field.endsWith('_wei')
              ? `${1_000 * (round + 1) + at}`
              : `${round} ${at}`
        return bodyOf(place.id, { [field]: other })
      })
      const answers = await Promise.all(
        bodies.map((body) => ask(method, place.path, { json: body, headers: matching(etag) })),
      )
      expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 412])
      const won = (await answers.find(({ ok }) => ok)?.json()) as Row
      expect((await read(place)).etag).toBe(won.etag)
    }
  })

  test('without If-Match writes what is sent and nothing else, and takes `*` for a row that is there', async () => {
    const place = await make()
    const [[first, showsFirst] = [{}, {}], [second, showsSecond] = [{}, {}]] = changes
    await Promise.all([first, second].map((body) => changed(method, place.path, bodyOf(place.id, body))))
    expect(await read(place)).toMatchObject({ ...showsFirst, ...showsSecond, ...both(showsFirst, showsSecond) })
    await changed(method, place.path, bodyOf(place.id, first), matching('*'))
  })

  test('compares as RFC 9110 says: one of a list, a weak one never; what is no ETag is refused as such', async () => {
    const place = await make()
    const { etag } = await read(place)
    const [body = {}] = changes[0] ?? []
    const sent = (value: string) =>
      ask(method, place.path, { json: bodyOf(place.id, body), headers: { 'if-match': value } })
    for (const value of [`W/${etag}`, '"another"', '""']) expect(await refused(await sent(value))).toEqual(failed)
    for (const value of ['another', '"open', `${etag} ${etag}`, `"${'x'.repeat(1_100)}"`, ',']) {
      expect(await refused(await sent(value))).toEqual([400, 'invalid_parameter'])
    }
    expect((await read(place)).etag).toBe(etag)
    expect((await sent(`"another", ${etag}`)).status).toBe(200)
  })
})

/** Two changes of one object both show in it. */
function both(first: object, second: object): object {
  const merged = Object.entries(first).flatMap(([name, value]) => {
    const other = (second as Record<string, unknown>)[name]
    return typeof value === 'object' && typeof other === 'object' ? [[name, { ...value, ...other }]] : []
  })
  return Object.fromEntries(merged)
}

test('§23: an ETag stays while nothing changes that can be edited, and says nothing of the row', async () => {
  const id = await customer()
  const path = `/v1/admin/customers/${id}`
  const { etag } = await readByPath({ path })
  await ask('POST', `${path}/credits`, { json: { credit_id: `c${++made}`, amount_wei: '5', reason: 'r' } })
  await ask('POST', `${path}/token`, { json: { reason: 'r' } })
  // The same value again is no change.
  await changed('PATCH', path, { account_status: 'active' })
  expect((await readByPath({ path })).etag).toBe(etag)
  const { node_id } = await json(
    await ask('POST', '/v1/admin/nodes', {
      json: { customer_id: id, url: fake.url, visibility: 'private', node_class: 'c', privacy_class: 'private' },
    }),
  )
  const nodePath = `/v1/admin/nodes/${node_id}`
  const node = await readByPath({ path: nodePath })
  for (const command of ['drain', 'resume']) await ask('POST', `${nodePath}/${command}`, { json: {} })
  expect((await readByPath({ path: nodePath })).etag).toBe(node.etag)
  // A viewer has the same one, and may not see the address: two nodes that are alike have different ones.
  const seen = (await (await gateway.ask('GET', nodePath, { as: 'viewer' })).json()) as Row
  expect([seen.etag, seen.url]).toEqual([node.etag, null])
  await changed('PATCH', nodePath, { rank: 1 })
  const back = await changed('PATCH', nodePath, { rank: 0 })
  expect(back.etag).not.toBe(node.etag)
  const lists = (await json(await ask('GET', '/v1/admin/nodes'))) as never as { nodes: (Row & { node_id: string })[] }
  expect(lists.nodes.find((one) => one.node_id === node_id)?.etag).toBe(back.etag)
  const all = (await json(await ask('GET', '/v1/admin/customers'))) as never as {
    customers: (Row & { customer_id: string })[]
  }
  expect(all.customers.find((one) => one.customer_id === id)?.etag).toBe(etag)
})

describe('§23: entries of the catalogue', () => {
  const path = '/v1/admin/models'

  test('PATCH changes the given fields, null takes a value away, and an entry that is not there is made', async () => {
    const id = `org/part-${++made}`
    const first = await changed(
      'PATCH',
      path,
      { id, aliases: ['a1'], name: 'N', prompt_token_price_wei: '5' },
      { 'if-none-match': '*' },
    )
    expect(first).toMatchObject({ aliases: ['a1'], name: 'N', prompt_token_price_wei: '5', description: null })
    const second = await changed('PATCH', path, { id, name: null, description: 'D' }, matching(first.etag))
    expect(second).toMatchObject({ aliases: ['a1'], name: null, prompt_token_price_wei: '5', description: 'D' })
    expect(
      await refused(await ask('PATCH', path, { json: { id, name: 'X' }, headers: { 'if-none-match': '*' } })),
    ).toEqual(failed)
    const other = await ask('PATCH', path, { json: { id, name: 'X' }, headers: { 'if-none-match': first.etag } })
    expect(await refused(other)).toEqual([400, 'invalid_parameter'])
    expect(
      (await ask('PATCH', path, { json: { id: `org/none-${++made}`, name: 'X' }, headers: matching('*') })).status,
    ).toBe(412)
  })

  test('PUT replaces the whole entry, with a precondition too: in the header, or in the body that was read', async () => {
    const { id } = await model.make()
    const { etag } = await modelOf(id)
    const now = await changed('PUT', path, { id, description: 'whole' }, matching(etag))
    expect(now).toMatchObject({ name: null, prompt_token_price_wei: null, description: 'whole' })
    // A client that sends back what it has read, etag and all.
    expect(await refused(await ask('PUT', path, { json: { id, etag, name: 'late' } }))).toEqual(failed)
    const last = await changed('PUT', path, { id, etag: now.etag, name: 'in time' })
    const both = await ask('PUT', path, { json: { id, etag: last.etag }, headers: matching(now.etag) })
    expect(await refused(both)).toEqual(failed)
  })

  test('DELETE removes what was read; an entry made anew is another one', async () => {
    const { id } = await model.make()
    const { etag } = await modelOf(id)
    const now = await changed('PATCH', path, { id, name: 'changed' })
    expect(await refused(await ask('DELETE', path, { json: { id }, headers: matching(etag) }))).toEqual(failed)
    expect((await ask('DELETE', path, { json: { id }, headers: matching(now.etag) })).status).toBe(204)
    expect(
      await refused(await ask('PATCH', path, { json: { id, name: 'late' }, headers: matching(now.etag) })),
    ).toEqual(failed)
    const anew = await changed('PUT', path, { id, name: 'changed' })
    expect(anew.etag).not.toBe(now.etag)
  })
})

test('§23: a refusal says whether the row was changed, is gone, or is there already', async () => {
  const path = '/v1/admin/models'
  const { id } = await model.make()
  const { etag } = await modelOf(id)
  const detailOf = async (headers: Record<string, string>) => {
    const response = await ask('PATCH', path, { json: { id, name: 'late' }, headers })
    expect(response.status).toBe(412)
    return (await json(response)).detail
  }
  const { etag: now } = await changed('PATCH', path, { id, name: 'changed' })
  expect(await detailOf(matching(etag))).toStartWith('Somebody has changed it since you read it.')
  expect(await detailOf({ 'if-none-match': '*' })).toStartWith('It is there already.')
  expect((await ask('DELETE', path, { json: { id } })).status).toBe(204)
  for (const gone of [now, '*']) expect(await detailOf(matching(gone))).toStartWith('It is not there any more.')
})

test('§23: a policy is changed as a whole or in part, and a field that is null goes', async () => {
  const path = `/v1/admin/customers/${await customer()}`
  await changed('PATCH', path, { gateway_policy: { daily_token_quota: 5, rate_limit_rpm: 6 } })
  const part = await changed('PATCH', path, { gateway_policy_changes: { daily_token_quota: null, max_concurrency: 7 } })
  expect(part.gateway_policy).toEqual({ rate_limit_rpm: 6, max_concurrency: 7 })
  const none = await changed('PATCH', path, { gateway_policy_changes: { rate_limit_rpm: null, max_concurrency: null } })
  expect(none.gateway_policy).toBeNull()
  for (const body of [
    { gateway_policy: null, gateway_policy_changes: {} },
    { gateway_policy_changes: { unknown: 1 } },
    { gateway_policy_changes: { daily_token_quota: 0 } },
    { gateway_policy_changes: null },
  ]) {
    expect(await refused(await ask('PATCH', path, { json: body }))).toEqual([400, 'invalid_request'])
  }
})

test('§23: whoever was refused an edit of a node deletes none either', async () => {
  const place = await editables['a node']?.make()
  if (place === undefined) throw new Error('no node')
  const { etag } = await readByPath(place)
  await changed('PATCH', place.path, { name: 'changed' })
  expect(await refused(await ask('DELETE', place.path, { headers: matching(etag) }))).toEqual(failed)
  const { etag: now } = await readByPath(place)
  expect((await ask('DELETE', place.path, { headers: matching(now) })).status).toBe(204)
  expect(await refused(await ask('PATCH', place.path, { json: { name: 'x' }, headers: matching(now) }))).toEqual([
    404,
    'node_not_found',
  ])
})

test('§23: the document describes the headers, the ETag and the 412', async () => {
  interface Operation {
    readonly parameters?: readonly { readonly name: string; readonly in: string }[]
    readonly responses: Readonly<Record<string, { readonly headers?: Readonly<Record<string, unknown>> }>>
  }
  const { paths } = (await json(await gateway.ask('GET', '/openapi.json'))) as never as {
    paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  }
  const edits = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, operation]) =>
      ['put', 'patch'].includes(method) ? [[`${method} ${path}`, operation] as const] : [],
    ),
  )
  expect(edits.map(([name]) => name).toSorted()).toEqual([
    'patch /v1/admin/customers/{customer_id}',
    'patch /v1/admin/keys/{key_id}',
    'patch /v1/admin/models',
    'patch /v1/admin/nodes/{node_id}',
    'put /v1/admin/models',
  ])
  for (const [name, { parameters = [], responses }] of edits) {
    const headers = parameters.filter((one) => one.in === 'header').map((one) => one.name)
    expect({ name, has: headers.includes('if-match') }).toEqual({ name, has: true })
    expect(headers.includes('if-none-match')).toBe(name.endsWith('/models'))
    expect({ name, tag: responses[200]?.headers?.ETag !== undefined, refused: responses[412] !== undefined }).toEqual({
      name,
      tag: true,
      refused: true,
    })
  }
  for (const path of ['/v1/admin/customers/{customer_id}', '/v1/admin/nodes/{node_id}']) {
    expect(paths[path]?.get?.responses[200]?.headers).toHaveProperty('ETag')
    expect(paths[path]?.get?.responses[412]).toBeUndefined()
  }
})
