import { expect } from 'bun:test'
import type { MemoryPlanList } from '../../../src/protocol/wire/admin/memory-plan.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../gateways/gateway.ts'
import { enrollmentToken, startAgent, type TestAgent, untilState } from '../nodes/agents.ts'
import { type ModelFolder, modelFolder } from '../nodes/model-files.ts'

export interface PlannedPool {
  readonly gateway: TestGateway
  readonly customer: TestCustomer
  readonly folder: ModelFolder
  readonly agent: TestAgent
  ask(model: string): Promise<number>
  plan(): Promise<MemoryPlanList>
  tell(wish: 'load' | 'unload', model: string): Promise<unknown>
  stop(): Promise<void>
}

/** A gateway, and one agent with memory for two models of 40 MB. */
export async function startPlannedPool(mode: string, models: readonly object[]): Promise<PlannedPool> {
  const gateway = await startTestGateway({ env: { SVC_PLAN: mode, SVC_METRICS_PUBLIC: 'true' } })
  const customer = await gateway.customer()
  const folder = modelFolder({ memory_mb: 80, models })
  const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
  const agent = await startAgent({
    gatewayUrl: gateway.url,
    token,
    runtimes: [],
    dataDir: folder.path,
    serverTimes: { healthMs: 10, stopGraceMs: 1_000 },
  })
  await untilState(gateway, agent.nodeId, 'ready')
  return {
    gateway,
    customer,
    folder,
    agent,
    ask: async (model) => {
      const response = await gateway.chat(customer.key, { model, messages: [{ role: 'user', content: 'hi' }] })
      await response.text()
      return response.status
    },
    plan: () => gateway.admin<MemoryPlanList>('GET', '/v1/admin/plan', undefined, gateway.tokens.viewer),
    tell: (wish, model) => gateway.admin('POST', `/v1/admin/nodes/${agent.nodeId}/models/${wish}`, { model }),
    stop: async () => {
      folder.running()
      await agent.remove()
      expect(folder.running().size).toBe(0)
      await gateway.stop()
    },
  }
}
