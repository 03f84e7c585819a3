import { expect, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { PolicyPreview } from '../../../src/protocol/wire/admin/accounts.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())
const [customer, stranger] = [await gateway.customer(), await gateway.customer()]
const customerId = customer.customerId
const own = await fixture(startFakeNode({ models: ['llama-a', 'llama-b', 'qwen'] }))
const others = await fixture(startFakeNode({ models: ['gemma', 'qwen'] }))
await gateway.node(own.url, { customerId })
await gateway.node(others.url, {
  customerId: stranger.customerId,
  visibility: 'public',
  privacyClass: 'public',
})
for (const id of ['gemma', 'qwen']) {
  const price = { prompt_token_price_wei: '1', completion_token_price_wei: '1' }
  await gateway.admin('PUT', '/v1/admin/models', { id, ...price })
}
const { key_id } = await gateway.admin<{ key_id: string }>('POST', `/v1/admin/customers/${customerId}/keys`, {
  name: 'laptop',
  model_policy: { min_privacy_class: 'public' },
})
const keyId = key_id

async function preview(asked: object): Promise<PolicyPreview> {
  const found = await gateway.admin<PolicyPreview>('POST', '/v1/admin/policy-preview', {
    customer_id: customerId,
    ...asked,
  })
  expect([...Value.Errors(PolicyPreview, found)]).toEqual([])
  return found
}
const policyNow = async () =>
  (await gateway.admin<{ gateway_policy: unknown }>('GET', `/v1/admin/customers/${customerId}`)).gateway_policy

test('a change of an account is counted before it is made, and changes nothing', async () => {
  const before = await policyNow()
  expect(await preview({})).toMatchObject({ before: { models: 3, nodes: 1 }, after: { models: 3, nodes: 1 } })
  expect(await preview({ gateway_policy_changes: { min_privacy_class: 'public' } })).toEqual({
    object: 'svc.admin.policy_preview',
    before: { models: 3, nodes: 1 },
    after: { models: 4, nodes: 2 },
    lost: [],
    gained: ['gemma'],
  })
  const held = await preview({ gateway_policy_changes: { allowed_models: ['llama-*'] } })
  expect(held).toMatchObject({ after: { models: 2, nodes: 1 }, lost: ['qwen'], gained: [] })
  expect(await policyNow()).toEqual(before)
})

test('a key reaches what the account allows, too; one that is not issued yet has no before', async () => {
  expect(await preview({ key_id: keyId, gateway_policy_changes: { min_privacy_class: 'public' } })).toMatchObject({
    before: { models: 3, nodes: 1 },
    after: { models: 4, nodes: 2 },
  })
  expect(await preview({ key_id: keyId, model_policy_changes: { denied_models: ['llama-*'] } })).toMatchObject({
    after: { models: 1, nodes: 1 },
    lost: ['llama-a', 'llama-b'],
  })
  expect(await preview({ key_id: null, model_policy_changes: { allowed_models: ['qwen'] } })).toMatchObject({
    before: null,
    after: { models: 1, nodes: 1 },
    gained: [],
  })
  expect(await preview({ key_id: keyId, node_scope: ['node_elsewhere'] })).toMatchObject({
    after: { models: 0, nodes: 0 },
    lost: ['llama-a', 'llama-b', 'qwen'],
  })
})

test('what it counts is what the key is answered', async () => {
  const asked = await gateway.admin<{ gateway_key: string; key_id: string }>(
    'POST',
    `/v1/admin/customers/${customerId}/keys`,
    {
      name: 'two',
      model_policy: { allowed_models: ['llama-*'] },
    },
  )
  const list = async () => {
    const answer = await fetch(`${gateway.url}/v1/models`, {
      headers: { authorization: `Bearer ${asked.gateway_key}` },
    })
    return ((await answer.json()) as { data: unknown[] }).data
  }
  const data = await list()
  const counted = await preview({ key_id: null, model_policy_changes: { allowed_models: ['llama-*'] } })
  expect(data).toHaveLength(counted.after.models)
  const change = { denied_models: ['llama-a'] }
  const then = await preview({ key_id: asked.key_id, model_policy_changes: change })
  await gateway.admin('PATCH', `/v1/admin/keys/${asked.key_id}`, { model_policy_changes: change })
  expect(await list()).toHaveLength(then.after.models)
})

test('somebody else’s key, an unknown customer, and a viewer are refused', async () => {
  const ask = (body: object, token: string) =>
    fetch(`${gateway.url}/v1/admin/policy-preview`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-svc-admin-token': token },
      body: JSON.stringify(body),
    })
  const stranger = await gateway.customer()
  const { operator, viewer } = gateway.tokens
  expect((await ask({ customer_id: stranger.customerId, key_id: keyId }, operator)).status).toBe(404)
  expect((await ask({ customer_id: 'cus_none' }, operator)).status).toBe(404)
  expect((await ask({ customer_id: customerId }, viewer)).status).toBe(403)
})
