import { afterEach, expect, test } from 'bun:test'
import { join } from 'node:path'
import { pullSource } from '../../../src/node/pulls/pull-sources.ts'
import { nodeSleepPath } from '../../../src/protocol/wire/nodes/agent.ts'
import { type AgentPulls, nodePullsPath, type Pull } from '../../../src/protocol/wire/nodes/pulls.ts'
import { ggufFile } from '../../support/nodes/gguf-file.ts'
import { type LoneAgent, startLoneAgent } from '../../support/nodes/lone-agent.ts'
import { modelFolder } from '../../support/nodes/model-files.ts'
import { startModelHub } from '../../support/nodes/model-hub.ts'
import { waitFor } from '../../support/run/wait-until.ts'

const undo: (() => unknown)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

const script = join(import.meta.dir, '../../support/nodes/model-server-script.ts')
const pullsOf = async (agent: LoneAgent) =>
  ((await (await agent.call('GET', nodePullsPath, null)).json()) as AgentPulls).pulls

test('§39: a model that the gateway has pulled answers a chat, without a restart of the agent', async () => {
  const hub = startModelHub({ 'tiny-Q4_0.gguf': ggufFile(50_000) })
  const folder = modelFolder({ memory_mb: 20_000, models: [] })
  const agent = await startLoneAgent({
    dataDir: folder.path,
    serverTimes: { healthMs: 10, fileMs: 20 },
    pulls: {
      sources: [`hf=${hub.url}`].flatMap((text) => pullSource(text) ?? []),
      root: join(folder.path, 'models'),
      command: [process.execPath, script, '--model', '{model}', '--port', '{port}'],
    },
  })
  undo.push(folder.remove, hub.stop, () => agent.remove())
  const ordered = await agent.call('POST', nodePullsPath, { ref: 'hf:org/repo', model: 'tiny' })
  expect(ordered.status).toBe(202)
  const { pull_id: id, state } = (await ordered.json()) as Pull
  expect(state).toBe('waiting')
  await waitFor('the model', async () => (await pullsOf(agent)).find(({ pull_id }) => pull_id === id)?.state === 'done')
  const ask = () =>
    agent.call('POST', '/v1/chat/completions', { model: 'tiny', messages: [{ role: 'user', content: 'hi' }] })
  const answer = await waitFor('its answer', async () => {
    const response = await ask()
    return response.status === 200 ? response.text() : null
  })
  expect(answer).toContain('tiny from ')
  expect((await agent.call('POST', `${nodePullsPath}/${id}/cancel`, null)).status).toBe(200)
  expect((await agent.call('POST', `${nodePullsPath}/pull_${'0'.repeat(26)}/cancel`, null)).status).toBe(404)
  for (const body of [{}, { ref: 'git:x' }, { ref: 'hf:a b' }, { ref: 'hf:org/repo', path: '/etc' }])
    expect((await agent.call('POST', nodePullsPath, body)).status).toBe(400)
  expect((await agent.call('POST', nodePullsPath, { ref: 'ollama:tiny' })).status).toBe(409)
  // No program of the computer, and nobody without the gateway's key.
  const url = `${agent.node.url}${nodePullsPath}`
  for (const method of ['GET', 'POST']) expect((await fetch(url, { method })).status).toBe(401)
  expect((await fetch(`${url}/${id}/cancel`, { method: 'POST' })).status).toBe(401)
})

test('§39: a computer that fetches a model is not sent to sleep', async () => {
  const hub = startModelHub({ 'tiny-Q4_0.gguf': ggufFile(50_000) })
  const folder = modelFolder({ memory_mb: 20_000, models: [] })
  const agent = await startLoneAgent({
    dataDir: folder.path,
    power: { suspendCommand: 'true' },
    pulls: {
      sources: [`hf=${hub.url}`].flatMap((text) => pullSource(text) ?? []),
      root: join(folder.path, 'models'),
    },
  })
  undo.push(folder.remove, hub.stop, () => agent.remove())
  hub.fault = { stallAfter: 1_000 }
  const { pull_id: id } = (await (await agent.call('POST', nodePullsPath, { ref: 'hf:org/repo' })).json()) as Pull
  await hub.stalled()
  expect((await agent.call('POST', nodeSleepPath, {})).status).toBe(409)
  const cancelled = await agent.call('POST', `${nodePullsPath}/${id}/cancel`, null)
  expect(((await cancelled.json()) as Pull).state).toBe('cancelled')
  expect((await agent.call('POST', nodeSleepPath, {})).status).toBe(202)
})

test('§39: an agent whose owner names no place, or that has no models.json, fetches nothing', async () => {
  const plain = await startLoneAgent({})
  undo.push(() => plain.remove())
  expect(await pullsOf(plain)).toEqual([])
  const refused = await plain.call('POST', nodePullsPath, { ref: 'hf:org/repo' })
  expect([refused.status, await refused.text()]).toEqual([409, expect.stringContaining('--pull-from')])
  const without = await startLoneAgent({
    pulls: { sources: ['hf'].flatMap((text) => pullSource(text) ?? []), root: '/nowhere' },
  })
  undo.push(() => without.remove())
  expect((await without.call('POST', nodePullsPath, { ref: 'hf:org/repo' })).status).toBe(409)
})
