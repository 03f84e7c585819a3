import { afterAll, beforeEach, expect, test } from 'bun:test'
import type { Explanation } from '../../src/protocol/wire/admin/explanation.ts'
import { startTestGateway, type TestCustomer } from '../support/gateways/gateway.ts'
import { type AdapterNode, startAdapterNode } from '../support/nodes/adapter-node.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: a second try for an adapter, or one after a wait, knew nothing of the caches. Of an adapter whose base has another name at another
 * server, the caches of one base alone were looked at, whichever a node named.
 * Cause: prompts of an adapter are entered below the name of its base, and were looked for below its own name, or below that of the first route.
 * Fix: they are looked for where each route has them.
 */
let customer: TestCustomer
let failing = false
const nodes: AdapterNode[] = []
afterAll(async () => {
  for (const node of nodes) node.stop()
})
const gateway = await fixture(startTestGateway({ env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000' } }))

beforeEach(async () => {
  customer = await gateway.customer()
})

const failsOnce = () => {
  const fails = failing
  failing = false
  return fails
}

async function serve(base: string, adapter: string): Promise<void> {
  const node = startAdapterNode({ speaks: 'vllm', base, adapters: [adapter], fails: failsOnce })
  nodes.push(node)
  await gateway.node(node.url, { customerId: customer.customerId })
}

interface Turn {
  readonly messages: readonly { readonly role: string; readonly content: string }[]
  readonly explained: Explanation
  /** Which answered. */
  readonly nodeId: string
}

async function ask(model: string, before?: Turn): Promise<Turn> {
  const said = before === undefined ? [] : [...before.messages, { role: 'assistant', content: 'yes' }]
  const messages = [...said, { role: 'user', content: crypto.randomUUID().repeat(60) }]
  const response = await gateway.chat(customer.key, { model, messages })
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
  const path = `/v1/admin/explain?request_id=${response.headers.get('x-request-id')}`
  const explained = await gateway.admin<Explanation>('GET', path)
  const chosen = explained.tries.at(-1)?.routes.find(({ verdict }) => verdict === 'chosen')
  return { messages, explained, nodeId: chosen?.node_id ?? '' }
}

/** How much of the prompt the last look found in the caches of these nodes, of those that were weighed. */
const sharesIn = ({ explained }: Turn, nodeIds: ReadonlySet<string>): readonly number[] =>
  (explained.tries.at(-1)?.routes ?? []).flatMap(({ node_id, cost }) =>
    cost !== null && nodeIds.has(node_id) ? [cost.matched_share] : [],
  )

test('§37: what a cache holds of an adapter is seen at each server, whatever the base is called there', async () => {
  await serve('llama-8b', 'sql')
  await serve('llama-8b-instruct', 'sql')
  const firsts = new Map<string, Turn>()
  for (let asked = 0; asked < 50 && firsts.size < 2; asked++) {
    const turn = await ask('sql')
    firsts.set(turn.nodeId, turn)
  }
  expect(firsts.size).toBe(2)
  for (const [nodeId, first] of firsts) {
    const [share = 0] = sharesIn(await ask('sql', first), new Set([nodeId]))
    expect(share).toBeGreaterThan(0.4)
  }
})

test('§37: what a cache holds of an adapter is seen when another node has failed', async () => {
  for (let count = 0; count < 3; count++) await serve('qwen', 'poems')
  const first = await ask('poems')
  let second = first
  for (let asked = 0; asked < 10 && second.nodeId === first.nodeId; asked++) {
    failing = true
    second = await ask('poems', second)
  }
  failing = true
  const third = await ask('poems', second)
  expect(third.explained.tries).toHaveLength(2)
  const shares = sharesIn(third, new Set([first.nodeId, second.nodeId]))
  expect(shares.length).toBeGreaterThan(0)
  for (const share of shares) expect(share).toBeGreaterThan(0.2)
})
