import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type FakeNode, startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { commandLine } from '../../cli/command-line.ts'
import { startTestGateway, type TestCustomer, type TestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, type TestAgent, untilState } from '../../support/nodes/agents.ts'
import { type ModelFolder, modelFolder, scriptModel } from '../../support/nodes/model-files.ts'
import { type OllamaNode, startOllamaNode } from '../../support/nodes/ollama-node.ts'

let gateway: TestGateway
let customer: TestCustomer
let ollama: OllamaNode
let plain: FakeNode
let folder: ModelFolder
let agent: TestAgent
let ids: { readonly ollama: string; readonly plain: string; readonly agent: string }

beforeAll(async () => {
  gateway = await startTestGateway()
  customer = await gateway.customer()
  ollama = startOllamaNode({ models: ['gemma:2b'] })
  plain = startFakeNode({ models: ['plain'] })
  folder = modelFolder({
    memory_mb: 80,
    models: [scriptModel('org/tiny:q4'), scriptModel('dies', { 'die-with': '3' })],
  })
  const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
  agent = await startAgent({
    gatewayUrl: gateway.url,
    token,
    runtimes: [],
    dataDir: folder.path,
    serverTimes: { healthMs: 10, stopGraceMs: 1_000 },
  })
  await untilState(gateway, agent.nodeId, 'ready')
  ids = {
    ollama: await gateway.node(ollama.url, { customerId: customer.customerId }),
    plain: await gateway.node(plain.url, { customerId: customer.customerId }),
    agent: agent.nodeId,
  }
})
afterAll(async () => {
  folder?.running()
  await agent?.remove()
  expect(folder?.running().size).toBe(0)
  ollama?.stop()
  plain?.stop()
  await gateway?.stop()
})

const tell = (nodeId: string, wish: 'load' | 'unload', body: object, token?: string) =>
  gateway.admin('POST', `/v1/admin/nodes/${nodeId}/models/${wish}`, body, token)

test("§30: an operator loads and unloads a model of Ollama, by Ollama's own interface", async () => {
  expect<object>(await tell(ids.ollama, 'load', { model: 'gemma:2b' }, gateway.tokens.operator)).toEqual({
    status: 'accepted',
    node_id: ids.ollama,
    model: 'gemma:2b',
  })
  expect([...ollama.loaded]).toEqual(['gemma:2b'])
  await tell(ids.ollama, 'unload', { model: 'gemma:2b' })
  expect([...ollama.loaded]).toEqual([])
  expect(ollama.chats).toBe(0)
})

test("§30: an operator loads and unloads a model of an agent's own servers, through the tunnel", async () => {
  await tell(ids.agent, 'load', { model: 'org/tiny:q4' })
  await waitFor('the load', () => folder.stateOf('org/tiny:q4') === 'ready.idle')
  expect([...folder.running().keys()]).toEqual(['org/tiny:q4'])
  await tell(ids.agent, 'unload', { model: 'org/tiny:q4' })
  await waitFor('the end', () => folder.stateOf('org/tiny:q4') === 'stopped')
  expect(folder.running().size).toBe(0)
})

test('§30: each is an approval event and a command event, with the model', async () => {
  await tell(ids.ollama, 'load', { model: 'gemma:2b', reason: 'the demo at nine' })
  const { events } = await gateway.admin<{
    events: { action: string; target_id: string; reason: string; metadata: object }[]
  }>('GET', '/v1/admin/approval-events?action=node.model.load&limit=1')
  expect(events[0]).toMatchObject({
    action: 'node.model.load',
    target_id: ids.ollama,
    reason: 'the demo at nine',
    metadata: { model: 'gemma:2b' },
  })
  const commands = await gateway.admin<{ events: { action: string; metadata: object }[] }>(
    'GET',
    '/v1/admin/command-events?action=model.load&limit=1',
  )
  expect(commands.events[0]).toMatchObject({ action: 'model.load' })
})

test('§30: what cannot be told is refused: no such node, no such model, a kind of server without the interface', async () => {
  const cases = [
    ['node_absent', 'gemma:2b', /404.*node_not_found/s],
    [ids.ollama, 'absent', /404.*model_not_found/s],
    [ids.plain, 'plain', /409.*invalid_state/s],
    [ids.agent, 'gemma:2b', /404.*model_not_found/s],
  ] as const
  for (const [nodeId, model, said] of cases) await expect(tell(nodeId, 'load', { model })).rejects.toThrow(said)
  await expect(tell(ids.ollama, 'load', { model: 'gemma:2b' }, gateway.tokens.viewer)).rejects.toThrow(/403/)
})

test('§30: no operator can make an agent run what its file does not name', async () => {
  const hostile = [
    { model: 'org/tiny:q4', command: ['touch', '/tmp/owned'] },
    { model: 'org/tiny:q4', env: { LD_PRELOAD: '/tmp/x.so' } },
    { model: ['sh', '-c', 'id'] },
    {},
  ]
  for (const body of hostile) await expect(tell(ids.agent, 'load', body)).rejects.toThrow(/400/)
  for (const model of ['sh', '../org/tiny:q4', '/bin/sh', 'org/tiny:q4/load?x=', '{port}']) {
    await expect(tell(ids.agent, 'load', { model })).rejects.toThrow(/404/)
  }
  expect(folder.running().size).toBe(0)
})

test('§30: a load that fails is seen in the state of the model, and its words in no answer of the gateway', async () => {
  await tell(ids.agent, 'load', { model: 'dies' })
  await waitFor('the failure', () => folder.stateOf('dies') === 'failed')
  expect(folder.stored().servers.find(({ model }) => model === 'dies')?.last_lines).toContain('cannot load, line 3')
  for (const path of [
    `nodes/${ids.agent}`,
    'nodes?limit=10',
    'models?limit=100',
    'machines/model-server/transitions',
  ]) {
    expect(JSON.stringify(await gateway.admin('GET', `/v1/admin/${path}`))).not.toContain('cannot load')
  }
})

test("§30: nodes show tells why a model server failed on the agent's own computer, and nowhere else", async () => {
  await waitFor('the failure', () => folder.stateOf('dies') === 'failed')
  const cli = commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.admin })
  const here = await cli.run(['nodes', 'show', ids.agent, '--data-dir', folder.path])
  expect(here.out).toContain('dies wrote last:')
  expect(here.out).toContain('  cannot load, line 3\n')
  expect(here.out).toMatch(/org\/tiny:q4 +stopped/)
  for (const elsewhere of [[ids.agent], [ids.plain, '--data-dir', folder.path]]) {
    const { code, out } = await cli.run(['nodes', 'show', ...elsewhere])
    expect([code, out.includes('cannot load'), out.includes('MODEL SERVER')]).toEqual([0, false, false])
  }
  cli.close()
})

test('§30: models load and unload, from the command line', async () => {
  const cli = commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.admin })
  expect(await cli.json('models', 'load', ids.agent, 'org/tiny:q4', '--reason', 'soon')).toMatchObject({
    status: 'accepted',
  })
  await waitFor('the load', () => folder.stateOf('org/tiny:q4') === 'ready.idle')
  expect((await cli.run(['models', 'unload', ids.agent, 'org/tiny:q4'])).code).toBe(0)
  await waitFor('the end', () => folder.stateOf('org/tiny:q4') === 'stopped')
  expect((await cli.run(['models', 'load', ids.plain, 'plain'])).code).not.toBe(0)
  cli.close()
})

test('§30: the chart of the model servers is live: counts and transitions as the agent says', async () => {
  const id = `${ids.agent}/org/tiny:q4`
  const states = async () => {
    const { transitions } = await gateway.admin<{ transitions: { id: string; to: string }[] }>(
      'GET',
      '/v1/admin/machines/model-server/transitions?limit=100',
    )
    return transitions.filter((moved) => moved.id === id).map(({ to }) => to)
  }
  await tell(ids.agent, 'load', { model: 'org/tiny:q4' })
  await waitFor('the load on the page', async () => (await states())[0] === 'ready.idle')
  await tell(ids.agent, 'unload', { model: 'org/tiny:q4' })
  await waitFor('the end on the page', async () => (await states())[0] === 'stopped')
})

test('§37: nodes show says what is wrong with an edited models.json, on the computer of its owner alone', async () => {
  const stored = readFileSync(join(folder.path, 'models.json'), 'utf8')
  writeFileSync(join(folder.path, 'models.json'), stored.replace('"memory_mb": 80', '"memory_mb": 30'))
  const cli = commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.admin })
  const shown = async () => (await cli.run(['nodes', 'show', ids.agent, '--data-dir', folder.path])).out
  await waitFor('the fault', async () => (await shown()).includes('is more than memory_mb of the whole file, 30.'))
  expect(await shown()).toMatch(
    /models\.json was edited and is not used: .*models\.json, line \d+: models\[0\]\.memory_mb is more/,
  )
  expect((await cli.run(['nodes', 'show', ids.agent])).out).not.toContain('models.json')
  cli.close()
  writeFileSync(join(folder.path, 'models.json'), stored)
})
