import { afterEach, describe, expect, test } from 'bun:test'
import { createPeerDoor } from '../../src/actors/tunnels/peer-door.ts'
import { peerProof } from '../../src/actors/tunnels/peer-proof.ts'
import { encodeHead, peerPath } from '../../src/actors/tunnels/peer-transport.ts'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import { sha256Hex } from '../../src/secrets.ts'
import type { TestCustomer, TestGateway } from '../support/gateways/gateway.ts'
import { tcpSwitch } from '../support/gateways/tcp-switch.ts'
import { enrollmentToken, nodeOf, startAgent, type TestAgent, untilState } from '../support/nodes/agents.ts'
import { nodeId, tunnelPair } from '../support/nodes/tunnel-pair.ts'
import { clusterSecret as secret, startPeerGateway } from '../support/peer-gateway.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

async function gatewayOf(publicUrl: string, beside?: TestGateway): Promise<TestGateway> {
  const gateway = await startPeerGateway({ publicUrl, ...(beside === undefined ? {} : { beside }) })
  cleanups.push(() => gateway.stop())
  return gateway
}

const portOf = (gateway: TestGateway) => Number(new URL(gateway.url).port)

interface Pool {
  /** The one that clients ask, and the one in which the agent has dialled. */
  readonly asked: TestGateway
  readonly holder: TestGateway
  readonly way: Awaited<ReturnType<typeof tcpSwitch>>
  readonly agent: TestAgent
  readonly customer: TestCustomer
  readonly server: FakeNode
}

/** Two gateways on one PostgreSQL; the agent's way leads to the holder until it is told otherwise. */
async function pool(): Promise<Pool> {
  const way = await tcpSwitch(0)
  cleanups.push(() => way.stop())
  const publicUrl = `http://127.0.0.1:${way.port}`
  const asked = await gatewayOf(publicUrl)
  const holder = await gatewayOf(publicUrl, asked)
  way.target = portOf(holder)
  const server = startFakeNode({ models: ['m-1'] })
  cleanups.push(() => server.stop())
  const customer = await asked.customer()
  const { enrollment_token: token } = await enrollmentToken(asked, customer.customerId)
  const agent = await startAgent({ gatewayUrl: publicUrl, token, runtimes: [server.url] })
  cleanups.push(() => agent.remove())
  for (const gateway of [asked, holder]) await untilState(gateway, agent.nodeId, 'ready')
  return { asked, holder, way, agent, customer, server }
}

const ask = (gateway: TestGateway, { key }: TestCustomer, more: object = {}) =>
  gateway.chat(key, { model: 'm-1', messages: [{ role: 'user', content: 'hello' }], ...more })

describe('§26: a node that dialled in at another gateway', () => {
  test('whole answers and streams come through the gateway that holds its tunnel', async () => {
    const { asked, holder, agent, customer } = await pool()
    expect((await nodeOf(holder, agent.nodeId)).transport).toBe('tunnel')
    expect((await nodeOf(asked, agent.nodeId)).transport).toBe('peer')
    for (const gateway of [asked, holder]) {
      const whole = await ask(gateway, customer)
      expect(whole.status).toBe(200)
      const { choices } = (await whole.json()) as { choices: { message: { content: string } }[] }
      expect(choices[0]?.message.content.length).toBeGreaterThan(0)
      const stream = await ask(gateway, customer, { stream: true })
      expect((await stream.text()).trimEnd().endsWith('data: [DONE]')).toBe(true)
    }
  })

  test('a client that leaves stops the node, two gateways away', async () => {
    const { asked, customer, server } = await pool()
    server.setAnswer({ chunks: 2_000, intervalMs: 20 })
    const left = server.nextAbort()
    const client = new AbortController()
    const response = await asked.chat(
      customer.key,
      { model: 'm-1', stream: true, messages: [{ role: 'user', content: 'hello' }] },
      { signal: client.signal },
    )
    const reader = response.body?.getReader()
    await reader?.read()
    client.abort()
    expect((await left).outcome).toBe('aborted')
  })

  test('GOAWAY: restarting the one that holds the tunnel fails no request', async () => {
    const { asked, holder, way, agent, customer } = await pool()
    const next = await gatewayOf(asked.env.SVC_PUBLIC_URL ?? '', asked)
    let running = true
    let answered = 0
    const worker = async () => {
      while (running) {
        const response = await ask(asked, customer, { stream: answered % 2 === 0 })
        expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('svc')])
        answered++
      }
    }
    const workers = Array.from({ length: 4 }, worker)
    await waitUntil('answers', () => answered > 20)
    way.target = portOf(next)
    await holder.stop()
    const before = answered
    await waitUntil('answers over the new tunnel', () => answered > before + 20)
    running = false
    await Promise.all(workers)
    expect((await nodeOf(asked, agent.nodeId)).transport).toBe('peer')
    expect((await nodeOf(next, agent.nodeId)).transport).toBe('tunnel')
    // Before the gateways: the last of them would wait for it to move.
    await agent.remove()
  })
})

describe('§26: what another gateway must prove', () => {
  const replicaId = 'replica_1'
  let clock = Date.UTC(2026, 10, 20)
  const head = encodeHead({ method: 'POST', path: '/v1/x', headers: {} })
  const asked = { method: 'POST', path: peerPath + nodeId, head, nodeId, to: replicaId }
  const proofFor = (body: string, more: object = {}, by = secret) =>
    peerProof(by, { replicaId, method: 'POST', path: asked.path, head, bodyHash: sha256Hex(body), ...more }, clock)

  async function door() {
    const pair = await tunnelPair(async (request) => new Response(await request.text()))
    cleanups.push(() => pair.stop())
    return createPeerDoor({ secret, replicaId, tunnels: pair.tunnels, now: () => clock })
  }
  const signal = new AbortController().signal
  const code = (work: () => unknown) => {
    try {
      work()
    } catch (error) {
      return (error as { code: string }).code
    }
    return 'admitted'
  }

  test('the right one is admitted once', async () => {
    const { admit } = await door()
    const proof = proofFor('body')
    const answer = await admit({ ...asked, proof })(Buffer.from('body'), signal)
    expect([answer.status, await answer.text(100)]).toEqual([200, 'body'])
    expect(code(() => admit({ ...asked, proof }))).toBe('invalid_credentials')
    expect(code(() => admit({ ...asked, proof: proofFor('body') }))).toBe('admitted')
  })

  test('another secret, path, head, receiver; too old, too new; no proof and none at all', async () => {
    const { admit } = await door()
    const wrong = [
      proofFor('b', {}, 'another-secret-altogether'),
      proofFor('b', { path: `${peerPath}node_other` }),
      proofFor('b', { head: encodeHead({ method: 'POST', path: '/v1/y', headers: {} }) }),
      proofFor('b', { replicaId: 'replica_2' }),
      proofFor('b', { method: 'GET' }),
      '',
      'ts=1,nonce=x,body=y,sig=z',
      null,
    ]
    for (const proof of wrong) expect(code(() => admit({ ...asked, proof }))).toBe('invalid_credentials')
    const proof = proofFor('b')
    for (const off of [-31_000, 31_000]) {
      clock += off
      expect(code(() => admit({ ...asked, proof }))).toBe('invalid_credentials')
      clock -= off
    }
    expect(code(() => admit({ ...asked, proof }))).toBe('admitted')
  })

  test('a nonce stays used for as long as its proof is fresh', async () => {
    const { admit } = await door()
    const early = proofFor('b')
    expect(code(() => admit({ ...asked, proof: early }))).toBe('admitted')
    clock += 29_000
    expect(code(() => admit({ ...asked, proof: proofFor('b') }))).toBe('admitted')
    expect(code(() => admit({ ...asked, proof: early }))).toBe('invalid_credentials')
  })

  test('another body than was signed goes nowhere', async () => {
    const { admit } = await door()
    const passage = admit({ ...asked, proof: proofFor('body') })
    expect(await passage(Buffer.from('other'), signal).catch((error: unknown) => error)).toMatchObject({
      code: 'invalid_credentials',
    })
  })

  test('no tunnel here, and no pool at all', async () => {
    const { admit } = await door()
    const path = `${peerPath}node_0002`
    const elsewhere = { ...asked, path, nodeId: 'node_0002', proof: proofFor('b', { path }) }
    expect(code(() => admit(elsewhere))).toBe('node_not_found')
    const pair = await tunnelPair(async () => new Response())
    cleanups.push(() => pair.stop())
    const alone = createPeerDoor({ secret: null, replicaId, tunnels: pair.tunnels })
    expect(code(() => alone.admit({ ...asked, proof: proofFor('b') }))).toBe('route_not_found')
  })
})
