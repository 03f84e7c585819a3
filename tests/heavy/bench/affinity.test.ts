import { expect, test } from 'bun:test'
import { type Choose, type Pool, roundRobin, tryStrategy } from '../../../bench/affinity.ts'
import { planConversations } from '../../../bench/conversations.ts'
import { model } from '../../../bench/targets.ts'
import { postJson } from '../../support/clients/post-json.ts'
import { startTestGateway, type TestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { withFakeNodes } from '../../support/nodes/fake-nodes.ts'

const pool: Pool = {
  nodes: 4,
  node: { slots: 16, prefill: 2_000, decode: 200, cacheTokens: 30_000, speed: 2 },
}
const conversations = planConversations({
  rate: 2,
  horizonS: 6,
  turns: 5,
  systems: 4,
  zipf: 1,
  systemTokens: 900,
  userTokens: 300,
  answerTokens: 50,
  thinkS: 0.5,
  seed: 1,
  models: [model],
})

const through =
  (gateway: TestGateway) =>
  async (nodes: readonly { readonly url: string }[]): Promise<Choose> => {
    const customer = await gateway.customer({ keyPolicy: { allowed_models: [model] } })
    await Promise.all(nodes.map((node) => gateway.node(node.url, { customerId: customer.customerId })))
    return () => ({ url: `${gateway.url}/v1/api/chat/completions`, key: customer.key, done: () => {} })
  }

test('§8: the same conversation goes where its prefix is cached', async () => {
  const gateway = await startTestGateway()
  try {
    const blind = await tryStrategy(roundRobin, pool, conversations)
    const chosen = await tryStrategy(through(gateway), pool, conversations)
    expect(chosen.hitRate).toBeGreaterThan(blind.hitRate + 0.1)
  } finally {
    await gateway.stop()
  }
})

/** Calls that are open at a time. */
const askedMax = 200

test('§8: no node is flooded for the prefix that it has', async () => {
  const gateway = await startTestGateway()
  const clients = new AbortController()
  try {
    await withFakeNodes(4, { models: [model] }, async (nodes) => {
      const prompt = [{ role: 'user', content: 'one prompt for all. '.repeat(100) }]
      const received = () => nodes.reduce((sum, node) => sum + node.stats().requests, 0)
      const choose = await through(gateway)(nodes)
      const ask = () => {
        const { url, key } = choose()
        return postJson(url, key, { model, stream: true, messages: prompt }, { signal: clients.signal })
      }
      // Reading takes a second, and no slot is told: what is late beyond that shows that calls wait there.
      for (const node of nodes) node.setAnswer({ firstTokenMs: 1_000 })
      await (await ask()).text()
      for (const node of nodes) node.setAnswer({ firstTokenMs: 600_000 })
      const used = () => nodes.filter((node) => node.stats().requests > 0).length
      for (let asked = 1; used() === 1 && asked < askedMax; asked++) {
        ask().catch(() => {})
        await waitFor('it to be placed', () => received() === asked + 1)
      }
      expect(used()).toBe(2)
    })
  } finally {
    clients.abort()
    await gateway.stop()
  }
})
