import { afterAll, expect, test } from 'bun:test'
import { type FakeNode, startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { newId } from '../../../src/ids.ts'
import type { Node } from '../../../src/protocol/wire/admin/admin.ts'
import { startTestGateway, type TestCustomer } from '../../support/gateways/gateway.ts'
import { payFor } from '../../support/money/money.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const apiKey = 'the-former-owners-key'
const [sold, spare, drained, busy, paid] = ['sold', 'spare', 'drained', 'busy', 'paid'].map(() =>
  startFakeNode({ models: ['m'], answer: { chunks: 2 } }),
) as [FakeNode, FakeNode, FakeNode, FakeNode, FakeNode]
const [slow, cut] = ['slow', 'cut'].map(() =>
  startFakeNode({ models: ['n'], answer: { chunks: 20, intervalMs: 60_000 } }),
) as [FakeNode, FakeNode]

afterAll(() => {
  for (const server of [sold, spare, drained, busy, paid, slow, cut]) server.stop()
})
const gateway = await fixture(startTestGateway())
const former = await gateway.customer()
const next = await gateway.customer()

const path = (nodeId: string) => `/v1/admin/nodes/${nodeId}`
const reason = 'the computer was sold'
const pass = async (nodeId: string, customerId: string, more: { token?: string; etag?: string } = {}) => {
  const response = await fetch(`${gateway.url}${path(nodeId)}/owner`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-svc-admin-token': more.token ?? gateway.tokens.admin,
      ...(more.etag === undefined ? {} : { 'if-match': more.etag }),
    },
    body: JSON.stringify({ customer_id: customerId, reason }),
  })
  const { code } = (await response.clone().json()) as { readonly code?: string }
  return { status: response.status, code, node: (await response.json()) as Node }
}
const refusal = async (...call: Parameters<typeof pass>) => {
  const { status, code } = await pass(...call)
  return [status, code]
}
const read = (nodeId: string) => gateway.admin<Node>('GET', path(nodeId))
const say = (nodeId: string, command: string) => gateway.admin<Node>('POST', `${path(nodeId)}/${command}`)
const messages = [{ role: 'user', content: 'hi' }]
const ask = async ({ key }: TestCustomer, more: object = {}) => {
  const answer = await gateway.chat(key, { model: 'm', messages, ...more })
  const { error = null } = (await answer.json()) as { readonly error?: { readonly code: string } }
  return [answer.status, error?.code ?? null]
}
const pinned = (nodeId: string) => ({ svc: { node_id: nodeId } })

test('§23: with its owner a node changes sides, and takes nothing of the former owner along', async () => {
  const nodeId = await gateway.node(sold.url, { customerId: former.customerId, apiKey })
  await gateway.node(spare.url, { customerId: former.customerId })
  expect(await ask(former, pinned(nodeId))).toEqual([200, null])
  expect(await ask(next, pinned(nodeId))).toEqual([403, 'node_pin_forbidden'])
  await gateway.admin('PATCH', path(nodeId), { visibility: 'public', payout_address: `0x${'a1'.repeat(20)}` })
  await say(nodeId, 'drain')
  const { status, node } = await pass(nodeId, next.customerId)
  expect(status).toBe(200)
  expect(node).toMatchObject({
    customer_id: next.customerId,
    visibility: 'private',
    has_api_key: false,
    payout_address: null,
    admin_state: 'draining',
  })
  await say(nodeId, 'resume')
  await waitUntil('the node is ready', async () => (await read(nodeId)).state === 'ready')
  const [before, kept] = [sold.requests.length, spare.requests.length]
  expect(await ask(next, pinned(nodeId))).toEqual([200, null])
  expect(await ask(former, pinned(nodeId))).toEqual([403, 'node_pin_forbidden'])
  expect(await ask(former)).toEqual([200, null])
  expect([sold.requests.length - before, spare.requests.length - kept]).toEqual([1, 1])
  expect(JSON.stringify(sold.requests.slice(before))).not.toContain(apiKey)
  const { events } = await gateway.admin<{ events: object[] }>(
    'GET',
    `/v1/admin/approval-events?target_id=${nodeId}&limit=10`,
  )
  expect(events).toContainEqual(expect.objectContaining({ action: 'node.owner.change', target_id: nodeId, reason }))
  await gateway.admin('DELETE', path(nodeId))
})

test('§23: no owner changes by a lesser role, behind the back of another admin, to nobody, or twice', async () => {
  const nodeId = await gateway.node(drained.url, { customerId: former.customerId })
  const { etag } = await say(nodeId, 'drain')
  const to = next.customerId
  expect(await refusal(nodeId, to, { token: gateway.tokens.operator })).toEqual([403, 'insufficient_role'])
  expect(await refusal(newId('node'), to)).toEqual([404, 'node_not_found'])
  expect(await refusal(nodeId, newId('cust'))).toEqual([404, 'customer_not_found'])
  await gateway.admin('PATCH', path(nodeId), { rank: 3 })
  expect(await refusal(nodeId, to, { etag })).toEqual([412, 'precondition_failed'])
  expect((await read(nodeId)).customer_id).toBe(former.customerId)
  const now = await read(nodeId)
  expect((await pass(nodeId, to, { etag: now.etag })).status).toBe(200)
  expect(await refusal(nodeId, to)).toEqual([409, 'invalid_state'])
  await gateway.admin('DELETE', path(nodeId))
})

test('§23: a node that gets work, whose server the new owner has, or that is revoked keeps its owner', async () => {
  const nodeId = await gateway.node(busy.url, { customerId: former.customerId })
  const to = next.customerId
  expect(await refusal(nodeId, to)).toEqual([409, 'invalid_state'])
  await say(nodeId, 'drain')
  const twin = await gateway.node(busy.url, { customerId: to })
  expect(await refusal(nodeId, to)).toEqual([409, 'node_exists'])
  await gateway.admin('DELETE', path(twin))
  await say(nodeId, 'revoke')
  expect(await refusal(nodeId, to)).toEqual([409, 'invalid_state'])
  expect((await read(nodeId)).customer_id).toBe(former.customerId)
  await gateway.admin('DELETE', path(nodeId))
})

test('§23: a node keeps its owner while a request runs there', async () => {
  const nodeId = await gateway.node(slow.url, { customerId: former.customerId })
  const stream = await gateway.chat(former.key, { model: 'n', stream: true, messages })
  expect(stream.status).toBe(200)
  await say(nodeId, 'drain')
  expect(await refusal(nodeId, next.customerId)).toEqual([409, 'invalid_state'])
  // Held until here: of an answer that nobody can read any more the collector closes the connection.
  await stream.body?.cancel()
  await waitUntil('nothing runs', async () => (await read(nodeId)).in_flight === 0)
  expect((await pass(nodeId, next.customerId)).status).toBe(200)
  await gateway.admin('DELETE', path(nodeId))
})

test('§23: what still runs there on another gateway ends when the owner changes', async () => {
  const beside = await startTestGateway({ beside: gateway })
  try {
    const nodeId = await gateway.node(cut.url, { customerId: former.customerId })
    await waitUntil('the other gateway serves it', async () => {
      const { models } = await beside.admin<{ models: { id: string }[] }>('GET', '/v1/admin/models')
      return models.some(({ id }) => id === 'n')
    })
    const stream = await beside.chat(former.key, { model: 'n', stream: true, messages })
    const ended = stream.text().catch(() => '')
    await say(nodeId, 'drain')
    expect(await refusal(nodeId, next.customerId)).toEqual([200, undefined])
    expect(await ended).not.toContain('[DONE]')
    await waitUntil('its server has heard', () => cut.requests.at(-1)?.outcome === 'aborted')
    await gateway.admin('DELETE', path(nodeId))
  } finally {
    await beside.stop()
  }
})

test('§23: what an agent has joined for, and earnings that would go to the new owner, keep the owner', async () => {
  const agent = newId('node')
  await gateway.database.sql`
    insert into nodes (node_id, customer_id, kind, name, visibility, privacy_class, node_class, admin_state)
    values (${agent}, ${former.customerId}, 'agent', 'shed', 'private', 'private', 'standard', 'draining')`
  expect(await refusal(agent, next.customerId)).toEqual([409, 'invalid_state'])
  const nodeId = await gateway.node(paid.url, { customerId: former.customerId, visibility: 'public' })
  await gateway.admin('POST', `/v1/admin/customers/${next.customerId}/credits`, { amount_wei: '1000000', reason })
  await payFor(gateway.database, { customerId: next.customerId, nodeId, amountWei: 1_000n })
  await gateway.admin('PATCH', path(nodeId), { payout_address: `0x${'b2'.repeat(20)}` })
  await say(nodeId, 'drain')
  expect(await refusal(nodeId, next.customerId)).toEqual([409, 'invalid_state'])
  expect(await read(nodeId)).toMatchObject({
    customer_id: former.customerId,
    payout_address: expect.stringContaining('b2'),
  })
})
