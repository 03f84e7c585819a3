import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import { folderWith, toldByNode } from '../support/clients/javascript.ts'
import { langchain } from '../support/clients/javascript-suites.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'

const packages = [langchain.requirement, ...langchain.beside]
const folder = await folderWith(packages)
if (folder === null) console.log(`skipped: ${packages.join(', ')} cannot be installed from npm`)

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
    expect(await toldByNode(folder ?? '', 'langchain-client.mjs', env)).toEqual(langchain.facts)
  },
)
