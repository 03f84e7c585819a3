import { expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { localCustomerId } from '../../src/actors/accounts/first-start.ts'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import { start } from '../../src/main.ts'
import { prepareFolder } from '../support/run/prepared-folder.ts'

interface NodeRow {
  readonly node_id: string
  readonly name: string
  readonly url: string
  readonly origin: string
  readonly state: string
}

/** On the first of the discovered ports that is free here. */
function runtimeOnKnownPort(): FakeNode {
  for (const port of [8000, 8080, 1234, 11434]) {
    try {
      return startFakeNode({ port, models: ['found'] })
    } catch {
      // Somebody's own model server.
    }
  }
  throw new Error('every port that discovery looks at is taken')
}

async function nodesOf(dataDir: string): Promise<{ url: string; token: string; nodes: NodeRow[] }> {
  const { base_url: url, admin_token: token } = JSON.parse(readFileSync(join(dataDir, 'credentials.json'), 'utf8'))
  const response = await fetch(`${url}/v1/admin/nodes`, { headers: { 'x-svc-admin-token': token } })
  return { url, token, nodes: ((await response.json()) as { nodes: NodeRow[] }).nodes }
}

test('§22: a runtime on loopback is found and takes the demo’s place; one that was revoked stays away', async () => {
  const dataDir = await prepareFolder(mkdtempSync(join(tmpdir(), 'penstock-discovery-')))
  const env = { SVC_DATA_DIR: dataDir, SVC_PORT: '0', SVC_LOG_LEVEL: 'silent' }
  const runtime = runtimeOnKnownPort()
  try {
    const first = await start(env, { quiet: true })
    const seen = await nodesOf(dataDir)
    const found = seen.nodes.filter(({ state }) => state === 'ready')
    expect(found.map(({ origin, name }) => [origin, name])).toContainEqual(['discovered', 'openai'])
    expect(found.filter(({ origin }) => origin === 'demo')).toEqual([])
    for (const { node_id: nodeId } of found) {
      const headers = { 'x-svc-admin-token': seen.token }
      const revoked = await fetch(`${seen.url}/v1/admin/nodes/${nodeId}/revoke`, { method: 'POST', headers })
      expect(revoked.status).toBe(200)
    }
    await first.stop()
    const second = await start(env, { quiet: true })
    const after = (await nodesOf(dataDir)).nodes.map(({ origin, state }) => [origin, state]).toSorted()
    expect(after).toEqual([['demo', 'ready'], ...found.map(() => ['discovered', 'revoked'])])
    await second.stop()
  } finally {
    runtime.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
})

test('§22: a node whose URL ends with /v1 is the server that discovery finds: the gateway starts, and none comes twice', async () => {
  const dataDir = await prepareFolder(mkdtempSync(join(tmpdir(), 'penstock-discovery-')))
  const env = { SVC_DATA_DIR: dataDir, SVC_PORT: '0', SVC_LOG_LEVEL: 'silent', SVC_DEMO: 'never' }
  const runtime = runtimeOnKnownPort()
  const ofRuntime = async () => {
    const { nodes } = await nodesOf(dataDir)
    return nodes.filter(({ url }) => url.startsWith(runtime.url)).map(({ origin, state }) => [origin, state])
  }
  try {
    const first = await start({ ...env, SVC_DISCOVER: 'false' }, { quiet: true })
    const { url, token } = await nodesOf(dataDir)
    const headers = { 'x-svc-admin-token': token, 'content-type': 'application/json' }
    const kind = { visibility: 'private', node_class: 'local', privacy_class: 'private' }
    const body = JSON.stringify({ customer_id: localCustomerId, url: `${runtime.url}/v1`, ...kind })
    const made = await fetch(`${url}/v1/admin/nodes`, { method: 'POST', headers, body })
    expect(made.status).toBe(201)
    const { node_id: nodeId } = (await made.json()) as NodeRow
    await first.stop()
    const second = await start(env, { quiet: true })
    expect(await ofRuntime()).toEqual([['operator', 'ready']])
    const revoke = `${(await nodesOf(dataDir)).url}/v1/admin/nodes/${nodeId}/revoke`
    expect((await fetch(revoke, { method: 'POST', headers })).status).toBe(200)
    await second.stop()
    const third = await start(env, { quiet: true })
    expect(await ofRuntime()).toEqual([['operator', 'revoked']])
    await third.stop()
  } finally {
    runtime.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
})
