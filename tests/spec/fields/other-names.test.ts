import { beforeEach, describe, expect, test } from 'bun:test'
import { member, messages, newNames, type Place, TwoOwners, told } from '../../support/pools/two-owners.ts'
import { fixture } from '../../support/run/fixture.ts'

const owners = await fixture(TwoOwners.start())

beforeEach(() => {
  owners.sent = []
})

describe('§35: Ollama’s options', () => {
  const options = (value: unknown) => member('options', value)

  test.each(['ollama', 'generate', 'embed'] as const)('own nodes get what the table lacks: %s', async (place) => {
    for (const name of newNames) {
      owners.sent = []
      expect((await owners.ask(place, 'own', `"options":{${member(name, [1])}}`)).status).toBe(200)
      expect(Object.getOwnPropertyDescriptor(owners.sent[0]?.body, name)?.value).toEqual([1])
    }
  })

  test.each(['ollama', 'generate', 'embed'] as const)('others’ do not: %s', async (place) => {
    const answered = await told(await owners.ask(place, 'others', options({ num_ctx: 9, temperature: 1, magic: 1 })))
    expect(answered).toMatchObject({ status: 400, code: 'invalid_request', param: 'options.magic' })
    expect(owners.sent).toEqual([])
  })

  test.each(['ollama', 'generate'] as const)(
    'they count beside `options`, where those do not say it: %s',
    async (place) => {
      await owners.ask(place, 'own', `"temperature":0.5,"num_predict":7,"top_k":3,${options({ top_k: 4 })}`)
      expect(owners.sent[0]?.body).toMatchObject({ temperature: 0.5, max_tokens: 7, top_k: 4 })
      expect(owners.sent[0]?.body).not.toHaveProperty('num_predict')
      expect(await told(await owners.ask(place, 'own', '"temperature":9'))).toMatchObject({
        status: 400,
        param: 'options.temperature',
      })
    },
  )

  test.each([
    ['input', 'hi'],
    ['encoding_format', 'base64'],
    ['dimensions', 3],
    ['model', 'own'],
  ])('nor for what the gateway says of vectors: %s', async (name, value) => {
    for (const place of ['embed', 'old embed'] as const) {
      const answered = await told(await owners.ask(place, 'own', options({ [name]: value })))
      expect(answered).toMatchObject({ status: 400, code: 'invalid_request', param: `options.${name}` })
    }
    expect(owners.sent).toEqual([])
  })

  test.each([
    ['model', 'theirs'],
    ['messages', []],
    ['tools', []],
    ['stream', true],
    ['svc', { mixture: {} }],
    ['max_tokens', 1],
    ['format', 'json'],
    ['think', true],
    ['keep_alive', 0],
    ['logprobs', true],
    ['response_format', {}],
    ['node_id', 'node_1'],
    ['encrypted_request', {}],
  ])('nothing among them stands for a member of the request: %s', async (name, value) => {
    const answered = await told(await owners.ask('ollama', 'own', options({ [name]: value })))
    expect(answered).toMatchObject({ status: 400, param: `options.${name}` })
    expect(owners.sent).toEqual([])
  })
})

describe('§35: a name that chat has for something else is refused by name', () => {
  test.each<[Place, string, unknown, string]>([
    ['responses', 'messages', messages, 'there is no such field here'],
    ['responses', 'max_tokens', 5, 'here it is called max_output_tokens'],
    ['responses', 'response_format', { type: 'text' }, 'here it is called text.format'],
    ['responses', 'reasoning_effort', 'low', 'here it is called reasoning.effort'],
    ['messages', 'response_format', { type: 'text' }, 'here it is called output_config.format'],
    ['messages', 'max_completion_tokens', 5, 'here it is called max_tokens'],
    ['ollama', 'max_tokens', 5, 'here it is called options.num_predict'],
    ['ollama', 'response_format', {}, 'here it is called format'],
    ['generate', 'messages', messages, 'there is no such field here'],
    ['generate', 'tools', [], 'there is no such field here'],
    ['embed', 'encoding_format', 'base64', 'vectors come at once, as numbers'],
    ['embed', 'stream', true, 'vectors come at once, as numbers'],
    ['old embed', 'input', 'hi', 'the text is the prompt here'],
  ])('%s: %s', async (place, name, value, why) => {
    const answered = await told(await owners.ask(place, 'own', member(name, value)))
    expect(answered).toMatchObject({ status: 400, code: 'invalid_request', param: name })
    expect(answered.words).toContain(why)
    expect(owners.sent).toEqual([])
  })

  test.each(['responses', 'messages', 'ollama'] as const)(
    'n: one answer is no more than was asked: %s',
    async (place) => {
      expect(await told(await owners.ask(place, 'own', '"n":2'))).toMatchObject({
        status: 400,
        code: 'n_not_supported',
        param: 'n',
      })
      expect((await owners.ask(place, 'own', '"n":1')).status).toBe(200)
      expect(owners.sent[0]?.body).not.toHaveProperty('n')
    },
  )
})
