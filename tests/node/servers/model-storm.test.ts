import { afterAll, beforeAll, expect, test } from 'bun:test'
import { randomFrom } from '../../../bench/conversations.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, type TestAgent, untilState } from '../../support/nodes/agents.ts'
import { type ModelFolder, modelFolder, scriptModel } from '../../support/nodes/model-files.ts'
import { type MemoryWatch, modelStorm, unavoidableLoads, watchMemory } from '../../support/pools/model-storm.ts'
import { testLimitMs } from '../../support/run/limits.ts'

const models = ['a', 'b', 'c']
const capacity = 2

let gateway: TestGateway
let customer: TestCustomer
let folder: ModelFolder
let agent: TestAgent
let memory: MemoryWatch

beforeAll(async () => {
  // Of slots this test says nothing, and a machine with other work may be slow.
  gateway = await startTestGateway({ env: { SVC_QUEUE_WAIT_MS: '30000' } })
  customer = await gateway.customer()
  folder = modelFolder({
    memory_mb: capacity * 40,
    models: models.map((id) => scriptModel(id, { 'load-ms': '100' }, { slots: 2 })),
  })
  const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
  const serverTimes = { healthMs: 20, yieldMsMin: 200 }
  agent = await startAgent({ gatewayUrl: gateway.url, token, runtimes: [], dataDir: folder.path, serverTimes })
  await untilState(gateway, agent.nodeId, 'ready')
  memory = watchMemory(folder)
}, testLimitMs)
afterAll(async () => {
  await memory?.stop()
  await agent?.remove()
  expect(folder.running().size).toBe(0)
  await gateway?.stop()
})

test(
  '§30: three models in a budget for two, through a gateway: none lost, never over budget, few loads',
  async () => {
    const random = randomFrom(17)
    const storm = await modelStorm({
      gateway,
      key: customer.key,
      models,
      requests: 40,
      clients: 5,
      random,
      retriesMax: 0,
    })
    expect(storm.failures).toEqual([])
    expect(storm.answers).toHaveLength(40)
    expect(memory.processesMax).toBeLessThanOrEqual(capacity)
    expect(memory.seen.size).toBeGreaterThanOrEqual(models.length)
    expect(memory.seen.size).toBeLessThanOrEqual(2 * unavoidableLoads(storm.order, capacity))
  },
  testLimitMs,
)

test('unavoidable loads are those of whoever knows the future', () => {
  expect(unavoidableLoads([...'abab'], 2)).toBe(2)
  expect(unavoidableLoads([...'abcabc'], 2)).toBe(4)
  expect(unavoidableLoads([...'aaabbbccc'], 1)).toBe(3)
})
