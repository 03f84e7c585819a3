import { describe, expect, test } from 'bun:test'
import { Ollama } from 'ollama'
import OpenAI from 'openai'
import { createPrivateJobs } from '../../../src/client/private-jobs.ts'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, untilState } from '../../support/nodes/agents.ts'
import { startLoneAgent } from '../../support/nodes/lone-agent.ts'
import { startOllamaNode } from '../../support/nodes/ollama-node.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

const messages = [{ role: 'user' as const, content: 'hi' }]
const open = { min_privacy_class: 'public' }
const env = { SVC_OLLAMA_LISTEN: '127.0.0.1:0', SVC_PROCESSES: '1', SVC_ADMIN_RPM_PER_TOKEN: '1000000' }
const gateway = await fixture(startTestGateway({ env }))
const customer = await gateway.customer()
const models = ['writer:latest', 'org/deep:latest', 'qwen:4b', 'both:latest', 'text-embed:latest']
const node = await fixture(startOllamaNode({ models }))
const plain = await fixture(startFakeNode({ models: ['both', 'tagged:latest'], name: 'plain-' }))
for (const { url } of [node, plain]) await gateway.node(url, { customerId: customer.customerId })
const client = new OpenAI({ apiKey: customer.key, baseURL: `${gateway.url}/v1`, maxRetries: 0 })

const bearer = (key = customer.key) => ({ authorization: `Bearer ${key}`, 'content-type': 'application/json' })
const post = (path: string, body: object, key?: string, url = gateway.url) =>
  fetch(url + path, { method: 'POST', headers: bearer(key), body: JSON.stringify(body) })
const sent = () => node.calls.at(-1)?.body.model
async function codeOf(response: Response): Promise<unknown> {
  const { error } = (await response.json()) as { error?: { code?: string; svc?: { code?: string } } }
  return error?.svc?.code ?? error?.code ?? null
}

describe('§28: a name without a tag means `latest`, on every door', () => {
  const doors: readonly (readonly [string, string, object])[] = [
    ['chat', '/v1/chat/completions', { model: 'writer', messages }],
    ['chat below the other base URL', '/v1/api/chat/completions', { model: 'writer', messages }],
    ['a stream', '/v1/chat/completions', { model: 'writer', messages, stream: true }],
    ['a name with slashes', '/v1/chat/completions', { model: 'org/deep', messages }],
    ['responses', '/v1/responses', { model: 'writer', input: 'hi' }],
    ['messages', '/v1/messages', { model: 'writer', max_tokens: 5, messages }],
    ['completions', '/v1/completions', { model: 'writer', prompt: 'hi' }],
    ['embeddings', '/v1/embeddings', { model: 'text-embed', input: 'hi' }],
  ]
  test.each(doors)('%s', async (_, path, body) => {
    const response = await post(path, body)
    const text = await response.text()
    expect([response.status, response.status === 200 ? '' : text]).toEqual([200, ''])
    const { model } = body as { model: string }
    expect(sent()).toBe(`${model}:latest`)
    expect(text).toContain(`"model":"${model}:latest"`)
  })

  test('Ollama’s listener', async () => {
    const ollama = new Ollama({ host: gateway.ollamaUrl ?? '', headers: bearer() })
    expect((await ollama.chat({ model: 'writer', messages })).message.content).toBe('two words')
    expect((await ollama.generate({ model: 'writer', prompt: 'hi' })).response).toBe('two words')
    expect((await ollama.embed({ model: 'text-embed', input: 'hi' })).embeddings).toEqual([[0.5]])
    expect((await ollama.show({ model: 'writer' })).capabilities).toContain('completion')
    expect(sent()).toBe('text-embed:latest')
  })

  test('the experts and the aggregator of a mixture', async () => {
    const aggregator = { model: 'org/deep' }
    const svc = {
      mixture: { strategy: 'synthesize', experts: [{ model: 'writer' }, { model: 'qwen:4b' }], aggregator },
    }
    const response = await post('/v1/chat/completions', { model: 'label', messages, svc })
    expect(await response.json()).toMatchObject({
      model: 'org/deep:latest',
      svc: {
        mixture: {
          degraded: false,
          experts: [{ model: 'writer:latest' }, { model: 'qwen:4b' }, { model: 'org/deep:latest' }],
        },
      },
    })
  })

  test('one model of the list; lists show the names that the server shows', async () => {
    for (const base of ['/v1', '/v1/api']) {
      const one = await fetch(`${gateway.url}${base}/models/writer`, { headers: bearer() })
      expect(await one.json()).toMatchObject({ id: 'writer:latest' })
    }
    expect((await fetch(`${gateway.url}/v1/models/tagged`, { headers: bearer() })).status).toBe(404)
    const { data } = await client.models.list()
    expect(data.map(({ id }) => id)).toEqual([
      ...['both', 'both:latest', 'org/deep:latest', 'qwen:4b', 'tagged:latest', 'text-embed:latest', 'writer:latest'],
    ])
  })

  test('load and unload of a node’s models', async () => {
    const { nodes } = await gateway.admin<{ nodes: { node_id: string; url: string }[] }>('GET', '/v1/admin/nodes')
    const id = nodes.find(({ url }) => url === node.url)?.node_id
    await gateway.admin('POST', `/v1/admin/nodes/${id}/models/load`, { model: 'org/deep' })
    expect(node.calls.at(-1)).toMatchObject({ path: '/api/generate', body: { model: 'org/deep:latest' } })
    await gateway.admin('POST', `/v1/admin/nodes/${id}/models/unload`, { model: 'org/deep' })
    expect(node.calls.at(-1)).toMatchObject({ body: { model: 'org/deep:latest', keep_alive: 0 } })
  })

  test('the agent’s own door', async () => {
    await using agent = await scoped(startLoneAgent({ runtimes: [node.url, plain.url] }))
    const ask = (model: string) =>
      fetch(`${agent.node.url}/v1/chat/completions`, {
        method: 'POST',
        headers: bearer(agent.localToken),
        body: JSON.stringify({ model, messages }),
      })
    expect(await (await ask('writer')).json()).toMatchObject({ model: 'writer:latest' })
    expect(sent()).toBe('writer:latest')
    expect(await (await ask('both')).json()).toMatchObject({ model: 'both' })
    expect((await ask('tagged')).status).toBe(404)
    expect((await ask('writer:other')).status).toBe(404)
  })

  test('private jobs', async () => {
    const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
    await using agent = await scoped(startAgent({ gatewayUrl: gateway.url, token, runtimes: [node.url] }))
    await untilState(gateway, agent.nodeId, 'ready')
    const jobs = createPrivateJobs({ baseUrl: gateway.url, ...customer })
    const target = { nodeId: agent.nodeId, fingerprint: agent.node.fingerprint, chat: { messages } }
    const outcome = await jobs.wait(await jobs.submit({ ...target, modelId: 'writer' }), { pollMs: 20 })
    // As it was asked for: the envelope is sealed for that name.
    expect(outcome).toMatchObject({ answer: { model: 'writer', choices: [{ message: { content: 'two words' } }] } })
    expect(sent()).toBe('writer:latest')
    const path = `/v1/admin/customers/${customer.customerId}`
    await gateway.admin('PATCH', path, { gateway_policy: { denied_models: ['writer:latest'] } })
    await expect(jobs.submit({ ...target, modelId: 'writer' })).rejects.toMatchObject({ code: 'model_not_allowed' })
    await gateway.admin('PATCH', path, { gateway_policy: null })
    await expect(jobs.submit({ ...target, modelId: 'qwen' })).rejects.toMatchObject({ code: 'model_not_served' })
  })
})

describe('§28: and it means nothing else', () => {
  test('what is called exactly so comes first; another tag, and a server of another kind, are never meant', async () => {
    const answer = await client.chat.completions.create({ model: 'both', messages })
    expect(answer.choices[0]?.message.content).toStartWith('plain-')
    expect((await client.chat.completions.create({ model: 'both:latest', messages })).model).toBe('both:latest')
    expect(sent()).toBe('both:latest')
    for (const model of ['qwen', 'tagged', 'writer:4b', ':latest', 'latest']) {
      const refused = await post('/v1/chat/completions', { model, messages })
      expect([model, refused.status, await codeOf(refused)]).toEqual([model, 404, 'model_not_found'])
    }
  })

  test('a model of somebody else takes no name from its owner’s neighbours, unless the caller may use it', async () => {
    const other = await gateway.customer()
    const theirs = startFakeNode({ models: ['writer', 'org/deep'], name: 'theirs-' })
    await gateway.node(theirs.url, { customerId: other.customerId, visibility: 'public', privacyClass: 'public' })
    const account = `/v1/admin/customers/${customer.customerId}`
    try {
      expect((await client.chat.completions.create({ model: 'writer', messages })).model).toBe('writer:latest')
      // A neighbour without nodes of its own gets neither.
      const stranger = await gateway.customer()
      const refused = await post('/v1/chat/completions', { model: 'text-embed', messages }, stranger.key)
      expect([refused.status, await codeOf(refused)]).toEqual([404, 'model_not_found'])
      await gateway.admin('PATCH', account, { gateway_policy: open })
      const issued = await gateway.admin<{ gateway_key: string }>('POST', `${account}/keys`, {
        name: 'open',
        model_policy: open,
      })
      const far = await post('/v1/chat/completions', { model: 'writer', messages }, issued.gateway_key)
      expect(await far.text()).toContain('theirs-')
      // A mixture stays at home.
      const svc = { mixture: { strategy: 'vote', experts: [{ model: 'writer' }] } }
      const mixed = await post('/v1/chat/completions', { model: 'x', messages, svc }, issued.gateway_key)
      expect(await mixed.json()).toMatchObject({ svc: { mixture: { experts: [{ model: 'writer:latest' }] } } })
    } finally {
      await gateway.admin('PATCH', account, { gateway_policy: null })
      theirs.stop()
    }
  })

  test('a policy for the name is one for `latest`, and the reverse', async () => {
    const keyed = async (model_policy: object) => {
      const path = `/v1/admin/customers/${customer.customerId}/keys`
      const { gateway_key: key, key_id: id } = await gateway.admin<{ gateway_key: string; key_id: string }>(
        'POST',
        path,
        {
          name: 'k',
          model_policy,
        },
      )
      const statuses = await Promise.all(
        ['writer', 'writer:latest', 'qwen:4b'].map(async (model) => {
          const response = await post('/v1/chat/completions', { model, messages }, key)
          await response.text()
          return response.status
        }),
      )
      await gateway.admin('DELETE', `/v1/admin/keys/${id}`)
      return statuses
    }
    expect(await keyed({ denied_models: ['writer'] })).toEqual([403, 403, 200])
    expect(await keyed({ denied_models: ['writer:latest'] })).toEqual([403, 403, 200])
    expect(await keyed({ allowed_models: ['writer'] })).toEqual([200, 200, 403])
    expect(await keyed({ allowed_models: ['writer:latest'] })).toEqual([200, 200, 403])
    expect(await keyed({ denied_models: ['qwen'] })).toEqual([200, 200, 200])
  })

  test('an entry of the catalogue that calls it exactly so has the name', async () => {
    await gateway.admin('PUT', '/v1/admin/models', { id: 'writer', aliases: ['qwen:4b'] })
    await post('/v1/chat/completions', { model: 'writer', messages })
    expect(sent()).toBe('qwen:4b')
    await gateway.admin('PUT', '/v1/admin/models', { id: 'scribe', aliases: ['writer:latest'] })
    await gateway.admin('DELETE', '/v1/admin/models', { id: 'writer' })
    expect((await client.chat.completions.create({ model: 'writer', messages })).model).toBe('scribe')
    await gateway.admin('DELETE', '/v1/admin/models', { id: 'scribe' })
    expect((await client.chat.completions.create({ model: 'writer', messages })).model).toBe('writer:latest')
  })
})
