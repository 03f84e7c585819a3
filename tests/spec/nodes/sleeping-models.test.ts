import { expect, test } from 'bun:test'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, untilState } from '../../support/nodes/agents.ts'
import { startVllmNode } from '../../support/nodes/vllm-node.ts'
import { fixture } from '../../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const direct = await fixture(startVllmNode({ model: 'big', wakeMs: 60 }))
const plain = await fixture(startVllmNode({ model: 'plain' }))
const behind = await fixture(startVllmNode({ model: 'behind', wakeMs: 60 }))
const directId = await gateway.node(direct.url, { customerId: customer.customerId })
const plainId = await gateway.node(plain.url, { customerId: customer.customerId })
const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
const agent = await fixture(startAgent({ gatewayUrl: gateway.url, token, runtimes: [behind.url] }))
await untilState(gateway, agent.nodeId, 'ready')

const ask = (model: string) => gateway.chat(customer.key, { model, messages: [{ role: 'user', content: 'Hello' }] })
const unload = (nodeId: string, model: string) =>
  gateway.admin('POST', `/v1/admin/nodes/${nodeId}/models/unload`, { model })
const loadedOf = async (nodeId: string) => {
  const node = await gateway.admin<{ runtimes: { models: { loaded: boolean | null }[] }[] }>(
    'GET',
    `/v1/admin/nodes/${nodeId}`,
  )
  return node.runtimes.flatMap(({ models }) => models)[0]?.loaded
}

test('§39: unloading a vLLM with sleep mode sends it to sleep, and a request wakes it before it is asked', async () => {
  await unload(directId, 'big')
  expect([direct.sleeping, direct.told]).toEqual([true, ['sleep 1']])
  await waitFor('its word', async () => (await loadedOf(directId)) === false)
  const answers = await Promise.all([ask('big'), ask('big'), ask('big')])
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
  expect(direct.told).toEqual(['sleep 1', 'wake_up'])
  expect([direct.lost, direct.chats]).toEqual([0, 3])
  await waitFor('its word', async () => (await loadedOf(directId)) === true)
})

test('§39: the same behind an agent, which wakes it by itself', async () => {
  await unload(agent.nodeId, 'behind')
  await waitFor('the sleep', () => behind.sleeping)
  await waitFor('its word', async () => (await loadedOf(agent.nodeId)) === false)
  const answers = await Promise.all([ask('behind'), ask('behind')])
  expect(answers.map(({ status }) => status)).toEqual([200, 200])
  expect(behind.told).toEqual(['sleep 1', 'wake_up'])
  expect(behind.lost).toBe(0)
})

test('§39: a vLLM without sleep mode cannot be told', async () => {
  await expect(unload(plainId, 'plain')).rejects.toThrow(/409.*invalid_state/s)
  expect(await loadedOf(plainId)).toBe(true)
})

test('§39: an engine that does not wake fails its request, and no chat meets it asleep', async () => {
  await unload(directId, 'big')
  await waitFor('its word', async () => (await loadedOf(directId)) === false)
  direct.breakWaking()
  const answer = await ask('big')
  expect([answer.status, ((await answer.json()) as { error: { code: string } }).error.code]).toEqual([
    502,
    'upstream_error',
  ])
  expect(direct.lost).toBe(0)
})
