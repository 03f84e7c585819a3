import { describe, expect, test } from 'bun:test'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { startTestGateway, type TestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

/** `created` of the model lists: when the catalogue first knew the model. */
const begunAt = Math.floor(Date.now() / 1_000)
const weekAgo = begunAt - 604_800
const model = 'org/aged'
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const node = await fixture(startFakeNode({ models: [model] }))
let nodeId = await gateway.node(node.url, { customerId: customer.customerId, visibility: 'public' })

interface Listed {
  readonly data: readonly { readonly id: string; readonly created: number }[]
}
const get = async <T>(path: string, { at = gateway, key = customer.key }: { at?: TestGateway; key?: string } = {}) => {
  const response = await fetch(at.url + path, key === '' ? {} : { headers: { authorization: `Bearer ${key}` } })
  expect([path, response.status]).toEqual([path, 200])
  return (await response.json()) as T
}
const createdIn = async (path: string, id: string, asked?: Parameters<typeof get>[1]) =>
  (await get<Listed>(path, asked)).data.find((item) => item.id === id)?.created

/** What every view says of the model, which must be one time. */
async function created(id = model, at = gateway): Promise<number> {
  const views = await Promise.all(
    ['/v1/models', '/v1/api/models'].flatMap((path) => [
      createdIn(path, id, { at }),
      createdIn(path, id, { at, key: '' }),
      get<{ created: number }>(`${path}/${encodeURIComponent(id)}`, { at }).then((item) => item.created),
    ]),
  )
  expect(new Set(views).size).toBe(1)
  return views[0] ?? 0
}

/** As if the model had been here for a week: otherwise a second time looks like the first. */
const age = (id: string) =>
  gateway.database.sql`update known_models set known_at = to_timestamp(${weekAgo}) where model_id = ${id}`

describe('§9: created', () => {
  test('is the time when the catalogue first knew the model, in every view, before anything was measured', async () => {
    const now = Math.floor(Date.now() / 1_000)
    expect(await created()).toBeGreaterThanOrEqual(begunAt)
    expect(await created()).toBeLessThanOrEqual(now + 1)
  })

  test('never moves: not by calls, nor by a restart, another gateway, or a node that is deleted and comes back', async () => {
    await age(model)
    await using beside = await scoped(startTestGateway({ beside: gateway }))
    await waitFor(
      'the other gateway to list it',
      async () => (await createdIn('/v1/models', model, { at: beside })) ?? 0,
    )
    expect(await created(model, beside)).toBe(weekAgo)
    const answer = await beside.chat(customer.key, { model, messages: [{ role: 'user', content: 'hi' }] })
    expect(answer.status).toBe(200)
    await waitFor('the call to be measured', async () => {
      const rows = await gateway.database.sql`select 1 from model_profiles where last_measured_at is not null`
      return rows.length > 0
    })
    expect(await created(model, beside)).toBe(weekAgo)

    await gateway.admin('DELETE', `/v1/admin/nodes/${nodeId}`)
    expect(await createdIn('/v1/models', model)).toBeUndefined()
    nodeId = await gateway.node(node.url, { customerId: customer.customerId, visibility: 'public' })
    expect(await created()).toBe(weekAgo)
    await waitFor('the other gateway to follow', () => createdIn('/v1/models', model, { at: beside }))
    expect(await created(model, beside)).toBe(weekAgo)
  })

  test('belongs to the id: an entry has its own, and without it the node’s name has its old one again', async () => {
    await age(model)
    const entry = { id: 'aged', aliases: [model] }
    const put = () => gateway.admin('PUT', '/v1/admin/models', entry)
    await put()
    const first = await created('aged')
    expect(first).toBeGreaterThan(weekAgo)
    await age('aged')
    await gateway.admin('DELETE', '/v1/admin/models', { id: 'aged' })
    await waitFor('the node’s own name', () => createdIn('/v1/models', model))
    expect(await createdIn('/v1/models', 'aged')).toBeUndefined()
    await put()
    expect(await created('aged')).toBe(weekAgo)
    await gateway.admin('DELETE', '/v1/admin/models', { id: 'aged' })
  })

  test('the marketplace and Anthropic’s list have the same time', async () => {
    await using beside = await scoped(startTestGateway({ beside: gateway }))
    await waitFor('the other gateway to list it', () => createdIn('/v1/models', model, { at: beside }))
    const known = await created(model, beside)
    expect(await createdIn('/marketplace/models', model, { at: beside, key: '' })).toBe(known)
    const anthropic = await fetch(`${beside.url}/v1/models/${model}`, {
      headers: { 'x-api-key': customer.key, 'anthropic-version': '2023-06-01' },
    })
    const { created_at: at } = (await anthropic.json()) as { created_at: string }
    expect(Date.parse(at) / 1_000).toBe(known)
  })
})
