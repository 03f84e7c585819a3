import { afterEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { x25519 } from '@noble/curves/ed25519.js'
import { Value } from '@sinclair/typebox/value'
import { headers } from '../../src/brand.ts'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { openPrivateFolder } from '../../src/host/private-files.ts'
import { loadTransportKeys, transportKeyTimes } from '../../src/node/commands/transport-keys.ts'
import { fromBase64url, toBase64url } from '../../src/protocol/signing/base64url.ts'
import { keyIdOf, signingKey, verifyKey } from '../../src/protocol/signing/ed25519.ts'
import { newNonce, statusMessage, transportKeyMessage } from '../../src/protocol/signing/signatures.ts'
import { EnrollRequest, NodeStatus } from '../../src/protocol/wire/nodes/agent.ts'
import { dayMs } from '../../src/time.ts'
import { type LoneAgent, startEnrollingGateway, startLoneAgent } from '../support/nodes/lone-agent.ts'
import { statusHeaders } from '../support/nodes/status-headers.ts'

const undo: (() => unknown)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})
function folderPath(): string {
  const path = mkdtempSync(join(tmpdir(), 'penstock-node-'))
  undo.push(() => rmSync(path, { recursive: true, force: true }))
  return path
}
async function started(...args: Parameters<typeof startLoneAgent>): Promise<LoneAgent> {
  const agent = await startLoneAgent(...args)
  undo.push(() => agent.remove())
  return agent
}
async function statusOf(agent: LoneAgent, nonce = newNonce()): Promise<NodeStatus> {
  const response = await agent.call('GET', '/svc/v1/status', null, { headers: statusHeaders(nonce) })
  expect(response.status).toBe(200)
  return (await response.json()) as NodeStatus
}
const failure = (work: Promise<unknown>) =>
  work.then(
    () => 'no failure',
    (error: Error) => `${error.name}: ${error.message}`,
  )

describe('§22: enrolment', () => {
  test('the request is what the schema says, and signed', async () => {
    const agent = await started({ visibility: 'private', payoutAddress: `0x${'1'.repeat(40)}` })
    const [request] = agent.gateway.requests
    expect([...Value.Errors(EnrollRequest, request)]).toEqual([])
    expect(agent.gateway.badSignatures).toBe(0)
    expect(request?.enrollment_token).toBe('svc_enroll_test')
    expect(request?.transport_keys.map(({ state }) => state)).toEqual(['active'])
  })

  test('a gateway that does not say which members it takes of a status gets those that all gateways know', async () => {
    const server = startFakeNode({ models: ['m-1'], speaks: 'llama.cpp', slots: 2 })
    undo.push(() => server.stop())
    const agent = await started({ runtimes: [server.url] })
    const all = await statusOf(agent)
    const response = await agent.call('GET', '/svc/v1/status', null, { headers: { [headers.statusNonce]: newNonce() } })
    const { signature_ed25519: _, ...few } = (await response.json()) as NodeStatus
    expect(Object.keys(all)).toContain('sealed_keys')
    expect(all.runtimes.map(({ kind }) => kind)).toContain('llama.cpp')
    const runtimes = all.runtimes.map(({ runtime_id, kind, state, models, slots_total, slots_free, queue_depth }) => ({
      ...{ runtime_id, kind, state, slots_total, slots_free, queue_depth },
      models: models.map(({ id, modality, ready, loaded, context_length }) => {
        return { id, modality, ready, loaded, context_length }
      }),
    }))
    const { node_id, transport_keys } = all
    expect(few).toEqual({ node_id, sent_at: few.sent_at, runtimes, transport_keys })
  })

  test('a restart is the same node, with the same keys and runtimes, and needs no token', async () => {
    const server = startFakeNode({ models: ['m-1'] })
    undo.push(() => server.stop())
    const first = await started({ runtimes: [server.url] })
    const before = await statusOf(first)
    await first.stop()
    const { gateway, dataDir } = first
    const again = await startLoneAgent({ gateway, dataDir, runtimes: [`${server.url}/v1/`], token: '' })
    undo.push(() => again.stop())
    const after = await statusOf(again)
    expect(gateway.requests.length).toBe(1)
    expect(again.node.nodeId).toBe(first.node.nodeId)
    expect(again.node.fingerprint).toBe(first.node.fingerprint)
    expect(after.transport_keys).toEqual(before.transport_keys)
    expect(after.runtimes.map(({ runtime_id }) => runtime_id)).toEqual(
      before.runtimes.map(({ runtime_id }) => runtime_id),
    )
  })

  test('faults of the set-up are said in words, and a refused first start leaves no enrolment behind', async () => {
    const gateway = startEnrollingGateway()
    undo.push(() => gateway.stop())
    const dataDir = folderPath()
    const attempt = (more: object) => failure(startLoneAgent({ gateway, dataDir, ...more }))
    expect(await attempt({ gatewayUrl: 'http://gateway.example' })).toContain('--insecure')
    expect(await attempt({ gatewayUrl: 'ftp://gateway.example' })).toContain('--gateway must be')
    expect(await attempt({ gatewayUrl: 'https://u:p@gateway.example' })).toContain('must not contain a password')
    expect(await attempt({ gatewayUrl: 'http://127.0.0.1:1' })).toContain('does not answer')
    expect(await attempt({ token: undefined })).toContain('--token beside --gateway')
    expect(await attempt({ gatewayUrl: undefined })).toContain('--gateway beside --token')
    expect(await attempt({ runtimes: ['nonsense'] })).toContain('--runtime')
    gateway.refuse(401, { code: 'enrollment_token_invalid', title: 'The enrolment token is not valid' })
    expect(await attempt({})).toBe(
      'NodeStartError: The gateway refused the enrolment: The enrolment token is not valid (enrollment_token_invalid)',
    )
    expect(readdirSync(dataDir)).not.toContain('enrollment.json')
  })

  test('an agent that was once allowed a gateway without TLS need not be told again', async () => {
    const agent = await started({ insecure: true })
    await agent.stop()
    const { gateway, dataDir } = agent
    const file = join(dataDir, 'enrollment.json')
    const stored = JSON.parse(readFileSync(file, 'utf8')) as { insecure?: boolean }
    expect(stored.insecure).toBe(true)
    // As if the gateway were another computer of the house.
    const elsewhere = { ...stored, gateway_url: 'http://gateway.example', tunnel_url: 'ws://gateway.example/t' }
    writeFileSync(file, JSON.stringify(elsewhere))
    const again = await startLoneAgent({ gateway, dataDir, gatewayUrl: 'http://gateway.example', token: '' })
    undo.push(() => again.stop())
    await again.stop()
    writeFileSync(file, JSON.stringify({ ...elsewhere, insecure: undefined }))
    const refused = await failure(startLoneAgent({ gateway, dataDir, gatewayUrl: 'http://gateway.example', token: '' }))
    expect(refused).toContain('--insecure')
  })

  test('a folder of another gateway is not taken over', async () => {
    const agent = await started()
    await agent.stop()
    const other = startEnrollingGateway()
    undo.push(() => other.stop())
    const { dataDir } = agent
    expect(await failure(startLoneAgent({ gateway: other, dataDir }))).toContain('another gateway')
    expect(other.requests.length).toBe(0)
  })

  test('a damaged file is said, not replaced', async () => {
    const agent = await started()
    await agent.stop()
    const { gateway, dataDir } = agent
    for (const name of ['identity.json', 'transport-keys.json', 'enrollment.json', 'runtimes.json']) {
      const whole = readFileSync(join(dataDir, name), 'utf8')
      for (const broken of ['{', '{}']) {
        writeFileSync(join(dataDir, name), broken)
        expect(await failure(startLoneAgent({ gateway, dataDir }))).toContain(`${name} is damaged`)
      }
      writeFileSync(join(dataDir, name), whole)
    }
  })
})

test('§22: the folder is closed to others, and holds nothing of what was asked or answered', async () => {
  const server = startFakeNode({ models: ['m-1'], name: 'OUTPUT-MARK-' })
  undo.push(() => server.stop())
  const agent = await started({ runtimes: [server.url] })
  const messages = [{ role: 'user', content: 'PROMPT-MARK' }]
  for (const stream of [true, false]) {
    const response = await agent.call('POST', '/v1/chat/completions', { model: 'm-1', messages, stream })
    expect(await response.text()).toContain('OUTPUT-MARK-')
  }
  await agent.call('POST', '/v1/rerank', { model: 'lexical/bm25', query: 'PROMPT-MARK', documents: ['PROMPT-MARK'] })
  await agent.call('POST', '/v1/chat/completions', { model: 'PROMPT-MARK', messages })
  await agent.stop()
  const { dataDir } = agent
  expect(statSync(dataDir).mode & 0o777).toBe(0o700)
  const names = readdirSync(dataDir).sort()
  expect(names).toEqual([
    'agent.lock',
    'enrollment.json',
    'identity.json',
    'local-token.json',
    'runtimes.json',
    'sealed-keys.json',
    'sealed-replays.bin',
    'transport-keys.json',
  ])
  for (const name of names) {
    expect(statSync(join(dataDir, name)).mode & 0o777).toBe(0o600)
    expect(readFileSync(join(dataDir, name), 'utf8')).not.toMatch(/MARK|svc_enroll_/)
  }
  const log = agent.log()
  expect(log).toContain('"route":"/v1/chat/completions"')
  // Neither content nor secrets nor addresses.
  expect(log).not.toMatch(/MARK|svc_enroll_|svc_local_/)
  expect(log).not.toContain(`:${new URL(server.url).port}`)
})

describe('§22: status', () => {
  test('is signed over the gateway’s nonce and names runtimes, models and keys', async () => {
    const server = startFakeNode({ models: ['m-1', 'm-2'], speaks: 'llama.cpp', slots: 3 })
    undo.push(() => server.stop())
    const agent = await started({ runtimes: [server.url] })
    const nonce = newNonce()
    const status = await statusOf(agent, nonce)
    expect([...Value.Errors(NodeStatus, status)]).toEqual([])
    const nodeId = agent.node.nodeId ?? ''
    const holds = (given: object, over = nonce) =>
      agent.identity.verify(statusMessage(nodeId, over, given), status.signature_ed25519)
    expect(holds(status)).toBe(true)
    expect(holds(status, newNonce())).toBe(false)
    expect(holds({ ...status, runtimes: [] })).toBe(false)
    const chat = status.runtimes.find(({ kind }) => kind === 'llama.cpp')
    expect(chat?.models.map(({ id, modality, ready }) => [id, modality, ready])).toEqual([
      ['m-1', 'chat', true],
      ['m-2', 'chat', true],
    ])
    expect([chat?.slots_total, chat?.slots_free]).toEqual([3, 3])
    const built = status.runtimes.find(({ models }) => models.some(({ modality }) => modality === 'rerank'))
    expect(built?.models[0]?.id).toBe('lexical/bm25')
    const [key] = status.transport_keys
    if (key === undefined) throw new Error('no transport key')
    expect(agent.identity.verify(transportKeyMessage(key), key.signature_ed25519)).toBe(true)
  })

  test('a runtime that goes and comes back, and one that stops being ready, are told at once', async () => {
    const server = startFakeNode({ models: ['m-1'] })
    undo.push(() => server.stop())
    const times = { pollMs: 20, pollTimeoutMs: 15_000, connectTimeoutMs: 15_000 }
    const agent = await started({ runtimes: [server.url], runtimeTimes: times })
    const runtime = () => agent.node.runtimes.list().find(({ transport }) => transport !== null)
    const changed = () => {
      const { promise, resolve } = Promise.withResolvers<void>()
      const end = agent.node.runtimes.onChange(() => {
        end()
        resolve()
      })
      return promise
    }
    expect(runtime()?.state).toBe('ready')
    const gone = changed()
    server.setFaults({ kind: 'refuse' })
    await gone
    expect([runtime()?.state, runtime()?.models[0]?.ready]).toEqual(['down', false])
    const back = changed()
    server.clearFaults()
    await back
    expect(runtime()?.state).toBe('ready')
    const more = changed()
    server.setModels(['m-1', 'm-2'])
    await more
    expect(runtime()?.models.map(({ id }) => id)).toEqual(['m-1', 'm-2'])
  })
})

describe('§10: transport keys', () => {
  const identity = signingKey(crypto.getRandomValues(new Uint8Array(32)))
  const { rotateMs, overlapMs } = transportKeyTimes
  const startMs = 1_795_190_400_000

  test('rotate after 90 days, overlap 7 days, and then their secret is gone', () => {
    expect([rotateMs, overlapMs]).toEqual([90 * dayMs, 7 * dayMs])
    const folder = openPrivateFolder(folderPath())
    let nowMs = startMs
    const keys = loadTransportKeys({ folder, identity, now: () => nowMs })
    const states = () => keys.published().map(({ state }) => state)
    const [first] = keys.published()
    expect(states()).toEqual(['active'])
    nowMs = startMs + rotateMs - 1
    expect(states()).toEqual(['active'])
    nowMs = startMs + rotateMs
    expect(states()).toEqual(['active', 'retiring'])
    expect(keys.secretKey(first?.key_id ?? '')).not.toBeNull()
    nowMs = startMs + rotateMs + overlapMs
    expect(states()).toEqual(['active', 'revoked'])
    expect(keys.secretKey(first?.key_id ?? '')).toBeNull()
    nowMs = startMs + 10 * rotateMs
    expect(states()).toEqual(['active', 'revoked', 'revoked'])
    const stored = JSON.stringify(folder.read('transport-keys.json'))
    expect(stored.match(/"secret_key_x25519":"/g)?.length).toBe(1)
  })

  test('each is what it says: its id, its pair, its signature; and they outlive the process', () => {
    const folder = openPrivateFolder(folderPath())
    const load = () => loadTransportKeys({ folder, identity, now: () => startMs })
    const [key] = load().published()
    if (key === undefined) throw new Error('no key')
    const publicKey = fromBase64url(key.public_key_x25519, 32) ?? new Uint8Array()
    expect(keyIdOf(publicKey)).toBe(key.key_id)
    const secret = load().secretKey(key.key_id) ?? new Uint8Array()
    expect(toBase64url(x25519.getPublicKey(secret))).toBe(key.public_key_x25519)
    const signer = verifyKey(identity.publicKey)
    expect(signer?.verify(transportKeyMessage(key), key.signature_ed25519)).toBe(true)
    expect(signer?.verify(transportKeyMessage({ ...key, state: 'revoked' }), key.signature_ed25519)).toBe(false)
    expect(load().published()).toEqual([key])
    expect(load().secretKey('AAAAAAAAAAAAAAAAAAAAAA')).toBeNull()
  })
})
