import { beforeEach, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import {
  leaving,
  member,
  messages,
  modelOf,
  requests,
  type Sent,
  TwoOwners,
  told,
} from '../../support/pools/two-owners.ts'
import { fixture } from '../../support/run/fixture.ts'

const owners = await fixture(TwoOwners.start())

beforeEach(() => {
  owners.sent = []
})

describe('§35: own nodes and others’', () => {
  test('where both have the model, it goes to the own one', async () => {
    for (let times = 0; times < 8; times++) {
      const response = await owners.post('chat', JSON.stringify({ model: 'both', messages, brand_new: times }))
      expect(response.status).toBe(200)
    }
    expect(owners.sent.map(({ by }) => by)).toEqual(Array(8).fill('own'))
  })

  test('the refusal takes nothing: neither of a rate nor of a quota', async () => {
    const { policy, keyPolicy } = leaving
    const bounded = await owners.gateway.customer({
      policy: { ...policy, rate_limit_rpm: 1, daily_token_quota: 10_000 },
      keyPolicy,
    })
    const asked = member('max_tokens', 9_000)
    for (const more of [member('brand_new', 1), `"stream":true,${member('brand_new', 1)}`]) {
      const refused = await owners.ask('chat', 'others', `${asked},${more}`, bounded.key)
      expect(refused.headers.get('content-type')).toContain('application/json')
      expect(await told(refused)).toMatchObject({ status: 400, param: 'brand_new' })
    }
    expect((await owners.ask('chat', 'others', asked, bounded.key)).status).toBe(200)
  })

  test('unknown models stay unknown, and a field of a model that no own node may serve is no reason', async () => {
    const answered = await told(await owners.post('chat', JSON.stringify({ model: 'nowhere', messages, brand_new: 1 })))
    expect(answered).toMatchObject({ status: 404, code: 'model_not_found' })
  })

  test('texts that are shared out among own nodes have it in each part', async () => {
    const input = Array.from({ length: 40 }, (_, at) => `text ${at}`)
    const response = await owners.post('embeddings', JSON.stringify({ model: 'own-embed', input, brand_new: 1 }))
    expect(response.status).toBe(200)
    expect(owners.sent.map(({ body }) => body.brand_new)).toEqual(owners.sent.map(() => 1))
  })

  test('mixtures, whose nodes are the account’s own', async () => {
    const mixture = { strategy: 'vote', experts: [{ model: 'own' }, { model: 'both' }], min_experts: 2 }
    const body = { model: 'any', messages, svc: { mixture }, brand_new: 1 }
    const answered = await owners.post('chat', JSON.stringify(body))
    expect([answered.status, owners.sent.every(({ by, body: got }) => by === 'own' && got.brand_new === 1)]).toEqual([
      200,
      true,
    ])
    expect(owners.sent.length).toBeGreaterThanOrEqual(2)
  })
})

describe.each(['chat', 'completions', 'responses', 'messages', 'ollama', 'generate'] as const)(
  '§35: streamed, too: %s',
  (place) => {
    const streamed = (by: Sent['by']) => {
      const { stream: _, ...body } = requests[place].body as { readonly stream?: false }
      return owners.post(
        place,
        JSON.stringify({ model: modelOf(place, by), ...body, stream: true, brand_new: { deep: [1] } }),
      )
    }

    test('own nodes', async () => {
      const response = await streamed('own')
      await response.text()
      expect(response.status).toBe(200)
      expect(owners.sent[0]?.body).toMatchObject({ brand_new: { deep: [1] } })
    })

    test('others’: refused before the stream begins', async () => {
      expect(await told(await streamed('others'))).toMatchObject({ status: 400, param: 'brand_new' })
      expect(owners.sent).toEqual([])
    })
  },
)

describe('§35: large values, and numbers of many digits', () => {
  test.each(['chat', 'completions', 'responses', 'messages', 'ollama'] as const)('16 MB: %s', async (place) => {
    const value = { deep: Array.from({ length: 1_000 }, (_, at) => ({ at, text: 'x'.repeat(16_000) })) }
    expect((await owners.ask(place, 'own', member('brand_new', value))).status).toBe(200)
    expect(Bun.hash(JSON.stringify(owners.sent[0]?.body.brand_new))).toBe(Bun.hash(JSON.stringify(value)))
    expect(await told(await owners.ask(place, 'others', member('brand_new', value)))).toMatchObject({
      param: 'brand_new',
    })
    expect(owners.sent).toHaveLength(1)
  })
})

describe('§35: OpenAI’s client sends further fields', () => {
  const client = () => new OpenAI({ apiKey: owners.customer.key, baseURL: `${owners.gateway.url}/v1`, maxRetries: 0 })
  const extra = { enable_thinking: false, provider: { order: ['a'] } } as object

  test('own nodes get them', async () => {
    await client().chat.completions.create({ model: 'own', messages: [{ role: 'user', content: 'hi' }], ...extra })
    await client().responses.create({ model: 'own', input: 'hi', ...extra })
    await client().embeddings.create({ model: 'own-embed', input: 'hi', ...extra })
    expect(owners.sent.map(({ body }) => body)).toEqual(owners.sent.map(() => expect.objectContaining(extra)))
    expect(owners.sent).toHaveLength(3)
  })

  test('for others’ the client has an error that newNames the first', async () => {
    const asked = client().responses.create({ model: 'theirs', input: 'hi', ...extra })
    const error = await asked.then(
      () => null,
      (thrown: unknown) => thrown,
    )
    expect(error).toBeInstanceOf(OpenAI.BadRequestError)
    expect(error).toMatchObject({ status: 400, code: 'invalid_request', param: 'enable_thinking' })
    expect((error as Error).message).toContain('Leave the field out, or connect a node of your own')
    expect(owners.sent).toEqual([])
  })
})
