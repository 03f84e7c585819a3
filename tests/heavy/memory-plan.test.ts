import { afterAll, beforeAll, expect, test } from 'bun:test'
import { randomFrom } from '../../bench/conversations.ts'
import { startTestGateway, type TestCustomer, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { metricSum } from '../support/gateways/metric.ts'
import { type AgentProcess, startAgentProcess } from '../support/nodes/agent-process.ts'
import { enrollmentToken, untilState } from '../support/nodes/agents.ts'
import { type ModelFolder, modelFolder, scriptModel } from '../support/nodes/model-files.ts'

const models = ['a', 'b', 'c', 'd', 'e', 'f']
const minutes = Number(process.env.PLAN_MINUTES ?? 2)
const withinMs = minutes * 60_000 + 300_000

let gateway: TestGateway
let customer: TestCustomer
const machines: { readonly folder: ModelFolder; readonly agent: AgentProcess }[] = []

/** Three agents with memory for two models each. */
beforeAll(async () => {
  gateway = await startTestGateway({ env: { SVC_PLAN: 'act', SVC_METRICS_PUBLIC: 'true' } })
  customer = await gateway.customer()
  for (let at = 0; at < 3; at++) {
    const flags = { 'load-ms': '2000', 'memory-mb': '16', 'answer-ms': '300' }
    const folder = modelFolder({ memory_mb: 80, models: models.map((id) => scriptModel(id, flags, { slots: 2 })) })
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
  await gateway?.stop()
}, withinMs)

const random = randomFrom(5)
async function ask(model: string): Promise<void> {
  const response = await gateway.chat(customer.key, { model, messages: [{ role: 'user', content: 'hi' }] })
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status}: ${text}`)
}

/** Calls of a Poisson process each, until then; resolves when all of them are answered. */
async function steady(perS: Readonly<Record<string, number>>, untilMs: number): Promise<void> {
  const calls: Promise<void>[] = []
  const streams = Object.entries(perS).map(async ([model, rate]) => {
    while (performance.now() < untilMs) {
      await Bun.sleep((-Math.log(1 - random()) / rate) * 1_000)
      calls.push(ask(model))
    }
  })
  await Promise.all(streams)
  await Promise.all(calls)
}

const loads = async () => metricSum(await (await fetch(`${gateway.url}/metrics`)).text(), 'svc_model_loads_total')
const copies = (model: string) =>
  machines.filter(({ folder }) => folder.stateOf(model)?.startsWith('ready') === true).length

test(
  '§37: six models that fit into three machines are loaded once under steady demand, and no call is lost',
  async () => {
    const rates = { a: 0.8, b: 0.8, c: 0.6, d: 0.5, e: 0.4, f: 0.3 }
    await steady(rates, performance.now() + minutes * 60_000)
    expect(models.map(copies)).toEqual([1, 1, 1, 1, 1, 1])
    expect(await loads()).toBeLessThanOrEqual(models.length + 1)
  },
  withinMs,
)
