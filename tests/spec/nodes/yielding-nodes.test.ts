import { afterAll, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { commandLine } from '../../cli/command-line.ts'
import { postJson } from '../../support/clients/post-json.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, untilState } from '../../support/nodes/agents.ts'
import { startVllmNode } from '../../support/nodes/vllm-node.ts'
import { fixture } from '../../support/run/fixture.ts'

const sysRoot = mkdtempSync(join(tmpdir(), 'penstock-hot-'))
const zone = join(sysRoot, 'class/thermal/thermal_zone0')
const heat = (celsius: number) => writeFileSync(join(zone, 'temp'), String(celsius * 1_000))

mkdirSync(zone, { recursive: true })
heat(40)
const model = await fixture(startFakeNode({ models: ['gaming-pc'] }))
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
const agent = await fixture(
  startAgent({
    gatewayUrl: gateway.url,
    token,
    runtimes: [model.url],
    power: { yields: ['temperature=80'], sysRoot, yieldTimes: { everyMs: 20, lookMs: 1_000, quietMs: 300 } },
  }),
)
await untilState(gateway, agent.nodeId, 'ready')

afterAll(() => rmSync(sysRoot, { recursive: true, force: true }))

const messages = [{ role: 'user', content: 'Hello' }]
const ask = (more: object = {}) => gateway.chat(customer.key, { model: 'gaming-pc', messages, ...more })

test('§39: a computer that yields takes nothing new, cuts nothing, and is back after a time of quiet', async () => {
  model.setFaults({ kind: 'usageLate', ms: 800 })
  const running = await ask({ stream: true })
  heat(95)
  await untilState(gateway, agent.nodeId, 'yielding')
  const refused = await ask()
  expect([refused.status, ((await refused.json()) as { error: { code: string } }).error.code]).toEqual([
    503,
    'no_route_available',
  ])
  expect(await running.text()).toEndWith('data: [DONE]\n\n')
  model.clearFaults()
  heat(40)
  await untilState(gateway, agent.nodeId, 'ready')
  expect((await ask()).status).toBe(200)
})

test("§39: the owner's own requests pass, and lists say in words why", async () => {
  heat(95)
  await untilState(gateway, agent.nodeId, 'yielding')
  const node = await gateway.admin<object>('GET', `/v1/admin/nodes/${agent.nodeId}`)
  expect(node).toMatchObject({
    state: 'yielding',
    state_reasons: ['temperature'],
    state_says: 'it is hot',
    last_error: null,
  })
  const { local_token: local } = JSON.parse(readFileSync(join(agent.node.folder, 'local-token.json'), 'utf8')) as {
    local_token: string
  }
  const own = await postJson(`${agent.node.url}/v1/chat/completions`, local, { model: 'gaming-pc', messages })
  expect(own.status).toBe(200)
  const cli = commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.admin })
  const shown = await cli.run(['nodes', 'show', agent.nodeId])
  expect(shown.out).toMatch(/Why +it is hot/)
  cli.close()
  heat(40)
  await untilState(gateway, agent.nodeId, 'ready')
})

test('§39: an agent whose owner has switched nothing on says nothing that an older gateway does not know', async () => {
  const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
  const plain = await startAgent({ gatewayUrl: gateway.url, token, runtimes: [model.url] })
  await untilState(gateway, plain.nodeId, 'ready')
  await expect(gateway.admin('POST', `/v1/admin/nodes/${plain.nodeId}/wake`, {})).resolves.toMatchObject({
    state: 'ready',
  })
  // Its state is known without a word of it.
  await gateway.admin('POST', `/v1/admin/nodes/${plain.nodeId}/sleep`, {})
  await waitFor(
    'the sleep',
    async () => (await gateway.admin<{ state: string }>('GET', `/v1/admin/nodes/${plain.nodeId}`)).state === 'asleep',
  )
  await plain.remove()
})

test('§39: models leave the memory of a computer that yields, where its owner wants that', async () => {
  const engine = startVllmNode({ model: 'engine', wakeMs: 10 })
  const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
  const leaving = await startAgent({
    gatewayUrl: gateway.url,
    token,
    runtimes: [engine.url],
    power: {
      ...{ yields: ['temperature=80'], yieldUnloads: true, sysRoot },
      yieldTimes: { everyMs: 20, lookMs: 1_000, quietMs: 300 },
    },
  })
  await untilState(gateway, leaving.nodeId, 'ready')
  heat(95)
  await waitFor('the sleep of its engine', () => engine.sleeping)
  heat(40)
  await untilState(gateway, leaving.nodeId, 'ready')
  await leaving.remove()
  engine.stop()
})
