import { afterAll, expect, test } from 'bun:test'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { lastLines } from '../../../src/node/servers/last-lines.ts'
import { commandLine } from '../../cli/command-line.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, untilState } from '../../support/nodes/agents.ts'
import { modelFolder, scriptModel } from '../../support/nodes/model-files.ts'
import { fixture } from '../../support/run/fixture.ts'

const secret = 'sk-of-nobody-else'

afterAll(() => void folder.running())
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const plain = await fixture(startFakeNode({ models: ['plain'] }))
const folder = modelFolder({
  memory_mb: 80,
  models: [
    scriptModel('org/open:q4', {}, { logs: true, profiles: [{ id: 'org/open:warm' }] }),
    scriptModel('closed'),
    scriptModel('dies', { 'die-with': '300', 'api-key': secret }, { logs: true }),
  ],
})
const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
const agent = await fixture(
  startAgent({
    gatewayUrl: gateway.url,
    token,
    runtimes: [],
    dataDir: folder.path,
    serverTimes: { healthMs: 10, stopGraceMs: 1_000 },
  }),
)
afterAll(() => expect(folder.running().size).toBe(0))
await untilState(gateway, agent.nodeId, 'ready')
const plainId = await gateway.node(plain.url, { customerId: customer.customerId })

const logs = (nodeId: string, model: string, token = gateway.tokens.operator) =>
  gateway.admin<{ lines: string[] }>('POST', `/v1/admin/nodes/${nodeId}/models/logs`, { model }, token)
const load = (model: string) => gateway.admin('POST', `/v1/admin/nodes/${agent.nodeId}/models/load`, { model })

test('§37: an operator reads what a model server wrote, which is nothing of the requests that it answered', async () => {
  expect((await logs(agent.nodeId, 'org/open:q4')).lines).toEqual([])
  await load('org/open:q4')
  await waitFor('the load', () => folder.stateOf('org/open:q4') === 'ready.idle')
  const messages = [{ role: 'user', content: 'nobody may read this' }]
  expect((await gateway.chat(customer.key, { model: 'org/open:q4', messages })).status).toBe(200)
  for (const name of ['org/open:q4', 'org/open:warm']) {
    expect<object>(await logs(agent.nodeId, name)).toEqual({
      node_id: agent.nodeId,
      model: name,
      lines: ['org/open:q4 listens'],
    })
  }
})

test('§37: at most 200 lines come, also of a server that failed, and no key of its command among them', async () => {
  await load('dies')
  await waitFor('the failure', () => folder.stateOf('dies') === 'failed')
  const { lines } = await logs(agent.nodeId, 'dies')
  expect(lines).toHaveLength(200)
  expect(lines.at(0)).toBe('cannot load, line 103')
  expect(lines.at(-1)).toBe('[agent] It ended with exit code 1.')
  expect(lines.at(-2)).toStartWith('started with ')
  expect(lines.join()).not.toContain(secret)
})

test('§37: without logs: true in the file of its owner nobody reads them, nor those of a server of no agent', async () => {
  await load('closed')
  await waitFor('the load', () => folder.stateOf('closed') === 'ready.idle')
  const cases = [
    [agent.nodeId, 'closed', /409.*models\.json there does not set logs: true for the model/s],
    [plainId, 'plain', /409.*No agent runs the server/s],
    [agent.nodeId, 'absent', /404.*model_not_found/s],
    ['node_absent', 'closed', /404.*node_not_found/s],
  ] as const
  for (const [nodeId, model, said] of cases) await expect(logs(nodeId, model)).rejects.toThrow(said)
  await expect(logs(agent.nodeId, 'org/open:q4', gateway.tokens.viewer)).rejects.toThrow(/403/)
})

test('§37: the audit keeps who read them and of which model, and nothing keeps a line', async () => {
  await logs(agent.nodeId, 'dies')
  const { events } = await gateway.admin<{ events: object[] }>(
    'GET',
    '/v1/admin/approval-events?action=node.model.logs&limit=1',
  )
  expect(events[0]).toMatchObject({ actor_role: 'operator', target_id: agent.nodeId, metadata: { model: 'dies' } })
  expect(JSON.stringify(events)).not.toContain('cannot load')
})

test('§37: models logs prints them', async () => {
  const cli = commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.operator })
  expect((await cli.run(['models', 'logs', agent.nodeId, 'dies'])).out).toEndWith(
    '\n[agent] It ended with exit code 1.\n',
  )
  const refused = await cli.run(['models', 'logs', agent.nodeId, 'closed'])
  expect([refused.code === 0, refused.out]).toEqual([false, ''])
  cli.close()
})

test('§37: a line has at most 500 characters, and no colours or control characters', () => {
  const text = `first\r\n\u001b[31mred\u001b[0m\u0007\r\n\n${'x'.repeat(600)}\rprogress 9 %`
  expect(lastLines(text, 3)).toEqual(['red', 'x'.repeat(500), 'progress 9 %'])
})

test('§37: what an agent that is away has kept is not read', async () => {
  await agent.node.stop()
  await expect(logs(agent.nodeId, 'dies')).rejects.toThrow(/502.*The agent of this node does not answer/s)
})
