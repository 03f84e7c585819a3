import { afterEach, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { headers } from '../../src/brand.ts'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { createLog } from '../../src/log.ts'
import { type RunningNode, startNode } from '../../src/node/main.ts'
import type { NodeOptions } from '../../src/node/node-options.ts'
import { newToken } from '../../src/secrets.ts'
import { postJson } from '../support/clients/post-json.ts'
import { startEnrollingGateway } from '../support/nodes/lone-agent.ts'

const undo: (() => unknown)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})
function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'penstock-node-'))
  undo.push(() => rmSync(path, { recursive: true, force: true }))
  return path
}
async function agent(dataDir: string, more: Partial<NodeOptions> = {}): Promise<RunningNode> {
  const log = createLog('silent', () => {})
  const address = { hostname: '127.0.0.1', port: 0 }
  const node = await startNode({ ...address, dataDir, runtimes: [], discover: false, graceMs: 200, log, ...more })
  undo.push(() => node.stop())
  return node
}
const localToken = (dataDir: string) =>
  (JSON.parse(readFileSync(join(dataDir, 'local-token.json'), 'utf8')) as { local_token: string }).local_token
const post = (node: RunningNode, path: string, authorization: string, body: object) =>
  postJson(node.url + path, authorization, body)

const ranking = { model: 'lexical/bm25', query: 'capital of France', documents: ['Berlin, Germany', 'Paris, France'] }
const chat = { model: 'm-1', messages: [{ role: 'user', content: 'x' }] }

test('§12: a fresh machine that belongs to no gateway ranks and chats for its own token', async () => {
  const server = startFakeNode({ models: ['m-1'], answer: { chunks: 2 } })
  undo.push(() => server.stop())
  const dataDir = folder()
  const node = await agent(dataDir, { runtimes: [server.url] })
  expect([node.nodeId, node.tunnel]).toEqual([null, null])
  const token = localToken(dataDir)
  const ranked = await post(node, '/v1/rerank', token, ranking)
  expect([ranked.status, ((await ranked.json()) as { results: { index: number }[] }).results[0]?.index]).toEqual([
    200, 1,
  ])
  const answer = (await (await post(node, '/v1/chat/completions', token, chat)).json()) as Record<string, object>
  expect(answer.svc).not.toHaveProperty('receipt_hash')
  expect(answer.choices).toMatchObject([{ message: { content: 'fake-0 fake-1 ' } }])
  const stream = await post(node, '/v1/chat/completions', token, { ...chat, stream: true })
  expect((await stream.text()).trimEnd().endsWith('data: [DONE]')).toBe(true)
})

test('§12: there nobody else gets in: no gateway has a key or a signature that counts', async () => {
  const node = await agent(folder())
  const refused = await post(node, '/v1/rerank', newToken('gateway'), ranking)
  expect([refused.status, ((await refused.json()) as { code: string }).code]).toEqual([401, 'invalid_credentials'])
  const status = await fetch(`${node.url}/svc/v1/status`, { headers: { [headers.routerSignature]: 'kid=x' } })
  expect([status.status, ((await status.json()) as { code: string }).code]).toEqual([401, 'invalid_credentials'])
})

test('§22: it enrols later, as the same machine with the same local token', async () => {
  const dataDir = folder()
  const alone = await agent(dataDir)
  const { fingerprint } = alone
  const token = localToken(dataDir)
  await alone.stop()
  const gateway = startEnrollingGateway()
  undo.push(() => gateway.stop())
  const node = await agent(dataDir, { gatewayUrl: gateway.url, token: 'svc_enroll_test' })
  expect(node.nodeId).toMatch(/^node_/)
  expect(node.fingerprint).toBe(fingerprint)
  expect((await post(node, '/v1/rerank', token, ranking)).status).toBe(200)
})

test('§22: one folder is one agent: a second one is told so, and comes up when the first has ended', async () => {
  const dataDir = folder()
  const first = await agent(dataDir)
  const second = await agent(dataDir).catch((error: Error) => error)
  expect(String(second)).toContain('Another agent uses')
  await first.stop()
  expect((await agent(dataDir)).nodeId).toBeNull()
})

test('a port that is taken is said, and the folder is free again', async () => {
  const first = await agent(folder())
  const dataDir = folder()
  const failed = await agent(dataDir, { port: first.port }).catch((error: Error) => error)
  expect(String(failed)).toContain(`Port ${first.port} is in use`)
  expect((await agent(dataDir)).nodeId).toBeNull()
})

test('§22: a model server that asks for a key gets it from the agent, and nobody else sees it', async () => {
  const apiKey = 'sk-runtime-MARK'
  const server = startFakeNode({ models: ['m-1'], apiKey })
  undo.push(() => server.stop())
  const without = folder()
  const keyless = await agent(without, { runtimes: [server.url] })
  expect((await post(keyless, '/v1/chat/completions', localToken(without), chat)).status).toBe(502)
  const dataDir = folder()
  const node = await agent(dataDir, { runtimeKeys: [{ url: `${server.url}/v1/`, apiKey }] })
  const answer = await post(node, '/v1/chat/completions', localToken(dataDir), chat)
  expect(answer.status).toBe(200)
  expect(await answer.text()).not.toContain('MARK')
  for await (const name of new Bun.Glob('**').scan({ cwd: dataDir, dot: true })) {
    expect(readFileSync(join(dataDir, name), 'utf8')).not.toContain('MARK')
  }
})
