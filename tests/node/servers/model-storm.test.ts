import { afterAll, expect, test } from 'bun:test'
import { randomFrom } from '../../../bench/conversations.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, untilState } from '../../support/nodes/agents.ts'
import { modelFolder, scriptModel } from '../../support/nodes/model-files.ts'
import { modelStorm, unavoidableLoads, watchMemory } from '../../support/pools/model-storm.ts'
import { fixture } from '../../support/run/fixture.ts'

const models = ['a', 'b', 'c']
const capacity = 2

// Of slots this test says nothing, and a machine with other work may be slow.
const gateway = await fixture(startTestGateway({ env: { SVC_QUEUE_WAIT_MS: '30000' } }))
const customer = await gateway.customer()
const folder = modelFolder({
  memory_mb: capacity * 40,
  models: models.map((id) => scriptModel(id, { 'load-ms': '100' }, { slots: 2 })),
})
const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
const serverTimes = { healthMs: 20, yieldMsMin: 200 }
const agent = await fixture(
  startAgent({ gatewayUrl: gateway.url, token, runtimes: [], dataDir: folder.path, serverTimes }),
)
await untilState(gateway, agent.nodeId, 'ready')
const memory = await fixture(watchMemory(folder))
afterAll(() => expect(folder.running().size).toBe(0))

test('§30: three models in a budget for two, through a gateway: none lost, never over budget, few loads', async () => {
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
})

test('unavoidable loads are those of whoever knows the future', () => {
  expect(unavoidableLoads([...'abab'], 2)).toBe(2)
  expect(unavoidableLoads([...'abcabc'], 2)).toBe(4)
  expect(unavoidableLoads([...'aaabbbccc'], 1)).toBe(3)
})
