import { beforeEach, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { modelOf, type Place, places, requests, type Sent, TwoOwners, told } from '../../support/pools/two-owners.ts'
import { fixture } from '../../support/run/fixture.ts'

const owners = await fixture(TwoOwners.start())

beforeEach(() => {
  owners.sent = []
})

const post = (place: Place, body: object) => owners.post(place, JSON.stringify({ ...requests[place].body, ...body }))
const calls = () => owners.sent.map(({ by, body }): readonly [Sent['by'], unknown] => [by, body.model])
const embeds = (place: Place) => modelOf(place, 'own').endsWith('embed')
/** Vectors of both are known to be of one length. */
const seen = async (place: Place) => {
  for (const by of ['own', 'others'] as const) {
    expect((await post(place, { model: modelOf(place, by) })).status).toBe(200)
  }
  owners.sent = []
}

describe.each(places)('§28: models at the door %s', (place) => {
  const own = modelOf(place, 'own')

  test('the next model answers, and no node is sent the list', async () => {
    // Nothing is known of a model that is nowhere, and nothing is tried behind it where vectors must be alike.
    if (embeds(place)) return
    const response = await post(place, { model: 'nowhere', models: ['elsewhere', own] })
    const { status, words } = await told(response)
    expect(status).toBe(200)
    expect(calls()).toEqual([['own', own]])
    expect(owners.sent[0]?.body).not.toHaveProperty('models')
    expect(words).toContain(JSON.stringify(own))
  })

  test('model may be left out', async () => {
    expect((await post(place, { models: [own] })).status).toBe(200)
    expect(calls()).toEqual([['own', own]])
  })

  test('more than eight are refused', async () => {
    const { status, code, param } = await told(
      await post(place, { model: own, models: Array.from({ length: 9 }, (_, at) => `m${at}`) }),
    )
    expect(status).toBe(400)
    expect(owners.sent).toEqual([])
    if (place !== 'messages' && !requests[place].path.startsWith('/api/')) {
      expect([code, param]).toEqual(['invalid_request', 'models'])
    }
  })
})

describe('§28: clients as they are', () => {
  test('OpenAI’s: models beside model in the body', async () => {
    const client = new OpenAI({ baseURL: `${owners.gateway.url}/v1`, apiKey: owners.customer.key, maxRetries: 0 })
    const stream = await client.chat.completions.create({
      model: 'nowhere',
      messages: [{ role: 'user', content: 'hi' }],
      stream: true,
      ...{ models: ['own'] },
    })
    const models = new Set<string>()
    for await (const chunk of stream) models.add(chunk.model)
    expect([...models]).toEqual(['own'])
  })

  test('Anthropic’s: fallbacks, each with its model, streamed too', async () => {
    const client = new Anthropic({ baseURL: owners.gateway.url, apiKey: owners.customer.key, maxRetries: 0 })
    const asked = { model: 'nowhere', max_tokens: 9, messages: [{ role: 'user', content: 'hi' }] } as const
    const message = await client.messages.create({
      ...asked,
      messages: [...asked.messages],
      ...{ fallbacks: [{ model: 'own' }] },
    })
    expect(message.model).toBe('own')
    const both = await told(await post('messages', { model: 'own', models: ['both'], fallbacks: [{ model: 'both' }] }))
    expect(both.status).toBe(400)
    expect(both.words).toContain('send models or fallbacks, not both')
  })

  test.each(['responses', 'messages', 'ollama', 'completions'] as const)(
    'a stream of %s names the model that answers',
    async (place) => {
      const { words } = await told(await post(place, { model: 'own', stream: false }))
      expect(words).toContain('"own"')
      const streamed = await (await post(place, { model: 'nowhere', models: ['own'], stream: true })).text()
      expect(streamed).toContain('"model":"own"')
      expect(streamed).not.toContain('nowhere')
    },
  )

  test('several prompts are one model’s: the first that has room', async () => {
    const response = await post('completions', { models: ['nowhere', 'own'], prompt: ['a', 'b', 'c'] })
    const body = (await response.json()) as { model: string; choices: readonly object[] }
    expect([body.model, body.choices.length]).toEqual(['own', 3])
    expect(calls()).toEqual(Array(3).fill(['own', 'own']))
    const refused = await told(await post('completions', { models: ['nowhere', 'elsewhere'], prompt: ['a', 'b'] }))
    expect([refused.status, refused.code]).toEqual([404, 'model_not_found'])
  })

  test('a form names one model', async () => {
    const form = new FormData()
    form.append('models', 'own')
    form.append('model', 'own')
    form.append('file', new Blob(['sound']), 'a.wav')
    const response = await fetch(`${owners.gateway.url}/v1/audio/transcriptions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${owners.customer.key}` },
      body: form,
    })
    expect(await told(response)).toMatchObject({ status: 400, code: 'invalid_request', param: 'models' })
  })
})

describe('§28: vectors of several models', () => {
  test('a model is tried in another’s place only where both are known to be equally long', async () => {
    const { gateway } = owners
    const lost = 'lost-embed'
    const unknown = await told(await post('embeddings', { model: lost, models: ['own-embed'] }))
    expect(unknown).toMatchObject({ status: 404, code: 'model_not_found' })
    expect(unknown.words).toContain('own-embed: It was not tried')
    expect(owners.sent).toEqual([])
    await seen('embeddings')
    // Both are known: their node is asked where the own one is gone.
    await gateway.admin('POST', `/v1/admin/nodes/${owners.nodeIds.get('own own-embed')}/drain`, {})
    const response = await post('embeddings', { model: 'own-embed', models: ['their-embed'] })
    expect(((await response.json()) as { model: string }).model).toBe('their-embed')
    expect(calls()).toEqual([['others', 'their-embed']])
  })

  test('lengths that are known to differ are refused before anything is asked', async () => {
    // That of the own one was seen above.
    owners.vector = [1, 2, 3]
    expect((await post('embeddings', { model: 'their-embed' })).status).toBe(200)
    owners.vector = [1]
    owners.sent = []
    const refused = await told(await post('embeddings', { model: 'own-embed', models: ['their-embed'] }))
    expect(refused).toMatchObject({ status: 400, code: 'invalid_request', param: 'models' })
    expect(refused.words).toContain('the vectors of own-embed have 1 numbers, those of their-embed 3')
    expect(owners.sent).toEqual([])
  })
})
