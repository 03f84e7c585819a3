import { afterAll, expect } from 'bun:test'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { EventStreamReader } from '../support/clients/event-stream.ts'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { firstMatch } from '../support/gateways/gateway-process.ts'
import { enrollmentToken, nodeOf, untilState } from '../support/nodes/agents.ts'
import { fixture } from '../support/run/fixture.ts'
import { npmTest as test } from '../support/run/npm-test.ts'

const root = resolve(import.meta.dir, '../..')

const first = await fixture(startTestGateway())
const second = await fixture(startTestGateway({ beside: first }))
const server = await fixture(startFakeNode({ models: ['m-1'] }))
const customer = await first.customer()
const folder = mkdtempSync(join(tmpdir(), 'penstock-node-'))

afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** As a user starts it. */
const command = [join(root, 'penstock')]
/** Without the launcher: SIGKILL would end that one alone. */
const itself = [process.execPath, join(root, 'src/cli/main.ts')]

/** Resolves once it says who it is. */
async function start(
  program: readonly string[],
  more: readonly string[] = [],
  dataDir = folder,
  stderr: 'ignore' | 'pipe' = 'ignore',
) {
  const beside = ['--data-dir', dataDir, '--listen', '127.0.0.1:0', '--no-discover', '--runtime', server.url]
  const child = Bun.spawn([...program, 'node', ...beside, ...more], {
    cwd: tmpdir(),
    env: { PATH: process.env.PATH ?? '', HOME: folder },
    stdio: ['ignore', 'pipe', stderr],
  })
  const [, nodeId = ''] = await firstMatch(child.stdout, /This node is (node_\w+)/)
  return { child, nodeId }
}
const ask = async () =>
  (await first.chat(customer.key, { model: 'm-1', messages: [{ role: 'user', content: 'x' }] })).status

test('§22: ./penstock node enrols once, survives kill -9 as the same node, and ends in order', async () => {
  const { enrollment_token: token } = await enrollmentToken(first, customer.customerId)
  const born = await start(itself, ['--gateway', first.url, '--token', token])
  await untilState(first, born.nodeId, 'ready')
  expect(await ask()).toBe(200)
  const before = await nodeOf(first, born.nodeId)
  expect(statSync(join(folder, 'identity.json')).mode & 0o777).toBe(0o600)

  born.child.kill('SIGKILL')
  await born.child.exited
  await untilState(first, born.nodeId, 'stale')
  const again = await start(command, ['--gateway', first.url, '--token', token], folder, 'pipe')
  expect((await firstMatch(again.child.stderr as ReadableStream<Uint8Array>, /the token was not used/))[0]).not.toBe('')
  expect(again.nodeId).toBe(born.nodeId)
  await untilState(first, born.nodeId, 'ready')
  const after = await nodeOf(first, born.nodeId)
  expect(after.identity_fingerprint).toBe(before.identity_fingerprint)
  expect(after.runtimes.map(({ runtime_id }) => runtime_id).sort()).toEqual(
    before.runtimes.map(({ runtime_id }) => runtime_id).sort(),
  )
  expect(await ask()).toBe(200)

  again.child.kill('SIGTERM')
  expect(await again.child.exited).toBe(0)
  await untilState(first, born.nodeId, 'stale')
})

test('§12, §24: on a machine that no gateway knows it serves the machine, with a key for a model server that asks for one', async () => {
  const locked = startFakeNode({ models: ['m-2'], apiKey: 'sk-MARK', answer: { chunks: 1 } })
  const dataDir = join(folder, 'alone')
  const options = ['--data-dir', dataDir, '--listen', '127.0.0.1:0', '--no-discover', '--json']
  const run = (env: Readonly<Record<string, string>>) =>
    Bun.spawn([...itself, 'node', ...options, '--runtime-key', `${locked.url}=MODEL_KEY`], {
      env: { PATH: process.env.PATH ?? '', HOME: folder, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  const keyless = run({})
  expect(await keyless.exited).not.toBe(0)
  expect(await new Response(keyless.stderr).text()).toContain('MODEL_KEY is not set')

  const agent = run({ MODEL_KEY: 'sk-MARK' })
  const [text] = await firstMatch(agent.stdout, /^\{.*\}$/m)
  const told = JSON.parse(text) as { readonly node_id: null; readonly url: string; readonly data_dir: string }
  expect(told).toMatchObject({ node_id: null, data_dir: dataDir })
  const { local_token: token } = (await Bun.file(join(dataDir, 'local-token.json')).json()) as { local_token: string }
  const answer = await postJson(`${told.url}/v1/chat/completions`, token, {
    model: 'm-2',
    messages: [{ role: 'user', content: 'x' }],
  })
  expect(answer.status).toBe(200)
  agent.kill('SIGTERM')
  expect(await agent.exited).toBe(0)
  expect(await new Response(agent.stderr).text()).not.toContain('MARK')
  locked.stop()
})

test('§8: kill -9 under 100 streams: they end with node_lost, nothing stays counted, new requests go elsewhere', async () => {
  const { enrollment_token: token } = await enrollmentToken(first, customer.customerId)
  const killed = await start(itself, ['--gateway', first.url, '--token', token], join(folder, 'killed'))
  await untilState(first, killed.nodeId, 'ready')
  server.setAnswer({ chunks: 2_000, intervalMs: 100 })
  const readers = await Promise.all(
    Array.from({ length: 100 }, async () => {
      const body = { model: 'm-1', stream: true, messages: [{ role: 'user', content: 'x' }] }
      const reader = new EventStreamReader(await first.chat(customer.key, body))
      await reader.chunk()
      return reader
    }),
  )
  expect((await nodeOf(first, killed.nodeId)).in_flight).toBe(100)
  const elsewhere = startFakeNode({ models: ['m-1'], name: 'elsewhere-', answer: { chunks: 1 } })
  const spare = await first.node(elsewhere.url, { customerId: customer.customerId })

  killed.child.kill('SIGKILL')
  await Promise.all(readers.map((reader) => reader.rest()))
  for (const { text } of readers) {
    expect(text).toContain('"code":"node_lost"')
    expect(text).not.toContain('[DONE]')
  }
  expect(await nodeOf(first, killed.nodeId)).toMatchObject({ state: 'stale', in_flight: 0, transport: null })
  const answer = await first.chat(customer.key, { model: 'm-1', messages: [{ role: 'user', content: 'x' }] })
  expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('elsewhere-')])
  await waitFor('the model server works for nobody', () => server.stats().openRequests === 0)

  server.setAnswer({ chunks: 1, intervalMs: 0 })
  await first.admin('DELETE', `/v1/admin/nodes/${spare}`)
  await first.admin('DELETE', `/v1/admin/nodes/${killed.nodeId}`)
  elsewhere.stop()
})

test('§26: a revocation at another gateway cuts the tunnel here', async () => {
  const running = await start(command)
  await untilState(first, running.nodeId, 'ready')
  await second.admin('POST', `/v1/admin/nodes/${running.nodeId}/revoke`)
  await waitFor('the other gateway to follow', async () => (await ask()) === 404)
  expect(await nodeOf(first, running.nodeId)).toMatchObject({ state: 'revoked', transport: null })
  running.child.kill('SIGTERM')
  await running.child.exited
})
