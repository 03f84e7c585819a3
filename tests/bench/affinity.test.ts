import { expect, test } from 'bun:test'
import { type Pool, roundRobin, type Strategy, tryStrategy } from '../../bench/affinity.ts'
import { planConversations } from '../../bench/conversations.ts'
import { model } from '../../bench/targets.ts'
import { startTestGateway, type TestGateway } from '../support/gateway.ts'

const pool: Pool = {
  nodes: 4,
  node: {
    slots: 4,
    kv: { msPerPromptToken: 0.05, cachedMsPerToken: 0.001, capacityPrompts: 8 },
    msPerWord: 0.5,
    replyWords: 40,
  },
}
const conversations = planConversations({
  conversations: 16,
  turns: 5,
  systemPrompts: 4,
  systemWords: 300,
  userWords: 100,
  withinMs: 500,
  thinkMs: 50,
  seed: 1,
})

const through =
  (gateway: TestGateway): Strategy =>
  async (nodes) => {
    const customer = await gateway.customer({ keyPolicy: { allowed_models: [model] } })
    await Promise.all(nodes.map((node) => gateway.node(node.url, { customerId: customer.customerId })))
    return () => ({ url: `${gateway.url}/v1/api/chat/completions`, key: customer.key, done: () => {} })
  }

test('§8: the same conversation goes where its prefix is cached, and no node is flooded for it', async () => {
  const gateway = await startTestGateway()
  try {
    const blind = await tryStrategy(roundRobin, pool, conversations)
    const chosen = await tryStrategy(through(gateway), pool, conversations)
    expect(chosen.hitRate).toBeGreaterThan(blind.hitRate + 0.1)
    expect(chosen.spread).toBeLessThan(2)
  } finally {
    await gateway.stop()
  }
})
