import { afterEach, expect, test } from 'bun:test'
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { serversFile } from '../../../src/node/servers/stored-servers.ts'
import { startLoneAgent } from '../../support/nodes/lone-agent.ts'
import { modelFolder, scriptModel } from '../../support/nodes/model-files.ts'
import { waitUntil } from '../../support/run/wait-until.ts'
import { ask, endFolderAgents, folderAgent, modelsOf, said } from './folder-agent.ts'

const begin = folderAgent
afterEach(endFolderAgents)

test('§30: a model that is not in memory is listed as ready and cold, and the first call loads it', async () => {
  const { agent, folder } = await begin({ memory_mb: 80, models: [scriptModel('a')] })
  expect((await modelsOf(agent)).get('a')).toMatchObject({
    ready: true,
    loaded: false,
    loading_since: null,
    memory_mb: 40,
    evicts: false,
    server_state: 'stopped',
  })
  expect(folder.running().size).toBe(0)
  expect(await said(agent, 'a')).toStartWith('a from ')
  expect((await modelsOf(agent)).get('a')).toMatchObject({ ready: true, loaded: true, server_state: 'ready.idle' })
  expect(agent.log()).not.toContain('127.0.0.1')
})

test('§30: many calls for one cold model cause one load, and all of them are answered', async () => {
  const { agent } = await begin({ memory_mb: 80, models: [scriptModel('a', { 'load-ms': '300' })] })
  const answers = Promise.all(Array.from({ length: 20 }, () => said(agent, 'a')))
  await waitUntil('it loads', async () => (await modelsOf(agent)).get('a')?.loading_since != null)
  expect(new Set(await answers).size).toBe(1)
})

test('§30: a stream works as well, after the load', async () => {
  const { agent } = await begin({ memory_mb: 80, models: [scriptModel('a')] })
  const text = await (await ask(agent, 'a', { stream: true })).text()
  expect(text).toContain('a from ')
  expect(text).toEndWith('data: [DONE]\n\n')
})

test('§30: three models in a budget for two: the least recently used one goes, and the sum stays within', async () => {
  const { agent, folder } = await begin({ memory_mb: 80, models: ['a', 'b', 'c'].map((id) => scriptModel(id)) })
  await said(agent, 'a')
  await said(agent, 'b')
  await said(agent, 'a')
  expect((await modelsOf(agent)).get('c')).toMatchObject({ evicts: true })
  await said(agent, 'c')
  expect([...folder.running().keys()].sort()).toEqual(['a', 'c'])
  expect((await modelsOf(agent)).get('b')).toMatchObject({ loaded: false, evicts: true })
})

test('§30: never two of one group, though memory is free', async () => {
  const { agent, folder } = await begin({
    memory_mb: 1_000,
    models: [scriptModel('a', {}, { group: 'gpu' }), scriptModel('b', {}, { group: 'gpu' }), scriptModel('c')],
  })
  for (const id of ['c', 'a', 'b']) await said(agent, id)
  expect([...folder.running().keys()].sort()).toEqual(['b', 'c'])
})

test('§30: one with work is never ended: who needs its memory waits, and is let in after as long as a load takes', async () => {
  const { agent, folder } = await begin({
    memory_mb: 40,
    models: [scriptModel('a', { 'answer-ms': '700' }), scriptModel('b')],
  })
  const long = said(agent, 'a')
  await waitUntil('a works', () => folder.stateOf('a') === 'ready.idle')
  const other = said(agent, 'b')
  expect(await long).toStartWith('a from ')
  expect(await other).toStartWith('b from ')
  expect([...folder.running().keys()]).toEqual(['b'])
})

test('§30: small models do not overtake a large one that waits for room', async () => {
  const { agent, folder } = await begin({
    memory_mb: 80,
    models: [
      scriptModel('a', { 'answer-ms': '1500' }),
      scriptModel('large', { 'answer-ms': '300' }, { memory_mb: 80 }),
      scriptModel('small'),
    ],
  })
  const order: string[] = []
  const asked = (model: string) => said(agent, model).then(() => order.push(model))
  const first = asked('a')
  await waitUntil('a works', () => folder.stateOf('a') === 'ready.idle')
  const large = asked('large')
  await waitUntil('the large one waits', () => folder.stateOf('large') === 'queued')
  // There is room for it beside `a`.
  const small = asked('small')
  await Promise.all([first, large, small])
  expect(order).toEqual(['a', 'large', 'small'])
})

test('§30: a model in use without a pause does not keep another one out', async () => {
  const { agent } = await begin({
    memory_mb: 40,
    models: [scriptModel('a', { 'answer-ms': '50', 'load-ms': '10' }), scriptModel('b', { 'load-ms': '10' })],
  })
  await said(agent, 'b')
  await said(agent, 'a')
  let done = false
  const stream = async () => {
    while (!done) await said(agent, 'a')
  }
  const streams = [stream(), stream(), stream()]
  expect(await said(agent, 'b')).toStartWith('b from ')
  done = true
  await Promise.all(streams)
})

test('§30: a model leaves memory when nobody has used it for its time', async () => {
  const { agent, folder } = await begin({ memory_mb: 80, models: [scriptModel('a', {}, { idle_ttl_s: 1 })] })
  await said(agent, 'a')
  await waitUntil('it has left', () => folder.stateOf('a') === 'stopped')
  expect(folder.running().size).toBe(0)
})

test('§30: a server that is killed is started anew for the next call', async () => {
  const { agent, folder } = await begin({ memory_mb: 80, models: [scriptModel('a')] })
  const before = await said(agent, 'a')
  for (const pid of folder.running().get('a') ?? []) process.kill(pid, 'SIGKILL')
  await waitUntil('the agent knows', () => folder.stateOf('a') === 'failed')
  expect((await ask(agent, 'a')).status).toBe(503)
  await waitUntil('its pause is over', () => folder.stateOf('a') === 'stopped')
  const after = await said(agent, 'a')
  expect(after).toStartWith('a from ')
  expect(after).not.toBe(before)
})

test('§30: a command that dies at once refuses who waits; its last 10 lines stay on this computer', async () => {
  const { agent, folder } = await begin({ memory_mb: 80, models: [scriptModel('a', { 'die-with': '30' })] })
  const response = await ask(agent, 'a')
  expect(response.status).toBe(503)
  // The pause of this test, 300 ms, in whole seconds.
  expect(response.headers.get('retry-after')).toBe('1')
  expect(await response.text()).not.toContain('cannot load')
  const lines = folder.stored().servers[0]?.last_lines ?? []
  expect(lines).toHaveLength(10)
  expect(lines.at(-2)).toBe('cannot load, line 30')
  expect(lines.at(-1)).toBe('[agent] It ended with exit code 1.')
  expect((await modelsOf(agent)).get('a')).toMatchObject({ ready: false, server_state: 'failed' })
  expect(JSON.stringify([...(await modelsOf(agent))])).not.toContain('cannot load')
  expect(agent.log()).not.toContain('cannot load')
})

test('§30: a port that another program holds starts nothing, and no prompt goes there', async () => {
  const heard: string[] = []
  const stranger = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: ({ url }) => {
      heard.push(new URL(url).pathname)
      return Response.json({ object: 'list', data: [{ id: 'a', object: 'model' }] })
    },
  })
  const port = Number(stranger.port)
  const { agent, folder } = await begin({ memory_mb: 80, models: [scriptModel('a', {}, { port })] })
  expect((await ask(agent, 'a')).status).toBe(503)
  expect(folder.stored().servers[0]?.last_lines).toEqual([`[agent] Port ${port} is in use by another program.`])
  expect(folder.running().size).toBe(0)
  await stranger.stop(true)
  expect(heard).toEqual([])
  await waitUntil('its pause is over', () => folder.stateOf('a') === 'stopped')
  expect(await said(agent, 'a')).toStartWith('a from ')
})

test('§30: a file that cannot be written ends no answer; it is said once, and written when that works again', async () => {
  const { agent, folder } = await begin({ memory_mb: 80, models: [scriptModel('a'), scriptModel('b')] })
  folder.running()
  const file = join(folder.path, serversFile)
  rmSync(file)
  mkdirSync(join(file, 'in-the-way'), { recursive: true })
  const before = readdirSync(folder.path).length
  expect(await said(agent, 'a')).toStartWith('a from ')
  expect(await said(agent, 'b')).toStartWith('b from ')
  expect((await modelsOf(agent)).get('b')).toMatchObject({ loaded: true, server_state: 'ready.idle' })
  expect(readdirSync(folder.path).length).toBe(before)
  expect(agent.log().match(/model_servers_not_saved/g)).toHaveLength(1)
  rmSync(file, { recursive: true })
  await said(agent, 'a')
  expect(folder.stateOf('b')).toBe('ready.idle')
})

test('§30: a ranking model that has not said yet how it ranks is away, and not unable', async () => {
  const model = scriptModel('r', { 'mute-ms': '1500' }, { modality: 'rerank' })
  const { agent } = await begin({ memory_mb: 80, models: [model] })
  const rank = () => agent.call('POST', '/v1/rerank', { model: 'r', query: 'q', documents: ['d'] })
  const first = await rank()
  const { code } = (await first.json()) as { code: string }
  expect([first.status, code]).toEqual([503, 'runtime_unavailable'])
  let last = first.status
  await waitUntil('it ranks', async () => {
    last = (await rank()).status
    return last !== 503
  })
  expect(last).toBe(200)
})

test('§30: a server that never answers is given up after its time', async () => {
  const { agent, folder } = await begin({
    memory_mb: 80,
    models: [scriptModel('a', { 'load-ms': '600000' }, { start_timeout_s: 1 })],
  })
  expect((await ask(agent, 'a')).status).toBe(503)
  expect(folder.stateOf('a')).toBe('failed')
  expect(folder.running().size).toBe(0)
})

test('§30: a caller that leaves while a model waits for room loads nothing', async () => {
  const { agent, folder } = await begin({
    memory_mb: 40,
    models: [scriptModel('a', { 'answer-ms': '500' }), scriptModel('b')],
  })
  const long = said(agent, 'a')
  await waitUntil('a works', () => folder.stateOf('a') === 'ready.idle')
  const gone = new AbortController()
  const left = ask(agent, 'b', {}, { signal: gone.signal }).catch(() => 'gone')
  await waitUntil('b waits', () => folder.stateOf('b') === 'queued')
  gone.abort()
  expect(await left).toBe('gone')
  await waitUntil('nobody waits', () => folder.stateOf('b') === 'stopped')
  await long
  expect([...folder.running().keys()]).toEqual(['a'])
})

test('§30: a broken models.json is refused before anything starts', async () => {
  const folder = modelFolder({ memory_mb: 10, models: [scriptModel('a')] })
  const start = startLoneAgent({ dataDir: folder.path })
  await expect(start).rejects.toThrow(`${folder.path}/models.json, line 14`)
  folder.remove()
})

test('§30: the servers end with the agent, also those that ignore the wish', async () => {
  const { agent, folder } = await begin(
    { memory_mb: 80, models: [scriptModel('a', { deaf: '' })] },
    { stopGraceMs: 200 },
  )
  await said(agent, 'a')
  await agent.stop()
  expect(folder.running().size).toBe(0)
})

test('§30: only the gateway asks for a model, by its name alone', async () => {
  const { agent, folder } = await begin({ memory_mb: 80, models: [scriptModel('org/a:q4')] })
  const place = `/svc/v1/models/${encodeURIComponent('org/a:q4')}/load`
  const unsigned = await fetch(agent.node.url + place, {
    method: 'POST',
    headers: { authorization: `Bearer ${agent.localToken}` },
  })
  expect(unsigned.status).toBe(401)
  const logs = { method: 'POST', headers: { authorization: `Bearer ${agent.localToken}` } }
  expect((await fetch(agent.node.url + place.replace(/load$/, 'logs'), logs)).status).toBe(401)
  expect((await agent.call('POST', place, { command: ['touch', '/tmp/owned'] })).status).toBe(400)
  expect((await agent.call('POST', '/svc/v1/models/absent/load')).status).toBe(404)
  expect((await agent.call('POST', '/svc/v1/models/lexical%2Fbm25/load')).status).toBe(409)
  expect(folder.running().size).toBe(0)
  expect((await agent.call('POST', place)).status).toBe(202)
  await waitUntil('it is in memory', () => folder.stateOf('org/a:q4') === 'ready.idle')
  expect((await agent.call('POST', place.replace(/load$/, 'unload'))).status).toBe(202)
  await waitUntil('it has left', () => folder.stateOf('org/a:q4') === 'stopped')
})
