import { beforeEach, expect, test } from 'bun:test'
import { join } from 'node:path'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { pullSource } from '../../../src/node/pulls/pull-sources.ts'
import type { Pull, PullList } from '../../../src/protocol/wire/nodes/pulls.ts'
import { commandLine } from '../../cli/command-line.ts'
import { parseCsv } from '../../support/clients/csv.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, untilState } from '../../support/nodes/agents.ts'
import { ggufFile } from '../../support/nodes/gguf-file.ts'
import { modelFolder, scriptModel } from '../../support/nodes/model-files.ts'
import { startModelHub } from '../../support/nodes/model-hub.ts'
import { fixture } from '../../support/run/fixture.ts'

/** A model server without an agent. */

const script = join(import.meta.dir, '../../support/nodes/model-server-script.ts')

beforeEach(() => {
  hub.fault = {}
})

const place = (more = '') => `/v1/admin/nodes/${agent.nodeId}${more}`
const bare = await fixture(startFakeNode({ models: ['bare'] }))
const hub = await fixture(startModelHub({ 'tiny-Q4_0.gguf': ggufFile(50_000), 'tiny-Q8_0.gguf': ggufFile(90_000) }))
const folder = await fixture(modelFolder({ memory_mb: 20_000, models: [scriptModel('here')] }))
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
const agent = await fixture(
  startAgent({
    gatewayUrl: gateway.url,
    token,
    runtimes: [],
    dataDir: folder.path,
    serverTimes: { healthMs: 10, fileMs: 20 },
    pulls: {
      sources: [`hf=${hub.url}`].flatMap((text) => pullSource(text) ?? []),
      root: join(folder.path, 'models'),
      command: [process.execPath, script, '--model', '{model}', '--port', '{port}'],
    },
  }),
)
await untilState(gateway, agent.nodeId, 'ready')
await gateway.admin('PATCH', place(), { name: 'Den' })
const cli = await fixture(commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.admin }))

const pulls = async () => (await gateway.admin<PullList>('GET', place('/pulls'))).pulls

test('§39: `models pull` fetches a model onto a node, and a request is answered by it', async () => {
  const { code, out, err } = await cli.run(['models', 'pull', 'Den', 'hf:org/repo:Q4_0', '--model', 'tiny'])
  expect([code, err.split('\n')[0]]).toEqual([0, 'waiting'])
  expect(out).toContain('tiny is on Den: about ')
  await waitFor('the model', async () => {
    const answer = await gateway.chat(customer.key, { model: 'tiny', messages: [{ role: 'user', content: 'hi' }] })
    return answer.status === 200 && (await answer.text()).includes('tiny from ')
  })
  expect((await cli.run(['models', 'pulls', 'Den'])).out).toMatch(/pull_\w{26} +tiny +done +100 % +0\.00 GB +\d+ MiB/)
  const [pulled] = await pulls()
  const table = await fetch(`${gateway.url}${place('/pulls')}?format=csv`, {
    headers: { 'x-svc-admin-token': gateway.tokens.operator },
  })
  expect([table.status, table.headers.get('content-type')?.split(';')[0]]).toEqual([200, 'text/csv'])
  const [head = [], row = []] = parseCsv(await table.text())
  expect(Object.fromEntries(head.map((name, at) => [name, row[at]]))).toMatchObject({
    pull_id: pulled?.pull_id,
    model: 'tiny',
    state: 'done',
    bytes_total: String(pulled?.bytes_total),
  })
  const { events } = await gateway.admin<{ events: { metadata: object }[] }>(
    'GET',
    '/v1/admin/command-events?action=model.pull&limit=5',
  )
  expect(events[0]?.metadata).toMatchObject({ model: 'hf:org/repo:Q4_0' })
})

test('§39: a pull is shown as it goes, and cancelled; the next one goes on where it stopped', async () => {
  hub.fault = { stallAfter: 60_000 }
  const ref = 'hf:org/repo:Q8_0'
  const detached = await cli.json<Pull>('models', 'pull', 'Den', ref, '--detach')
  await waitFor('its bytes', async () => (await pulls())[0]?.bytes_done === 60_000)
  expect((await pulls())[0]).toMatchObject({ pull_id: detached.pull_id, state: 'fetching', bytes_total: 90_000 })
  expect((await cli.run(['models', 'pulls', 'Den'])).out).toContain('66 %')
  const { out } = await cli.run(['models', 'cancel-pull', 'Den', detached.pull_id])
  expect(out).toContain(`The pull ${detached.pull_id} is ended.`)
  expect((await pulls())[0]?.state).toBe('cancelled')
  const before = hub.ranges.length
  const { code } = await cli.run(['models', 'pull', 'Den', ref])
  expect([code, hub.ranges.slice(before + 1)]).toEqual([0, ['bytes=60000-']])
})

test('§39: in a terminal `models pull` draws how far it is, and Ctrl-C leaves the pull alone', async () => {
  hub.fault = { stallAfter: 60_000 }
  const run = cli.inTerminal(['models', 'pull', 'Den', 'hf:org/repo:Q8_0', '--model', 'drawn'])
  await waitFor('the bar', () => run.text().includes(`[${'#'.repeat(16)}${'·'.repeat(8)}] 66 %`))
  run.type('\u0003')
  expect(await run.exited).toBe(0)
  expect(run.text()).toContain('It goes on there')
  const [pull] = await pulls()
  expect(pull).toMatchObject({ model: 'drawn', state: 'fetching' })
  await gateway.admin('POST', place(`/pulls/${pull?.pull_id}/cancel`), {})
})

test('§39: why a pull failed is said in words, and what nobody allows is refused', async () => {
  const missing = await cli.run(['models', 'pull', 'Den', 'hf:org/none:Q4_0'])
  expect([missing.code, missing.err]).toEqual([1, expect.stringContaining('There is no such model')])
  const { code, err } = await cli.run(['models', 'pull', 'Den', 'ollama:tiny'])
  expect([code, err]).toEqual([1, expect.stringContaining('--pull-from')])
  const wrong: readonly (readonly [string, object, RegExp, string?])[] = [
    [place('/pulls'), { ref: '../x' }, /400.*invalid_request/s],
    [place('/pulls'), { ref: 'https://u:p@host/a.gguf' }, /400.*invalid_request/s],
    [place('/pulls'), { ref: 'hf:org/repo' }, /403/, gateway.tokens.viewer],
    [place('/pulls/pull_00000000000000000000000000/cancel'), {}, /404.*pull_not_found/s],
  ]
  for (const [path, body, says, token] of wrong)
    await expect(gateway.admin('POST', path, body, token)).rejects.toThrow(says)
  const plain = await gateway.node(bare.url, { customerId: customer.customerId })
  const path = `/v1/admin/nodes/${plain}/pulls`
  await expect(gateway.admin('POST', path, { ref: 'hf:org/repo' })).rejects.toThrow(/409.*has no agent/s)
  await expect(gateway.admin('GET', path)).rejects.toThrow(/409.*has no agent/s)
})
