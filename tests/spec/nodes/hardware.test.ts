import { afterAll, expect, test } from 'bun:test'
import type { Node } from '../../../src/protocol/wire/admin/admin.ts'
import type { Hardware } from '../../../src/protocol/wire/nodes/hardware.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, untilState } from '../../support/nodes/agents.ts'
import { fakeLaptop } from '../../support/nodes/fake-hardware.ts'
import { agentRuntime, startScriptedAgent } from '../../support/nodes/scripted-agent.ts'
import { fixture } from '../../support/run/fixture.ts'

const undo: (() => unknown)[] = []

afterAll(async () => {
  for (const step of undo.reverse()) await step()
})
const gateway = await fixture(
  startTestGateway({ env: { SVC_ENDPOINT_NETWORKS: '127.0.0.0/8', SVC_POLL_INTERVAL_MS: '50' } }),
)
const customer = await gateway.customer()

const shown = (nodeId: string) => gateway.admin<Node>('GET', `/v1/admin/nodes/${nodeId}`)
const metrics = async () => {
  const headers = { authorization: `Bearer ${gateway.tokens.viewer}` }
  return (await fetch(`${gateway.url}/metrics`, { headers })).text()
}

test('§39: what an agent’s tools say stands in the admin interface and in the metrics, by the name of its node', async () => {
  const laptop = fakeLaptop()
  undo.push(() => laptop.remove())
  const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
  const hardware = { path: laptop.path, root: laptop.root, platform: 'linux' } as const
  const agent = await startAgent({ gatewayUrl: gateway.url, token, runtimes: [], hardware })
  undo.push(() => agent.remove())
  const told = await waitFor('its hardware', async () => (await shown(agent.nodeId)).hardware)
  expect(told).toMatchObject({
    gpus: [{ name: 'NVIDIA RTX 4060 Laptop GPU', memory_total_mb: 8_188, memory_used_mb: 1_024, power_watts: 81 }],
    memory_total_mb: 16_000,
    memory_used_mb: 8_000,
    battery_percent: 87,
    on_battery: false,
  })
  const text = await metrics()
  expect(text).toContain(`svc_node_gpu_memory_used_bytes{node="test machine",gpu="0"} ${1_024 ** 3}`)
  expect(text).toContain('svc_node_battery_ratio{node="test machine"} 0.87')
  const labels = [...text.matchAll(/^svc_node_\w+\{([^}]*)\}/gm)].map(([, of]) => of)
  expect(labels.length).toBeGreaterThan(8)
  for (const each of labels) expect(each).not.toMatch(/127\.0\.0\.1|RTX/)
})

test('§39: impossible numbers of an agent are dropped, the node serves on; of a node that is away nothing is known', async () => {
  const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId, { endpointUrlAllowed: true })
  const runtimes = [agentRuntime(`rt_${'0'.repeat(25)}1`, ['m'])]
  const agent = await startScriptedAgent(gateway.url, token, runtimes)
  undo.push(() => agent.stop())
  await untilState(gateway, agent.nodeId, 'ready')
  expect((await shown(agent.nodeId)).hardware).toBeNull()
  const says = async (hardware: unknown) => {
    agent.answer((signed) => Response.json(signed({ runtimes, hardware: hardware as Hardware })))
    await agent.polled()
    await agent.polled()
    return shown(agent.nodeId)
  }
  expect(await says({ gpus: [{ name: 'A' }], memory_total_mb: 5 })).toMatchObject({
    state: 'ready',
    hardware: { gpus: [{ name: 'A' }], memory_total_mb: 5 },
  })
  const wrong: readonly unknown[] = [
    { memory_total_mb: -1 },
    { memory_total_mb: 1e300 },
    { gpus: Array.from({ length: 17 }, () => ({ name: 'A' })) },
    { gpus: [{ name: '\u001b[31mred' }] },
    { gpus: [{ name: 'x'.repeat(97) }] },
    { gpus: [{ name: 'A', load_percent: 101 }] },
    { battery_percent: '50' },
    { hostname: 'desk.local' },
    {},
    [],
    'none',
    null,
  ]
  for (const one of wrong) {
    const node = await says(one)
    expect([one, node.state, node.hardware]).toEqual([one, 'ready', null])
  }
})
