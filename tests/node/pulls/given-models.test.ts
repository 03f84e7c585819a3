import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { headers } from '../../../src/brand.ts'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { createTurn } from '../../../src/node/pulls/turns.ts'
import { readModels } from '../../../src/node/servers/models-reading.ts'
import { nodeSleepPath } from '../../../src/protocol/wire/nodes/agent.ts'
import { type GivenFiles, nodeFileBytesPath, nodeFilesPath } from '../../../src/protocol/wire/nodes/pulls.ts'
import { pausedAnswer } from '../../support/clients/paused-client.ts'
import { type LoneAgent, startLoneAgent } from '../../support/nodes/lone-agent.ts'
import { modelFolder, scriptModel } from '../../support/nodes/model-files.ts'
import { sha256 } from '../../support/nodes/model-hub.ts'
import { stopwatch } from '../../support/run/stopwatch.ts'
import { waitFor } from '../../support/run/wait-until.ts'

const whole = Buffer.alloc(300_000, 'weights ')
const undo: (() => unknown)[] = []
let weights = ''
beforeEach(() => {
  const dir = mkdtempSync(join(tmpdir(), 'penstock-weights-'))
  undo.push(() => rmSync(dir, { recursive: true, force: true }))
  weights = join(dir, 'tiny.gguf')
  writeFileSync(weights, whole)
})
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

async function agentWith(more: Parameters<typeof startLoneAgent>[0] = {}): Promise<LoneAgent> {
  const folder = modelFolder({
    memory_mb: 20_000,
    models: [
      scriptModel('tiny', {}, { files: [{ path: weights }], profiles: [{ id: 'tiny:brief' }] }),
      scriptModel('named', {}, { files: [{ path: weights, sha256: 'b'.repeat(64) }] }),
      scriptModel('moved', {}, { files: [{ path: join(weights, '..', 'none.gguf') }] }),
      scriptModel('kept'),
    ],
  })
  const agent = await startLoneAgent({ givesModels: true, dataDir: folder.path, ...more })
  undo.push(folder.remove, () => agent.remove())
  return agent
}
const filesOf = (agent: LoneAgent, model: string) => agent.call('POST', nodeFilesPath, { model })
const bytesOf = (agent: LoneAgent, more: object = {}, init: object = {}) =>
  agent.call('POST', nodeFileBytesPath, { model: 'tiny', file: 0, from: 0, ...more }, init)
const codeOf = async (answer: Response) => [answer.status, ((await answer.json()) as { code: string }).code]
const listed = (agent: LoneAgent, model: string) =>
  waitFor('the hash', async () => {
    const answer = await filesOf(agent, model)
    return answer.status === 202 ? null : ((await answer.json()) as GivenFiles)
  })

test('§39: an agent gives the files that models.json names, by any name of the model, with the hash of their bytes', async () => {
  const agent = await agentWith()
  const file = { name: 'tiny.gguf', bytes: whole.length }
  expect(await listed(agent, 'tiny')).toEqual({ files: [{ ...file, sha256: sha256(whole) }] })
  expect(await listed(agent, 'tiny:brief')).toEqual({ files: [{ ...file, sha256: sha256(whole) }] })
  // What the hub said is passed on: a file that was changed since is refused by who gets it.
  expect(await listed(agent, 'named')).toEqual({ files: [{ ...file, sha256: 'b'.repeat(64) }] })
  const part = await bytesOf(agent, { from: 10, to: 19 })
  expect([part.status, part.headers.get('content-range')]).toEqual([206, `bytes 10-19/${whole.length}`])
  expect(Buffer.from(await part.bytes())).toEqual(whole.subarray(10, 20))
  expect(Buffer.from(await (await bytesOf(agent, { from: 7 })).bytes())).toEqual(whole.subarray(7))
  writeFileSync(weights, whole.subarray(0, 1_000))
  expect(await listed(agent, 'tiny')).toMatchObject({
    files: [{ bytes: 1_000, sha256: sha256(whole.subarray(0, 1_000)) }],
  })
})

test('§39: nothing else leaves the computer, and nothing without its owner and the gateway', async () => {
  const agent = await agentWith()
  expect(await codeOf(await filesOf(agent, 'kept'))).toEqual([409, 'invalid_state'])
  expect(await codeOf(await filesOf(agent, 'moved'))).toEqual([409, 'invalid_state'])
  expect(await codeOf(await filesOf(agent, 'none'))).toEqual([404, 'model_not_found'])
  for (const more of [{ file: 1 }, { from: whole.length }, { from: -1 }, { path: '/etc/passwd' }])
    expect((await bytesOf(agent, more)).status).toBe(400)
  for (const path of [nodeFilesPath, nodeFileBytesPath]) {
    const init = { method: 'POST', body: JSON.stringify({ model: 'tiny', file: 0, from: 0 }) }
    expect((await fetch(agent.node.url + path, init)).status).toBe(401)
    const own = { authorization: `Bearer ${agent.localToken}` }
    expect((await fetch(agent.node.url + path, { ...init, headers: own })).status).toBe(401)
  }
  const shy = await agentWith({ givesModels: false })
  expect(await codeOf(await filesOf(shy, 'tiny'))).toEqual([409, 'invalid_state'])
  expect(await codeOf(await bytesOf(shy))).toEqual([409, 'invalid_state'])
})

test('§39: models.json with files that are no absolute paths is refused with line and field', () => {
  const file = (files: unknown) =>
    JSON.stringify({ memory_mb: 9, models: [{ id: 'a', command: ['a'], memory_mb: 1, files }] })
  expect(readModels('models.json', file([{ path: '/a.gguf' }])).models).toHaveLength(1)
  expect(() => readModels('models.json', file([{ path: 'a.gguf' }]))).toThrow(
    'models[0].files[0].path must begin with /',
  )
  for (const wrong of [[], [{ path: '/a', sha256: 'x' }], Array.from({ length: 65 }, () => ({ path: '/a' }))])
    expect(() => readModels('models.json', file(wrong))).toThrow('files')
})

test('§39: at most 4 files leave at once, one that is left makes room, and the computer does not sleep meanwhile', async () => {
  // Larger than the sockets hold: the answers stay open until somebody reads them.
  truncateSync(weights, 64 * 1024 * 1024)
  const agent = await agentWith({ power: { suspendCommand: 'true' } })
  const asked = JSON.stringify({ model: 'tiny', file: 0, from: 0 })
  const begun = () => {
    const signature = agent.signature('POST', nodeFileBytesPath, asked)
    const sent = { 'content-type': 'application/json', [headers.routerSignature]: signature }
    return pausedAnswer(agent.node.url + nodeFileBytesPath, sent, asked)
  }
  const open = await Promise.all(Array.from({ length: 4 }, () => begun()))
  expect(open.map(({ status }) => status)).toEqual([206, 206, 206, 206])
  expect(await codeOf(await bytesOf(agent))).toEqual([429, 'capacity_exhausted'])
  expect((await agent.call('POST', nodeSleepPath, {})).status).toBe(409)
  for (const each of open) each.leave()
  await waitFor('room', async () => {
    const answer = await bytesOf(agent, { to: 9 })
    return answer.status === 206 && (await answer.bytes()).length === 10
  })
  await waitFor('rest', async () => (await agent.call('POST', nodeSleepPath, {})).status === 202)
  // What falls asleep gives nothing more.
  expect(await codeOf(await bytesOf(agent))).toEqual([503, 'runtime_unavailable'])
})

test('§39: a file that becomes shorter while it is sent ends early', async () => {
  truncateSync(weights, 64 * 1024 * 1024)
  const agent = await agentWith()
  const answer = await bytesOf(agent)
  const reader = answer.body?.getReader()
  await reader?.read()
  truncateSync(weights, 10)
  let bytes = 0
  const rest = async () => {
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true, value: undefined }
      if (done) return
      bytes += value?.length ?? 0
    }
  }
  await rest().catch(() => {})
  expect(bytes).toBeLessThan(64 * 1024 * 1024 - 1)
})

test('§39: a piece waits while somebody waits for a first token, and not for ever', async () => {
  let awaited = true
  let looks = 0
  const turn = createTurn(() => {
    looks++
    if (looks === 3) awaited = false
    return awaited
  })
  const { signal } = new AbortController()
  await turn(signal)
  expect(looks).toBe(3)
  let more = 0
  await createTurn(() => {
    more++
    return true
  })(signal)
  expect(more).toBe(25)
  await createTurn(() => true)(AbortSignal.abort())
})

test('§39: an agent slows a file down while a chat of its computer waits for its first token, and no longer', async () => {
  const server = startFakeNode({ models: ['chat'] })
  undo.push(() => server.stop())
  const agent = await agentWith({ runtimes: [server.url] })
  const body = { model: 'chat', stream: true, messages: [{ role: 'user', content: 'hi' }] }
  await waitFor('the model', async () => {
    const answer = await agent.call('POST', '/v1/chat/completions', { ...body, max_tokens: 1 })
    await answer.text()
    return answer.status === 200
  })
  server.setAnswer({ firstTokenMs: 3_600_000 })
  const leaving = new AbortController()
  const arrived = server.nextRequest()
  const chat = agent.call('POST', '/v1/chat/completions', body, { signal: leaving.signal })
  await arrived
  const tookMs = stopwatch()
  expect((await (await bytesOf(agent)).bytes()).length).toBe(whole.length)
  // Five pieces, each of which waited.
  expect(tookMs()).toBeGreaterThan(5 * 200)
  leaving.abort()
  await chat.catch(() => {})
})
