import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { startAgentProcess } from '../../support/nodes/agent-process.ts'
import { enrollmentToken, startAgent, untilState } from '../../support/nodes/agents.ts'
import { networkCard, type SleepingComputer, sleepingComputer } from '../../support/nodes/sleeping-computer.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'
import { lasts } from '../../support/run/lasts.ts'

const mac = '3c:7c:3f:00:01:01'

/** Of the agent's computer. */

/** Heard by no gateway's packets, only by those of the helper. */

const dataDir = mkdtempSync(join(tmpdir(), 'penstock-asleep-'))

const ids = new Map<SleepingComputer, string>()
afterAll(async () => {
  if (agent !== undefined) {
    agent.child.kill('SIGCONT')
    agent.child.kill()
    await agent.child.exited
  }
  for (const each of [near, far]) each?.stop()
  rmSync(dataDir, { recursive: true, force: true })
})
const model = await fixture(startFakeNode({ models: ['den'] }))
// A process that is stopped sleeps as a computer does: its timers stand still, and the time of day does not.
const card = await fixture(networkCard({ mac, wakes: () => agent.child.kill('SIGCONT') }))
const near = await sleepingComputer({ mac: '3c:7c:3f:00:01:02', server: { models: ['near'] } })
const far = await sleepingComputer({ mac: '3c:7c:3f:00:01:03', server: { models: ['far'] } })
const gateway = await fixture(
  startTestGateway({
    env: {
      SVC_WAKE_ADDRESSES: `${card.address},${near.card.address}`,
      SVC_WAKE_WAIT_MS: '20000',
      SVC_ADMIN_RPM_PER_TOKEN: '100000',
    },
  }),
)
const beside = await fixture(startTestGateway({ beside: gateway, env: { ...gateway.env, SVC_PROCESSES: '1' } }))
const customer = await gateway.customer()
const [own, other] = await Promise.all([1, 2].map(() => enrollmentToken(gateway, customer.customerId)))
const agent = await startAgentProcess(
  dataDir,
  ...['--gateway', gateway.url, '--token', own?.enrollment_token ?? '', '--runtime', model.url],
  ...['--suspend-command', 'kill -STOP $PPID', '--wake-mac', mac],
)
const agentId = agent.nodeId ?? ''
await untilState(gateway, agentId, 'ready')
const interfaces = () => ({
  lan: [
    {
      ...{ address: '127.0.0.9', netmask: '255.0.0.0', family: 'IPv4' as const, internal: false },
      ...{ mac: '3c:7c:3f:00:01:09', cidr: '127.0.0.9/8' },
    },
  ],
})
await fixture(
  startAgent({
    gatewayUrl: gateway.url,
    token: other?.enrollment_token ?? '',
    runtimes: [],
    power: { wakesOthers: true, packetTargets: [far.card.address], interfaces },
  }),
)
for (const each of [near, far]) {
  const id = await gateway.node(each.url, { customerId: customer.customerId })
  ids.set(each, id)
  await gateway.admin('PATCH', `/v1/admin/nodes/${id}`, { mac: each.card.mac })
}

const idOf = (each: SleepingComputer) => ids.get(each) ?? ''
const messages = [{ role: 'user', content: 'Hello' }]
const ask = (name: string, more: object = {}, at = gateway) => at.chat(customer.key, { model: name, messages, ...more })
const stateOf = async (nodeId: string, at = gateway) =>
  (await at.admin<{ state: string }>('GET', `/v1/admin/nodes/${nodeId}`)).state
const sleeps = (nodeId: string) => gateway.admin('POST', `/v1/admin/nodes/${nodeId}/sleep`, {})
const asleep = async (each: SleepingComputer) => {
  await sleeps(idOf(each))
  each.fallAsleep()
}

test('§39: an agent suspends its computer by the command of its owner, and a request wakes it', async () => {
  await sleeps(agentId)
  await waitFor('the sleep', async () => (await stateOf(agentId)) === 'asleep')
  // Every gateway knows it, also the one that did not hear it.
  await waitFor('the sleep there', async () => (await stateOf(agentId, beside)) === 'asleep')
  await waitFor('its process to be stopped', () => isStopped(agent.pid))
  // So long a sleep is one that its clock shows: it looks each second.
  await lasts(2_200)
  const answer = await ask('den')
  expect(answer.status).toBe(200)
  expect(card.packets).toBeGreaterThan(0)
  expect(await stateOf(agentId)).toBe('ready')
  // There no tunnel of it ends, and no peer leads to it: it is away, and does not sleep.
  await waitFor('the word of it there', async () => (await stateOf(agentId, beside)) !== 'asleep')
})

const isStopped = async (pid: number) => /^State:\s+T/m.test(await Bun.file(`/proc/${pid}/status`).text())

test('§39: it does not while anything runs, and the answer goes on', async () => {
  model.setFaults({ kind: 'usageLate', ms: 1_500 })
  const answer = await ask('den', { stream: true })
  expect(answer.status).toBe(200)
  await expect(sleeps(agentId)).rejects.toThrow(/409.*invalid_state/s)
  expect(await answer.text()).toEndWith('data: [DONE]\n\n')
  model.clearFaults()
})

test('§39: an awake agent of the same network sends the packet that a gateway cannot', async () => {
  await asleep(far)
  expect((await ask('far')).status).toBe(200)
  expect(far.card.packets).toBeGreaterThan(0)
  expect(near.card.others + card.others).toBeGreaterThan(0)
})

test('§39: requests at two gateways wake a node together with no more packets than one', async () => {
  await asleep(near)
  await waitFor('the sleep there', async () => (await stateOf(idOf(near), beside)) === 'asleep')
  const deaf = near.card.packets
  const answers = await Promise.all([ask('near'), ask('near'), ask('near', {}, beside), ask('near', {}, beside)])
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  expect(near.card.packets - deaf).toBe(1)
})

test('§39: a gateway that starts while a node sleeps knows it, and wakes it', async () => {
  await asleep(near)
  await using later = await scoped(startTestGateway({ beside: gateway, env: gateway.env }))
  expect(await stateOf(idOf(near), later)).toBe('asleep')
  expect((await ask('near', {}, later)).status).toBe(200)
})

test('§39: a computer that falls asleep in the midst of an answer: the stream ends with an error, and the next request wakes it', async () => {
  const node = near.node
  node?.setFaults({ kind: 'stall', afterChunks: 2 })
  const answer = await ask('near', { stream: true })
  // The other gateway sees no call, and takes the operator's word.
  await beside.admin('POST', `/v1/admin/nodes/${idOf(near)}/sleep`, {})
  await waitFor('the sleep here', async () => (await stateOf(idOf(near))) === 'asleep')
  near.fallAsleep()
  const text = await answer.text()
  expect(text).toContain('"error"')
  expect(text).not.toContain('[DONE]')
  expect((await ask('near')).status).toBe(200)
})
