import { afterAll, beforeAll, expect, test } from 'bun:test'
import { randomFrom } from '../../bench/conversations.ts'
import { startTestGateway, type TestCustomer, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { type AgentProcess, startAgentProcess } from '../support/nodes/agent-process.ts'
import { enrollmentToken, untilState } from '../support/nodes/agents.ts'
import { type ModelFolder, modelFolder, scriptModel } from '../support/nodes/model-files.ts'
import { type MemoryWatch, modelStorm, unavoidableLoads, watchMemory } from '../support/pools/model-storm.ts'

const models = ['a', 'b', 'c']
const memoryMb = 200
const capacity = 2
const requests = 200
const clients = 10
const withinMs = 600_000

let gateway: TestGateway
let customer: TestCustomer
let folder: ModelFolder
let agent: AgentProcess
let nodeId: string
let memory: MemoryWatch

const file = () => ({
  memory_mb: capacity * memoryMb,
  models: models.map((id) =>
    scriptModel(id, { 'load-ms': '700', 'memory-mb': '48', 'answer-ms': '40' }, { memory_mb: memoryMb, slots: 4 }),
  ),
})

const startAgent = async (...args: readonly string[]) => {
  agent = await startAgentProcess(folder.path, ...args)
}

beforeAll(async () => {
  gateway = await startTestGateway()
  customer = await gateway.customer()
  folder = modelFolder(file())
  const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
  await startAgent('--gateway', gateway.url, '--token', token)
  nodeId = agent.nodeId ?? ''
  await untilState(gateway, nodeId, 'ready')
  memory = watchMemory(folder)
}, withinMs)
afterAll(async () => {
  await memory?.stop()
  agent?.child.kill('SIGTERM')
  await agent?.child.exited
  await waitFor('no process is left', () => folder.running().size === 0)
  folder.remove()
  await gateway?.stop()
}, withinMs)

test(
  '§30: 200 requests of 10 clients over three models in a budget for two: none lost, never over budget',
  async () => {
    const random = randomFrom(17)
    const before = memory.seen.size
    const began = performance.now()
    const storm = await modelStorm({ gateway, key: customer.key, models, requests, clients, random, retriesMax: 0 })
    const seconds = (performance.now() - began) / 1_000
    const loads = memory.seen.size - before
    const unavoidable = unavoidableLoads(storm.order, capacity)
    console.log(
      `${storm.answers.length} answered, ${loads} loads, ${unavoidable} unavoidable in this order, ` +
        `at most ${Math.round(memory.residentMbMax)} of ${capacity * memoryMb} MiB, ${seconds.toFixed(1)} s`,
    )
    expect(storm.failures).toEqual([])
    expect(storm.answers).toHaveLength(requests)
    // Each was answered by the model that it was for.
    const count = (names: readonly string[]) => models.map((model) => names.filter((name) => name === model).length)
    expect(count(storm.answers.map((said) => said.split(' ')[0] ?? ''))).toEqual(count(storm.order))
    expect(memory.processesMax).toBeLessThanOrEqual(capacity)
    expect(memory.residentMbMax).toBeLessThanOrEqual(capacity * memoryMb)
    expect(loads).toBeGreaterThanOrEqual(models.length)
    expect(loads).toBeLessThanOrEqual(2 * unavoidable)
  },
  withinMs,
)

test(
  '§30: kill -9 of a server and of the agent in the midst of it: all is answered in the end, nothing is left over',
  async () => {
    const random = randomFrom(18)
    let orphans: readonly number[] = []
    const kills = new Map<number, () => void>([
      [20, () => process.kill([...folder.running().values()].flat()[0] ?? 0, 'SIGKILL')],
      [
        60,
        () => {
          orphans = [...folder.running().values()].flat()
          agent.child.kill('SIGKILL')
          // As a supervisor starts it again.
          void agent.child.exited.then(() => startAgent())
        },
      ],
    ])
    const answered = (count: number) => kills.get(count)?.()
    const storm = await modelStorm({
      gateway,
      key: customer.key,
      models,
      requests: 120,
      clients,
      random,
      retriesMax: 30,
      answered,
    })
    console.log(`${storm.answers.length} answered after ${storm.retries} repetitions`)
    expect(storm.failures).toEqual([])
    expect(storm.answers).toHaveLength(120)
    expect(orphans.length).toBeGreaterThan(0)
    const left = new Set([...folder.running().values()].flat())
    expect(orphans.filter((pid) => left.has(pid))).toEqual([])
    expect(memory.processesMax).toBeLessThanOrEqual(capacity)
  },
  withinMs,
)
