import { afterAll, describe, expect, test } from 'bun:test'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { fixture } from '../../support/run/fixture.ts'
import { stopwatch } from '../../support/run/stopwatch.ts'

const model = 'm'
const queueWaitMs = 3_000

let shut = ''
afterAll(() => {
  for (const node of [home, hosted]) node.stop()
})
const gateway = await fixture(
  startTestGateway({
    env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000', SVC_QUEUE_WAIT_MS: String(queueWaitMs) },
  }),
)
const open = await gateway.customer({ policy: { allow_external: true }, keyPolicy: { allow_external: true } })
const made = await gateway.admin<{ gateway_key: string }>('POST', `/v1/admin/customers/${open.customerId}/keys`, {
  name: 'shut',
})
shut = made.gateway_key
const home = startFakeNode({ models: [model], name: 'home-', speaks: 'llama.cpp', slots: 1 })
const hosted = startFakeNode({ models: [model], name: 'hosted-' })
await gateway.node(home.url, { customerId: open.customerId })
const hostedId = await gateway.node(hosted.url, { customerId: open.customerId })
const changed = await gateway.admin('PATCH', `/v1/admin/nodes/${hostedId}`, { rank: 5, external: true })
expect(changed).toMatchObject({ rank: 5, external: true })

const ask = (key: string, more: object = {}, init: RequestInit = {}) =>
  gateway.chat(key, { model, messages: [{ role: 'user', content: 'hi' }], ...more }, init)

/** While `body` runs the one slot at home is taken. */
async function whileFull<T>(body: () => Promise<T>): Promise<T> {
  home.setFaults({ kind: 'hang', times: 1, scope: 'chat' })
  const leaving = new AbortController()
  const held = ask(shut, {}, { signal: leaving.signal }).catch(() => null)
  await waitFor('the slot to be taken', () => home.stats().openRequests === 1)
  try {
    return await body()
  } finally {
    leaving.abort()
    await held
    await home.idle()
  }
}

describe('§29: rank and nodes of hosted providers', () => {
  test('while home can serve, nothing goes further', async () => {
    for (let at = 0; at < 10; at++) {
      const text = await (await ask(open.key)).text()
      expect(text).toContain('home-')
      expect(text).not.toContain('"external"')
    }
    expect(hosted.stats().requests).toBe(0)
  })

  test('a request that has waited its time in vain goes to the higher rank, and its answer says so', async () => {
    for (const stream of [false, true]) {
      const tookMs = stopwatch()
      const text = await whileFull(async () => (await ask(open.key, { stream })).text())
      expect(text).toContain('hosted-')
      expect(text).toContain('"external":true')
      expect(tookMs()).toBeGreaterThan(queueWaitMs)
    }
  })

  test('a slot at home that comes free in time is taken', async () => {
    const before = hosted.stats().requests
    let waiting: Promise<Response> | null = null
    await whileFull(async () => {
      waiting = ask(open.key)
    })
    expect(await (await (waiting as unknown as Promise<Response>)).text()).toContain('home-')
    expect(hosted.stats().requests).toBe(before)
  })

  test('without the word of account and key no prompt goes there', async () => {
    const before = hosted.stats().requests
    const half = await gateway.customer({ keyPolicy: { allow_external: true } })
    const own = startFakeNode({ models: ['away'] })
    const nodeId = await gateway.node(own.url, { customerId: half.customerId })
    await gateway.admin('PATCH', `/v1/admin/nodes/${nodeId}`, { external: true })
    const refused = await gateway.chat(half.key, { model: 'away', messages: [{ role: 'user', content: 'hi' }] })
    expect(refused.status).toBe(403)
    expect(await refused.text()).toContain('privacy_class_not_allowed')
    expect(own.stats().requests).toBe(0)
    own.stop()
    const full = await whileFull(() => ask(shut))
    expect([full.status, hosted.stats().requests]).toEqual([429, before])
  })
})
