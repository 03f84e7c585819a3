import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type AgentNode, startAgentNode } from '../support/clients/agent-node.ts'
import { type AgentProgram, agentPrograms } from '../support/clients/agent-programs.ts'
import { isDone, programsOf, startMs } from '../support/clients/agent-run.ts'
import { chosen } from '../support/clients/suites.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'

const folders = new Map<AgentProgram, string | null>()
const agents = chosen(agentPrograms)
for (const agent of agents) folders.set(agent, await programsOf(agent))

let gateway: TestGateway
let customer: TestCustomer
let node: AgentNode
beforeAll(async () => {
  gateway = await startTestGateway()
  customer = await gateway.customer()
  node = startAgentNode()
  await gateway.node(node.url, { customerId: customer.customerId })
})
afterAll(async () => {
  node.stop()
  await gateway.stop()
})

describe.each(agents.map((agent) => [agent.requirement, agent] as const))('§35: %s', (_name, agent) => {
  const bin = folders.get(agent) ?? null
  test.skipIf(bin === null)(
    'writes a file by a tool call, reads it and ends, three times in a row in an empty HOME',
    async () => {
      const told: Record<string, true | string> = {}
      for (const turn of Object.keys(agent.facts))
        told[turn] = await isDone(agent, bin ?? '', { url: gateway.url, key: customer.key, node })
      expect(told).toEqual(agent.facts as typeof told)
    },
    6 * startMs,
  )
})
