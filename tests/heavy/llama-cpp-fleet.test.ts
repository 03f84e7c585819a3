import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { randomFrom } from '../../bench/conversations.ts'
import { freePort } from '../support/gateways/free-port.ts'
import { startTestGateway, type TestCustomer, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { type GatewayProcess, spawnGateway } from '../support/gateways/gateway-process.ts'
import { shownMetric } from '../support/gateways/metric.ts'
import { type AgentProcess, startAgentProcess } from '../support/nodes/agent-process.ts'
import { enrollmentToken, untilState } from '../support/nodes/agents.ts'
import { llamaCommand, llamaPython, writeTinyModel } from '../support/nodes/llama-server.ts'
import { type ModelFolder, modelFolder } from '../support/nodes/model-files.ts'

/** Six models on three computers with memory for two each, served by llama.cpp's own code. Needs Python and PyPI. */
const python = await llamaPython()
if (python === null)
  console.log('skipped: the packages of tests/support/nodes/llama-server.ts cannot be installed from PyPI')

const models = ['a', 'b', 'c', 'd', 'e', 'f']
const rates = { a: 0.5, b: 0.5, c: 0.4, d: 0.3, e: 0.3, f: 0.3 }
/** So many that a busy machine keeps no call waiting for one: what is loaded is loaded for want of the model alone. */
const slots = 8
const [contextTokens, memoryMb] = [2_048, 400]
const steadyMinutes = Number(process.env.FLEET_MINUTES ?? 10)
/** A plan is made once a minute, and a busy machine takes its time to load. */
const followedMs = 300_000
/** Programs repeat what failed; a conversation is lost when no answer has come by then. */
const answeredMs = 180_000
/** More than one server of it takes. */
const clientsOfOne = 12
const withinMs = steadyMinutes * 60_000 + 900_000

interface Machine {
  readonly folder: ModelFolder
  agent: AgentProcess
}

describe.skipIf(python === null)('§37 with real llama.cpp servers', () => {
  let gateway: TestGateway
  let server: GatewayProcess
  let customer: TestCustomer
  let file: string
  const machines: Machine[] = []

  beforeAll(async () => {
    file = await writeTinyModel(python ?? '', contextTokens)
    gateway = await startTestGateway({
      env: { SVC_PORT: String(freePort()), SVC_PLAN: 'act', SVC_METRICS_PUBLIC: 'true' },
      launch: async (env) => {
        server = await spawnGateway(env)
        return server
      },
    })
    customer = await gateway.customer()
    const served = models.map((id) => {
      const command = llamaCommand(python ?? '', file, id, contextTokens, slots)
      return { id, command, memory_mb: memoryMb, slots }
    })
    for (let at = 0; at < 3; at++) {
      const folder = modelFolder({ memory_mb: 2 * memoryMb, models: served })
      const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
      const agent = await startAgentProcess(folder.path, '--gateway', gateway.url, '--token', token)
      machines.push({ folder, agent })
      await untilState(gateway, agent.nodeId ?? '', 'ready')
    }
  }, withinMs)
  afterAll(async () => {
    for (const { folder, agent } of machines) {
      agent.child.kill('SIGTERM')
      await agent.child.exited
      await waitFor('no process is left', () => folder.running().size === 0)
      folder.remove()
    }
    await server?.stop()
    await gateway?.stop()
    if (file !== undefined) rmSync(file, { force: true })
  }, withinMs)

  type Message = { readonly role: string; readonly content: string }
  /** As programs do, asks again when it was not answered. */
  let again = 0
  async function answer(model: string, messages: readonly Message[], maxTokens: number): Promise<string> {
    const byMs = performance.now() + answeredMs
    for (;;) {
      try {
        return await once(model, messages, maxTokens)
      } catch (error) {
        if (performance.now() > byMs) throw error
        again++
        await Bun.sleep(250)
      }
    }
  }
  async function once(model: string, messages: readonly Message[], maxTokens: number): Promise<string> {
    const response = await gateway.chat(customer.key, { model, messages, max_tokens: maxTokens })
    const text = await response.text()
    if (response.status !== 200) throw new Error(`${response.status}: ${text}`)
    const { choices } = JSON.parse(text) as { readonly choices: readonly [{ readonly message: { content: string } }] }
    return choices[0].message.content
  }
  const ask = (model: string, maxTokens = 8) => answer(model, [{ role: 'user', content: 'hi' }], maxTokens)
  const copies = (model: string) =>
    machines.filter(({ folder }) => folder.stateOf(model)?.startsWith('ready') === true).length

  test(
    'six models that fit find their places in the first moments and keep them under steady demand, and no call is lost',
    async () => {
      const random = randomFrom(5)
      const untilMs = performance.now() + steadyMinutes * 60_000
      const calls: Promise<unknown>[] = []
      const streams = Object.entries(rates).map(async ([model, perS]) => {
        while (performance.now() < untilMs) {
          await Bun.sleep((-Math.log(1 - random()) / perS) * 1_000)
          calls.push(ask(model))
        }
      })
      await Promise.all(streams)
      await Promise.all(calls)
      const loads = await shownMetric(gateway, 'svc_model_loads_total')
      console.log(
        `${calls.length} answered in ${steadyMinutes} minutes, ${loads} loads of ${models.length} models, ${again} asked again`,
      )
      expect(models.map(copies)).toEqual([1, 1, 1, 1, 1, 1])
      expect(loads).toBe(models.length)
    },
    withinMs,
  )

  test(
    'a shift of demand is followed: what nobody asks for gives way to a second server of what all ask for',
    async () => {
      const fromMs = performance.now()
      let over = false
      let answered = 0
      const clients = Array.from({ length: clientsOfOne }, async () => {
        while (!over) {
          await ask('a', 200)
          answered++
        }
      })
      const others = ['b', 'c'].map(async (model) => {
        while (!over) await ask(model)
      })
      await waitFor('a second server of the model', () => copies('a') >= 2, followedMs)
      const tookS = (performance.now() - fromMs) / 1_000
      over = true
      await Promise.all([...clients, ...others])
      console.log(`followed after ${tookS.toFixed(0)} s, ${answered} answers of it by then`)
      expect([copies('b'), copies('c')]).toEqual([1, 1])
    },
    withinMs,
  )

  test(
    'kills of servers, agents and the gateway lose no conversation',
    async () => {
      let over = false
      const before = again
      let turns = 0
      const spoken = new Map<string, number>()
      const talk = async (model: string, name: string) => {
        const messages: Message[] = []
        while (!over) {
          messages.push({ role: 'user', content: `${name} says ${messages.length}` })
          const said = await answer(model, messages.slice(-9), 8)
          messages.push({ role: 'assistant', content: said })
          turns++
          spoken.set(name, (spoken.get(name) ?? 0) + 1)
        }
        return messages
      }
      const names = models.flatMap((model) => [`${model}1`, `${model}2`])
      const talks = names.map((name) => talk(name.slice(0, 1), name))
      /** Each conversation goes on: it has a turn that began after this. */
      const allSpeak = async (after: string) => {
        const before = new Map(spoken)
        const goesOn = (name: string) => (spoken.get(name) ?? 0) >= (before.get(name) ?? 0) + 2
        await waitFor(`two turns of each after ${after}`, () => names.every(goesOn), answeredMs)
      }
      await allSpeak('the beginning')
      const [first, second] = machines as [Machine, Machine, Machine]
      const pid = [...first.folder.running().values()].flat()[0]
      if (pid === undefined) throw new Error('the first computer runs no server')
      process.kill(pid, 'SIGKILL')
      await allSpeak('the end of a model server')
      second.agent.child.kill('SIGKILL')
      await second.agent.child.exited
      await allSpeak('the end of an agent')
      second.agent = await startAgentProcess(second.folder.path, '--gateway', gateway.url)
      await untilState(gateway, second.agent.nodeId ?? '', 'ready')
      await allSpeak('its return')
      await server.kill()
      server = await spawnGateway(gateway.env)
      await allSpeak('the end of the gateway')
      over = true
      const talked = await Promise.all(talks)
      console.log(`${turns} turns of ${names.length} conversations, ${again - before} asked again`)
      expect(talked.map((messages) => messages.length / 2)).toEqual(names.map((name) => spoken.get(name) ?? 0))
    },
    withinMs,
  )
})
