import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { randomFrom } from '../../bench/conversations.ts'
import { startTestGateway, type TestCustomer, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { type AgentProcess, startAgentProcess } from '../support/nodes/agent-process.ts'
import { enrollmentToken, untilState } from '../support/nodes/agents.ts'
import { llamaCommand, llamaPython, writeTinyModel } from '../support/nodes/llama-server.ts'
import { type ModelFolder, modelFolder } from '../support/nodes/model-files.ts'
import { type MemoryWatch, modelStorm, unavoidableLoads, watchMemory } from '../support/pools/model-storm.ts'

/** The model servers of an agent as they are in a home: llama.cpp's own server code. Needs Python and PyPI. */
const python = await llamaPython()
if (python === null)
  console.log('skipped: the packages of tests/support/nodes/llama-server.ts cannot be installed from PyPI')

const models = ['a', 'b', 'c']
const capacity = 2
const memoryMb = 400
const contextTokens = 1_024
const slots = 4
const requests = 200
const clients = 10
const withinMs = 600_000

describe.skipIf(python === null)('§30 with real llama.cpp servers', () => {
  let gateway: TestGateway
  let customer: TestCustomer
  let file: string
  let folder: ModelFolder
  let agent: AgentProcess
  let nodeId: string
  let memory: MemoryWatch
  beforeAll(async () => {
    file = await writeTinyModel(python ?? '', contextTokens)
    gateway = await startTestGateway()
    customer = await gateway.customer()
    const commandOf = (id: string) => llamaCommand(python ?? '', file, id, contextTokens, slots)
    folder = modelFolder({
      memory_mb: capacity * memoryMb,
      models: models.map((id) => ({ id, command: commandOf(id), memory_mb: memoryMb, slots })),
    })
    const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
    agent = await startAgentProcess(folder.path, '--gateway', gateway.url, '--token', token)
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
    rmSync(file, { force: true })
  }, withinMs)

  test(
    '200 requests of 10 clients over three models in a budget for two, a server killed: none lost, never over budget',
    async () => {
      const before = memory.seen.size
      const killAt = 100
      const storm = await modelStorm({
        ...{ gateway, key: customer.key, models, requests, clients, random: randomFrom(19), retriesMax: 30 },
        more: { max_tokens: 8 },
        said: /"model":"([abc])"/,
        answered: (count) => {
          if (count === killAt) process.kill([...folder.running().values()].flat()[0] ?? 0, 'SIGKILL')
        },
      })
      const loads = memory.seen.size - before
      const unavoidable = unavoidableLoads(storm.order, capacity)
      console.log(
        `${storm.answers.length} answered, ${loads} loads, ${unavoidable} unavoidable in this order, at most ${Math.round(memory.residentMbMax)} of ${capacity * memoryMb} MiB`,
      )
      expect(storm.failures).toEqual([])
      const count = (names: readonly string[]) => models.map((model) => names.filter((name) => name === model).length)
      expect(count(storm.answers)).toEqual(count(storm.order))
      expect(memory.processesMax).toBeLessThanOrEqual(capacity)
      expect(memory.residentMbMax).toBeLessThanOrEqual(capacity * memoryMb)
      expect(loads).toBeGreaterThanOrEqual(models.length)
      // The one that was killed is loaded again.
      expect(loads).toBeLessThanOrEqual(2 * unavoidable + 1)
    },
    withinMs,
  )
})
