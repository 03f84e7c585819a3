import { afterAll, describe, expect, test } from 'bun:test'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'
import {
  type CustomerOptions,
  startTestGateway,
  type TestCustomer,
  type TestGateway,
  waitFor,
} from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'
import { stopwatch } from '../support/run/stopwatch.ts'

const env = { SVC_ADMIN_RPM_PER_TOKEN: '1000000' }

const open: FakeNode[] = []

afterAll(async () => {
  for (const one of open) one.stop()
})
const first = await fixture(startTestGateway({ env }))
const second = await fixture(startTestGateway({ env, beside: first }))
const node = fake('m')

function fake(model: string): FakeNode {
  const made = startFakeNode({ models: [model] })
  open.push(made)
  return made
}

const ask = (gateway: TestGateway, key: string, more: object = {}, init: RequestInit = {}) =>
  gateway.chat(key, { model: 'm', messages: [{ role: 'user', content: 'hi' }], ...more }, init)

async function statusOf(gateway: TestGateway, key: string, more: object = {}): Promise<number> {
  const response = await ask(gateway, key, more)
  await response.text()
  return response.status
}

/** A customer with a node of its own that both gateways know. */
async function customerOnBoth(
  options: CustomerOptions = {},
  url = node.url,
): Promise<TestCustomer & { nodeId: string }> {
  const customer = await first.customer(options)
  const nodeId = await first.node(url, { customerId: customer.customerId })
  await stateOn(second, nodeId, 'ready')
  return { ...customer, nodeId }
}

const stateOn = (gateway: TestGateway, nodeId: string, state: Node['state']) =>
  waitFor(`${state} on the other`, async () => {
    const seen = await gateway.admin<Node>('GET', `/v1/admin/nodes/${nodeId}`)
    return seen.state === state
  })

describe('§26: what is changed on one gateway holds on the other', () => {
  test('a revoked key is dead here at once, and there soon', async () => {
    const customer = await customerOnBoth()
    expect(await statusOf(second, customer.key)).toBe(200)
    await first.admin('DELETE', `/v1/admin/keys/${customer.keyId}`)
    expect(await statusOf(first, customer.key)).toBe(401)
    await waitFor('401 on the other', async () => (await statusOf(second, customer.key)) === 401)
  })

  test('a policy', async () => {
    const customer = await customerOnBoth()
    expect(await statusOf(second, customer.key)).toBe(200)
    await first.admin('PATCH', `/v1/admin/customers/${customer.customerId}`, {
      gateway_policy: { denied_models: ['m'] },
    })
    expect(await statusOf(first, customer.key)).toBe(403)
    await waitFor('403 on the other', async () => (await statusOf(second, customer.key)) === 403)
    await second.admin('PATCH', `/v1/admin/customers/${customer.customerId}`, { gateway_policy: null })
    await waitFor('200 again', async () => (await statusOf(first, customer.key)) === 200)
  })

  test('a suspended account', async () => {
    const customer = await customerOnBoth()
    expect(await statusOf(second, customer.key)).toBe(200)
    await first.admin('PATCH', `/v1/admin/customers/${customer.customerId}`, { account_status: 'suspended' })
    await waitFor('403 on the other', async () => (await statusOf(second, customer.key)) === 403)
  })

  test('a rotated key: the new one works there, the old one for its overlap', async () => {
    const customer = await customerOnBoth()
    const { gateway_key: fresh } = await first.admin<{ gateway_key: string }>(
      'POST',
      `/v1/admin/keys/${customer.keyId}/rotate`,
      {},
    )
    expect(await statusOf(second, fresh)).toBe(200)
    expect(await statusOf(second, customer.key)).toBe(200)
  })

  test('a node that is registered, drained, resumed and revoked', async () => {
    const customer = await customerOnBoth()
    const { nodeId, key } = customer
    expect(await statusOf(second, key)).toBe(200)

    await first.admin('POST', `/v1/admin/nodes/${nodeId}/drain`, {})
    // Nothing runs on it: the drain ends at once, and it takes no work.
    await stateOn(second, nodeId, 'live')
    expect(await statusOf(second, key)).toBe(503)
    await second.admin('POST', `/v1/admin/nodes/${nodeId}/resume`, {})
    await stateOn(first, nodeId, 'ready')
    await stateOn(second, nodeId, 'ready')
    expect(await statusOf(first, key)).toBe(200)

    await first.admin('POST', `/v1/admin/nodes/${nodeId}/revoke`, {})
    await waitFor('404 on the other', async () => (await statusOf(second, key)) === 404)
  })

  test('a catalogue entry: an alias set on one is a name on the other', async () => {
    const customer = await customerOnBoth()
    await first.admin('PUT', '/v1/admin/models', { id: 'm', aliases: ['other-name'] })
    await waitFor('the alias', async () => (await statusOf(second, customer.key, { model: 'other-name' })) === 200)
    await first.admin('DELETE', '/v1/admin/models', { id: 'm' })
    await waitFor('no alias', async () => (await statusOf(second, customer.key, { model: 'other-name' })) === 404)
  })
})

describe('§17: limits are shared, without overshoot', () => {
  const both = (at: number) => (at % 2 === 0 ? first : second)
  const answered = (statuses: readonly number[], status: number) => statuses.filter((one) => one === status).length

  test('max_concurrency', async () => {
    const slow = fake('slow')
    slow.setAnswer({ firstTokenMs: 300 })
    const customer = await customerOnBoth({ policy: { max_concurrency: 4 } }, slow.url)
    let most = 0
    slow.onRequest(() => {
      most = Math.max(most, slow.stats().openRequests)
    })
    const statuses = await Promise.all(
      Array.from({ length: 24 }, (_, at) => statusOf(both(at), customer.key, { model: 'slow' })),
    )
    expect(most).toBe(4)
    expect(answered(statuses, 200)).toBeGreaterThanOrEqual(4)
    expect(answered(statuses, 200) + answered(statuses, 429)).toBe(24)
    // What was refused costs nothing: all slots are there again.
    await waitFor('free slots', async () => {
      const again = await Promise.all([0, 1, 2, 3].map((at) => statusOf(both(at), customer.key, { model: 'slow' })))
      return answered(again, 200) === 4
    })
    expect(most).toBe(4)
  })

  test('rate_limit_rpm', async () => {
    const customer = await customerOnBoth({ policy: { rate_limit_rpm: 20 } })
    const tookMs = stopwatch()
    const statuses = await Promise.all(Array.from({ length: 60 }, (_, at) => statusOf(both(at), customer.key)))
    // A bucket of 20 refills by one every 3 s.
    const refilled = Math.floor(tookMs() / 3_000)
    expect(answered(statuses, 200)).toBeGreaterThanOrEqual(20)
    expect(answered(statuses, 200)).toBeLessThanOrEqual(20 + refilled)
    expect(answered(statuses, 429)).toBe(60 - answered(statuses, 200))
  })

  test('daily_token_quota', async () => {
    // Each call is estimated at 8 tokens of prompt and 12 of output, and uses what the node reports.
    const counting = fake('counting')
    counting.setAnswer({ usage: { prompt_tokens: 8, completion_tokens: 12, total_tokens: 20 } })
    const customer = await customerOnBoth({ policy: { daily_token_quota: 200 } }, counting.url)
    const use = (at: number) => statusOf(both(at), customer.key, { model: 'counting', max_tokens: 12 })
    const statuses: number[] = []
    for (let round = 0; round < 3; round++) {
      statuses.push(...(await Promise.all(Array.from({ length: 8 }, (_, at) => use(at)))))
    }
    // Each of the two may have a rest that is enough for one more.
    let last = await ask(first, customer.key, { model: 'counting', max_tokens: 12 })
    for (
      ;
      last.status === 200 && statuses.length < 27;
      last = await ask(first, customer.key, { model: 'counting', max_tokens: 12 })
    )
      statuses.push(last.status)
    const served = answered(statuses, 200)
    expect(served).toBe(counting.stats().finishedRequests)
    expect(served * 20).toBeLessThanOrEqual(200)
    expect(served).toBeGreaterThanOrEqual(8)
    expect(answered(statuses, 429)).toBe(statuses.length - served)
    const { error } = (await last.json()) as { error: { code: string; type: string } }
    expect(error).toMatchObject({ code: 'daily_token_quota_exceeded', type: 'insufficient_quota' })
  })

  test('a gateway that stops gives its share back', async () => {
    const customer = await customerOnBoth({ policy: { max_concurrency: 2 } })
    const third = await startTestGateway({ env, beside: first })
    try {
      await stateOn(third, customer.nodeId, 'ready')
      expect(await statusOf(third, customer.key)).toBe(200)
      expect(await statusOf(third, customer.key)).toBe(200)
    } finally {
      await third.stop()
    }
    const statuses = await Promise.all([first, second].map((gateway) => statusOf(gateway, customer.key)))
    expect(statuses).toEqual([200, 200])
  })
})
