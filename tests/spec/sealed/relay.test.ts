import { afterEach, describe, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import Anthropic from '@anthropic-ai/sdk'
import { Identity, Transport } from 'ehbp'
import OpenAI from 'openai'
import { headers } from '../../../src/brand.ts'
import { SealedError, sealedFetch } from '../../../src/client/sealed/sealed-fetch.ts'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { keyConfigPath } from '../../../src/protocol/sealed/ehbp.ts'
import type { SealedNodeList } from '../../../src/protocol/wire/inference/sealed.ts'
import type { TestGateway } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent } from '../../support/nodes/agents.ts'
import { patientTimes, startSealedPool } from '../../support/pools/sealed-pool.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitFor, waitUntil } from '../../support/run/wait-until.ts'

const messages = [{ role: 'user' as const, content: 'hello there' }]
const text = 'fake-0 fake-1 fake-2 '

const pool = await fixture(startSealedPool({ answer: { chunks: 3 } }))

afterEach(() => {
  for (const server of pool.servers) server.clearFaults()
})

const bearer = () => ({ authorization: `Bearer ${pool.customer.key}` })
const nodesUrl = (gateway: TestGateway) => `${gateway.url}/v1/sealed/nodes`

/** The published client, with the key that the gateway gives it for this node. */
async function official(gateway: TestGateway, nodeId: string): Promise<Transport> {
  const response = await fetch(`${nodesUrl(gateway)}/${nodeId}${keyConfigPath}`, { headers: bearer() })
  expect(response.headers.get('content-type')).toBe('application/ohttp-keys')
  const config = new Uint8Array(await response.arrayBuffer())
  return new Transport(await Identity.unmarshalPublicConfig(config), new URL(gateway.url).host)
}

const init = (model: string) => ({
  headers: { ...bearer(), 'content-type': 'application/json', [headers.sealedModel]: model },
})
const chatUrl = (gateway: TestGateway, nodeId: string) => `${nodesUrl(gateway)}/${nodeId}/chat/completions`

interface Answer {
  readonly choices: readonly { readonly message: { readonly content: string } }[]
}

/** By what the gateway keeps of them, newest first. */
async function requests(): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const path = `/v1/admin/requests?customer_id=${pool.customer.customerId}&limit=5`
  type Listed = { readonly requests: readonly Readonly<Record<string, unknown>>[] }
  return (await pool.gateway.admin<Listed>('GET', path)).requests
}

describe('§38: the published client', () => {
  test('gets whole answers and streams from a node behind a tunnel, behind another gateway, and called directly', async () => {
    const ways = [
      [pool.gateway, pool.tunnelled.nodeId],
      [pool.second, pool.tunnelled.nodeId],
      [pool.gateway, pool.direct.nodeId],
      [pool.second, pool.direct.nodeId],
    ] as const
    for (const [gateway, nodeId] of ways) {
      const client = await official(gateway, nodeId)
      const body = { model: 'm-1', messages }
      const whole = await client.post(chatUrl(gateway, nodeId), JSON.stringify(body), init('m-1'))
      expect(((await whole.json()) as Answer).choices[0]?.message.content).toBe(text)
      const stream = { ...body, stream: true }
      const streamed = await client.post(chatUrl(gateway, nodeId), JSON.stringify(stream), init('m-1'))
      expect(await streamed.text()).toEndWith('data: [DONE]\n\n')
    }
  })

  test('§32: tags of a sealed request stand in its header, and nowhere else', async () => {
    const { gateway, tunnelled } = pool
    const client = await official(gateway, tunnelled.nodeId)
    const ask = (tags: string) => {
      const body = { model: 'm-1', messages, metadata: { tags: ['inside'] } }
      const given = { headers: { ...init('m-1').headers, [headers.tags]: tags } }
      return client.post(chatUrl(gateway, tunnelled.nodeId), JSON.stringify(body), given)
    }
    expect((await ask('outside')).status).toBe(200)
    await waitUntil('the record has them', async () => JSON.stringify((await requests())[0]?.tags) === '["outside"]')
    const refused = await fetch(chatUrl(gateway, tunnelled.nodeId), {
      method: 'POST',
      headers: { ...init('m-1').headers, 'ehbp-encapsulated-key': 'a'.repeat(64), [headers.tags]: 'no?' },
      body: 'sealed',
    })
    expect(refused.status).toBe(400)
    expect(await refused.text()).toContain('header.x-svc-tags')
  })

  test('an error of the node comes inside the seal, with its status outside', async () => {
    const client = await official(pool.gateway, pool.direct.nodeId)
    const url = chatUrl(pool.gateway, pool.direct.nodeId)
    const response = await client.post(url, JSON.stringify({ model: 'm-1', messages: 3 }), init('m-1'))
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { code: 'invalid_request', param: 'messages' } })
  })

  test('a wrong key is told as EHBP tells it', async () => {
    const client = await official(pool.gateway, pool.direct.nodeId)
    const url = chatUrl(pool.gateway, pool.tunnelled.nodeId)
    const refused = client.post(url, JSON.stringify({ model: 'm-1', messages }), init('m-1'))
    expect(await refused.catch((error: unknown) => (error as Error).name)).toBe('KeyConfigMismatchError')
  })

  test('a stream that is left stops the model server', async () => {
    for (const [at, nodeId] of [pool.tunnelled.nodeId, pool.direct.nodeId].entries()) {
      const server = pool.servers[at]
      server?.setFaults({ kind: 'stall', afterChunks: 2 })
      const client = await official(pool.second, nodeId)
      const aborted = server?.nextAbort()
      const body = JSON.stringify({ model: 'm-1', messages, stream: true })
      const response = await client.post(chatUrl(pool.second, nodeId), body, init('m-1'))
      const reader = response.body?.getReader()
      await reader?.read()
      await reader?.cancel()
      await aborted
      await waitFor('the record', async () => (await requests()).find(({ status }) => status === 499))
    }
  })
})

const trusted = () => [pool.tunnelled.node.fingerprint, pool.direct.node.fingerprint]
const sealing = (gateway = pool.gateway, more: object = {}) =>
  sealedFetch({ gateway: gateway.url, trust: trusted(), ...more })

describe('§38: sealedFetch', () => {
  test('openai: whole, streamed, tools; responses and completions', async () => {
    const client = new OpenAI({
      baseURL: `${pool.second.url}/v1`,
      apiKey: pool.customer.key,
      fetch: sealing(pool.second),
    })
    const answer = await client.chat.completions.create({ model: 'm-1', messages })
    expect(answer.choices[0]?.message.content).toBe(text)
    const stream = await client.chat.completions.create({ model: 'm-1', messages, stream: true })
    let seen = ''
    for await (const chunk of stream) seen += chunk.choices[0]?.delta.content ?? ''
    expect(seen).toBe(text)
    const response = await client.responses.create({ model: 'm-1', input: 'hello' })
    expect(response.output_text).toBe(text)
    const refused = client.chat.completions.create({ model: 'm-1', messages: [] })
    expect(await refused.catch((error: unknown) => error)).toMatchObject({ status: 400, code: 'invalid_request' })
  })

  test('anthropic: whole and streamed', async () => {
    const client = new Anthropic({ baseURL: pool.gateway.url, apiKey: pool.customer.key, fetch: sealing() })
    const asked = { model: 'm-1', max_tokens: 100, messages }
    const answer = await client.messages.create(asked)
    expect(answer.content).toMatchObject([{ type: 'text', text }])
    let seen = ''
    for await (const event of await client.messages.create({ ...asked, stream: true })) {
      if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') seen += event.delta.text
    }
    expect(seen).toBe(text)
  })

  test('a node that fails before its first byte is followed by the next', async () => {
    const asked: string[] = []
    const onNode = ({ nodeId }: { readonly nodeId: string }) => asked.push(nodeId)
    for (const server of pool.servers) {
      server.setFaults({ kind: 'status500' })
      const response = await sealing(pool.gateway, { onNode })(`${pool.gateway.url}/v1/chat/completions`, {
        method: 'POST',
        headers: bearer(),
        body: JSON.stringify({ model: 'm-1', messages }),
      })
      expect([response.status, ((await response.json()) as Answer).choices.length]).toEqual([200, 1])
      server.clearFaults()
    }
    expect(new Set(asked).size).toBe(2)
  })

  test('a key that was replaced meanwhile is asked for anew, once', async () => {
    const { gateway, customer } = pool
    const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
    const server = startFakeNode({ models: ['m-r'], answer: { chunks: 3 } })
    let agent = await startAgent({ gatewayUrl: gateway.url, token, runtimes: [server.url], runtimeTimes: patientTimes })
    const { fingerprint, folder } = agent.node
    let lists = 0
    const counted = (url: string, init: RequestInit) => {
      if (url.includes('?model=')) lists++
      return fetch(url, init)
    }
    const seal = sealedFetch({ gateway: gateway.url, trust: [fingerprint], fetch: counted })
    const ask = async () => {
      const body = JSON.stringify({ model: 'm-r', messages })
      const response = await seal(`${gateway.url}/v1/chat/completions`, { method: 'POST', headers: bearer(), body })
      return ((await response.json()) as Answer).choices[0]?.message.content
    }
    const keyIds = async () => {
      const response = await fetch(`${nodesUrl(gateway)}?model=m-r`, { headers: bearer() })
      return response.ok ? JSON.stringify(((await response.json()) as SealedNodeList).data[0]?.keys) : ''
    }
    await waitUntil('the node is ready', async () => (await keyIds()) !== '')
    expect([await ask(), await ask(), lists]).toEqual([text, text, 1])
    const published = await official(gateway, agent.nodeId)
    const answerTo = (client: Transport) =>
      client.post(chatUrl(gateway, agent.nodeId), JSON.stringify({ model: 'm-r', messages }), init('m-r')).then(
        ({ status }) => status,
        (error: unknown) => (error as Error).name,
      )
    expect(await answerTo(published)).toBe(200)
    const before = await keyIds()
    await agent.node.stop()
    rmSync(join(folder, 'sealed-keys.json'))
    agent = await agent.restart()
    await waitUntil('the new key is offered', async () => ![before, ''].includes(await keyIds()))
    expect([await ask(), lists]).toEqual([text, 2])
    expect(await answerTo(published)).toBe('KeyConfigMismatchError')
    expect(await answerTo(await official(gateway, agent.nodeId))).toBe(200)
    await agent.remove()
    server.stop()
  })

  test('nothing goes to a node that is not trusted, and nothing in the clear', async () => {
    const fault = (fetching: Promise<Response>) =>
      fetching.then(
        () => null,
        (error: unknown) => (error instanceof SealedError ? error.fault : error),
      )
    const body = JSON.stringify({ model: 'm-1', messages })
    const post = { method: 'POST', headers: bearer(), body }
    const url = `${pool.gateway.url}/v1/chat/completions`
    const strange = sealing(pool.gateway, { trust: [`SHA256:${'A'.repeat(43)}`] })
    const before = pool.servers.map((server) => server.requests.length)
    expect(await fault(strange(url, post))).toBe('node_not_pinned')
    expect(await fault(sealing()(`${pool.gateway.url}/v1/audio/speech`, post))).toBe('not_sealable')
    expect(await fault(sealing()(url, { headers: bearer() }))).toBe('not_sealable')
    expect(pool.servers.map((server) => server.requests.length)).toEqual(before)
  })
})

describe('§38: the gateway', () => {
  test('lists the nodes of the caller that have the model, with signed keys and fingerprints', async () => {
    const ask = async (model: string, key = pool.customer.key) => {
      const response = await fetch(`${nodesUrl(pool.second)}?model=${model}`, {
        headers: { authorization: `Bearer ${key}` },
      })
      return { status: response.status, list: (await response.json()) as SealedNodeList }
    }
    const both = await ask('m-1')
    expect(both.list.data.map(({ fingerprint }) => fingerprint).sort()).toEqual([...trusted()].sort())
    expect((await ask('m-d')).list.data.map(({ node_id: id }) => id)).toEqual([pool.direct.nodeId])
    expect((await ask('m-x')).status).toBe(404)
    const stranger = await pool.gateway.customer()
    expect((await ask('m-1', stranger.key)).status).toBe(404)
    const config = await fetch(`${nodesUrl(pool.gateway)}/${pool.direct.nodeId}${keyConfigPath}`, {
      headers: { authorization: `Bearer ${stranger.key}` },
    })
    expect(config.status).toBe(404)
  })

  test('keeps a signed receipt that commits to the sealed bytes, and the tokens that the node told', async () => {
    const client = await official(pool.gateway, pool.tunnelled.nodeId)
    const url = chatUrl(pool.gateway, pool.tunnelled.nodeId)
    const response = await client.post(url, JSON.stringify({ model: 'm-t', messages, stream: true }), init('m-t'))
    const requestId = response.headers.get('x-request-id')
    await response.text()
    const record = await waitFor('the record', async () =>
      (await requests()).find(({ request_id: id }) => id === requestId),
    )
    expect(record).toMatchObject({ operation: 'sealed_chat', status: 200, completion_tokens: 3 })
    const { sql } = pool.gateway.database
    const [receipt] = await waitFor('the receipt', async () => {
      const rows = await sql`select * from receipt_rows where request_id = ${requestId}`
      return rows.length === 0 ? null : rows
    })
    expect(receipt).toMatchObject({ kind: 'hosted_sealed', issuer: 'node', completion_tokens: 3 })
    expect(receipt?.response_commitment).toMatch(/^0x[0-9a-f]{64}$/)
  })

  test('applies the policy of the key before anything reaches a node', async () => {
    const policed = await pool.gateway.customer()
    const code = async (key: string, nodeId: string, sent: Record<string, string> = {}) => {
      const response = await fetch(chatUrl(pool.gateway, nodeId), {
        method: 'POST',
        headers: {
          authorization: `Bearer ${key}`,
          [headers.sealedModel]: 'm-1',
          'ehbp-encapsulated-key': '09'.repeat(32),
          ...sent,
        },
        body: new Uint8Array(40),
      })
      return [response.status, ((await response.json()) as { error: { code: string } }).error.code]
    }
    const { key } = pool.customer
    expect(await code(policed.key, pool.direct.nodeId)).toEqual([403, 'node_pin_forbidden'])
    expect(await code(key, '%7E')).toEqual([404, 'node_not_found'])
    expect(await code(key, pool.direct.nodeId, { [headers.sealedModel]: '' })).toEqual([400, 'invalid_parameter'])
    expect(await code(key, pool.direct.nodeId, { 'ehbp-encapsulated-key': 'zz' })).toEqual([400, 'invalid_parameter'])
    expect(await code(key, pool.direct.nodeId, { [headers.maxTokens]: '0' })).toEqual([400, 'invalid_parameter'])
    expect(await code(key, pool.direct.nodeId, { [headers.sealedModel]: 'm-t' })).toEqual([503, 'node_unavailable'])
    expect(await code(key, pool.direct.nodeId)).toEqual([400, 'invalid_request'])
  })

  test('sealed_only: the key sends nothing in the clear', async () => {
    const { gateway, customer } = pool
    const path = `/v1/admin/customers/${customer.customerId}/keys`
    const issued = await gateway.admin<{ gateway_key: string }>('POST', path, {
      name: 'sealed',
      model_policy: { sealed_only: true },
    })
    const key = issued.gateway_key
    const refused = await gateway.chat(key, { model: 'm-1', messages })
    expect([refused.status, ((await refused.json()) as { error: { code: string } }).error.code]).toEqual([
      403,
      'sealed_only',
    ])
    const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: key, fetch: sealing() })
    expect((await client.chat.completions.create({ model: 'm-1', messages })).choices[0]?.message.content).toBe(text)
    await waitUntil('no call in flight', async () => pool.servers.every((server) => server.stats().openRequests === 0))
  })
})
