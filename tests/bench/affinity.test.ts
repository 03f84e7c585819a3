import { expect, test } from 'bun:test'
import { type Choose, type Pool, roundRobin, tryStrategy } from '../../bench/affinity.ts'
import { planConversations } from '../../bench/conversations.ts'
import { model } from '../../bench/targets.ts'
import { slotsAssumed } from '../../src/machines/placement/cost.ts'
import { startTestGateway, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { withFakeNodes } from '../support/nodes/fake-nodes.ts'

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

test('§8: no node is flooded for the prefix that it has', async () => {
  const gateway = await startTestGateway()
  const clients = new AbortController()
  try {
    await withFakeNodes(4, { models: [model] }, async (nodes) => {
      const [asked, shared] = [16, 'one prompt for all. '.repeat(100)]
      const received = () => nodes.reduce((sum, node) => sum + node.stats().requests, 0)
      const choose = await through(gateway)(nodes)
      const ask = (question: string) => {
        const { url, key } = choose()
        const messages = [
          { role: 'system', content: shared },
          { role: 'user', content: question },
        ]
        return fetch(url, {
          method: 'POST',
          signal: clients.signal,
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          body: JSON.stringify({ model, stream: true, messages }),
        })
      }
      // Reading takes a second elsewhere, and so does a slot here: some wait is worth it, a long one is not.
      for (const node of nodes) node.setAnswer({ firstTokenMs: 1_000 })
      await (await ask('the first')).text()
      const first = nodes.findIndex((node) => node.stats().requests === 1)
      // Nothing ends before all are placed: only what is in flight decides.
      for (const node of nodes) node.setAnswer({ firstTokenMs: 600_000 })
      for (let at = 0; at < asked; at++) {
        ask(`question ${at}`).catch(() => {})
        await waitFor('it to be placed', () => received() === at + 2)
      }
      const inFlight = nodes.map((node, at) => node.stats().requests - (at === first ? 1 : 0))
      expect(Math.max(...inFlight)).toBeLessThanOrEqual(3 * slotsAssumed)
      expect(inFlight[first]).toBeGreaterThanOrEqual(asked / nodes.length)
    })
  } finally {
    clients.abort()
    await gateway.stop()
  }
})
