import { expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { start } from '../../src/main.ts'
import { postJson } from '../support/clients/post-json.ts'
import { prepareFolder } from '../support/run/prepared-folder.ts'
import { waitUntil } from '../support/run/wait-until.ts'

interface NodeRow {
  readonly node_id: string
  readonly origin: string
  readonly state: string
}

test('§22: the demo answers until another node has had a model; one that never answers does not end it', async () => {
  const dataDir = await prepareFolder(mkdtempSync(join(tmpdir(), 'penstock-demo-')))
  const env = {
    SVC_DATA_DIR: dataDir,
    SVC_PORT: '0',
    SVC_LOG_LEVEL: 'silent',
    SVC_DISCOVER: 'false',
    SVC_WARM_UP: 'false',
  }
  const once = startFakeNode({ models: ['late'] })
  const { port, url: later } = once
  once.stop()
  let gateway = await start({ ...env, SVC_POLL_INTERVAL_MS: '100' }, { quiet: true })
  const known = JSON.parse(readFileSync(join(dataDir, 'credentials.json'), 'utf8'))
  const headers = { 'x-svc-admin-token': known.admin_token, 'content-type': 'application/json' }
  const nodes = async () => {
    const response = await fetch(`${gateway.url}/v1/admin/nodes`, { headers })
    return ((await response.json()) as { nodes: NodeRow[] }).nodes
  }
  const has = async (origin: string, state: string) =>
    (await nodes()).some((node) => node.origin === origin && node.state === state)
  const demoAnswers = async () => {
    const body = { model: 'demo/wordplay', max_tokens: 1, messages: [{ role: 'user', content: 'hi' }] }
    const response = await postJson(`${gateway.url}/v1/api/chat/completions`, known.gateway_key, body)
    await response.text()
    return response.status
  }
  try {
    const kind = { visibility: 'private', node_class: 'local', privacy_class: 'private' }
    const body = JSON.stringify({ customer_id: known.customer_id, url: later, ...kind })
    expect((await fetch(`${gateway.url}/v1/admin/nodes`, { method: 'POST', headers, body })).status).toBe(201)
    await waitUntil('the dead node was asked', async () =>
      (await nodes()).some(({ origin, state }) => origin === 'operator' && state !== 'ready'),
    )
    expect(await demoAnswers()).toBe(200)
    // Nor at the next start.
    await gateway.stop()
    gateway = await start({ ...env, SVC_POLL_INTERVAL_MS: '100' }, { quiet: true })
    expect(await demoAnswers()).toBe(200)

    const server = startFakeNode({ port, models: ['late'] })
    await waitUntil('it answers', () => has('operator', 'ready'))
    await waitUntil('the demo has gone', async () => !(await nodes()).some(({ origin }) => origin === 'demo'))
    server.stop()
    await gateway.stop()
    gateway = await start(env, { quiet: true })
    expect((await nodes()).map(({ origin }) => origin)).toEqual(['operator'])
  } finally {
    await gateway.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
})
