import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import { folderWith, toldByNode } from '../support/clients/javascript.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'

/** Clients that are too large to be among the packages of this project. */
const packages = ['@langchain/openai@1.5.8', '@langchain/core@1.4.0', 'zod@4.4.3']
const folder = await folderWith(packages)
if (folder === null) console.log(`skipped: ${packages.join(', ')} cannot be installed from npm`)

const whole = 'fake-0 fake-1 fake-2 fake-3 fake-4 '

let gateway: TestGateway
let customer: TestCustomer
let node: FakeNode
beforeAll(async () => {
  gateway = await startTestGateway()
  customer = await gateway.customer()
  node = startFakeNode({ models: ['m'] })
  await gateway.node(node.url, { customerId: customer.customerId })
})
afterAll(async () => {
  node.stop()
  await gateway.stop()
})

test.skipIf(folder === null)(
  '§28: LangChain for JavaScript: whole, streamed, tools, structured output, its own errors',
  async () => {
    const env = { URL: gateway.url, KEY: customer.key }
    expect(await toldByNode(folder ?? '', 'langchain-client.mjs', env)).toEqual({
      chat: whole,
      chat_stream: whole,
      chat_tool: ['look'],
      chat_structured: 'hello there',
      responses: whole,
      responses_stream: whole,
      responses_tool: ['look'],
      responses_structured: 'hello there',
      wrong_key: 401,
    })
  },
)
