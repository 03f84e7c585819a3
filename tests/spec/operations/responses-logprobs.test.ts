import { expect, test } from 'bun:test'
import OpenAI from 'openai'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { nodeChunk, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture } from '../../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const node = await fixture(startScriptedNode('m'))
await gateway.node(node.url, { customerId: customer.customerId })
const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: customer.key, maxRetries: 0 })

const model = 'm'
const usage = { prompt_tokens: 11, completion_tokens: 2, total_tokens: 13 }
const ofNode = (token: string, logprob: number) => ({
  token,
  logprob,
  bytes: [...Buffer.from(token)],
  top_logprobs: [
    { token, logprob, bytes: null },
    { token: '"}],', logprob: -3, bytes: [34] },
  ],
  id: 17,
})
const ofResponse = (token: string, logprob: number) => ({
  token,
  logprob,
  bytes: [...Buffer.from(token)],
  top_logprobs: [
    { token, logprob, bytes: [] },
    { token: '"}],', logprob: -3, bytes: [34] },
  ],
})
const tokens = [
  ['say "logprobs":[', -0.25],
  [' ü', -1.5],
] as const
const content = tokens.map(([token, logprob]) => ofNode(token, logprob))
const expected = tokens.map(([token, logprob]) => ofResponse(token, logprob))
const said = tokens.map(([token]) => token).join('')

function answerWhole(logprobs: unknown): Promise<Record<string, unknown>> {
  const { promise, resolve } = Promise.withResolvers<Record<string, unknown>>()
  node.answer((call) => {
    resolve(call.body)
    const message = { role: 'assistant', content: said }
    call.respond(200, { choices: [{ index: 0, message, finish_reason: 'stop', logprobs }], usage })
  })
  return promise
}

test.each([
  ['by include', { include: ['message.output_text.logprobs'] }, { logprobs: true }],
  ['by their number', { top_logprobs: 2 }, { logprobs: true, top_logprobs: 2 }],
  ['by both', { include: ['message.output_text.logprobs'], top_logprobs: 0 }, { logprobs: true, top_logprobs: 0 }],
  ['not', { include: ['reasoning.encrypted_content'] }, {}],
  ['not, where a client sends the default number', { top_logprobs: 0 }, {}],
])('§35: a whole response has the probabilities that its node gives, asked for %s', async (_, more, sent) => {
  const asked = answerWhole({ content, refusal: null })
  const response = await client.responses.create({ model, input: 'hi', ...more } as never)
  const { logprobs, top_logprobs } = await asked
  expect(JSON.parse(JSON.stringify({ logprobs, top_logprobs }))).toEqual(sent)
  const [item] = (response as OpenAI.Responses.Response).output
  expect(item).toMatchObject({ content: [{ type: 'output_text', text: said, logprobs: expected }] })
  expect(response).toMatchObject({ top_logprobs: top_logprobs ?? 0 })
})

test('§35: what a node calls probabilities and is none does not pass, nor anything beside them', async () => {
  for (const logprobs of [
    null,
    [],
    'x',
    { content: null },
    { content: 'x' },
    { content: [null, 1, {}, { token: 'x' }] },
  ]) {
    void answerWhole(logprobs)
    const { output } = await client.responses.create({ model, input: 'hi', top_logprobs: 1 })
    expect(output[0]).toMatchObject({ content: [{ text: said, logprobs: [] }] })
  }
  void answerWhole({
    content: [{ ...ofNode('a', -1), bytes: [300], top_logprobs: Array(50).fill({ token: 'b', logprob: -2 }) }],
  })
  const { output } = await client.responses.create({ model, input: 'hi', top_logprobs: 1 })
  const [part] = (output[0] as OpenAI.Responses.ResponseOutputMessage).content
  const [one] = (part as OpenAI.Responses.ResponseOutputText).logprobs ?? []
  expect([one?.bytes, one?.top_logprobs.length, Object.keys(one ?? {})]).toEqual([
    [],
    20,
    ['token', 'logprob', 'bytes', 'top_logprobs'],
  ])
})

test('§35: a stream has them with each piece, and all of them where its text is repeated', async () => {
  node.answer(async (call) => {
    call.open()
    for (const [at, [token]] of tokens.entries()) {
      const chunk = nodeChunk({ content: token }) as unknown as { choices: Record<string, unknown>[] }
      Object.assign(chunk.choices[0] ?? {}, { logprobs: { content: [content[at]] } })
      await call.event(chunk)
    }
    await call.event(nodeChunk({ content: '!' }))
    await call.event(nodeChunk({}, 'stop', { usage }))
    await call.event('[DONE]')
    call.end()
  })
  const events: OpenAI.Responses.ResponseStreamEvent[] = []
  const stream = await client.responses.create({ model, input: 'hi', stream: true, top_logprobs: 2 })
  for await (const event of stream) events.push(event)
  const of = <T extends OpenAI.Responses.ResponseStreamEvent['type']>(type: T) =>
    events.filter((event): event is Extract<OpenAI.Responses.ResponseStreamEvent, { type: T }> => event.type === type)
  expect(of('response.output_text.delta').map(({ delta, logprobs }) => [delta, logprobs])).toEqual([
    [tokens[0][0], [expected[0] as never]],
    [tokens[1][0], [expected[1] as never]],
    ['!', []],
  ])
  const part = { type: 'output_text', text: `${said}!`, logprobs: expected }
  expect(of('response.output_text.done')).toMatchObject([{ text: `${said}!`, logprobs: expected }])
  expect(of('response.content_part.done')).toMatchObject([{ part }])
  expect(of('response.output_item.done')).toMatchObject([{ item: { content: [part] } }])
  expect(of('response.completed')).toMatchObject([{ response: { output: [{ content: [part] }] } }])
  expect(of('response.content_part.added')).toMatchObject([{ part: { text: '', logprobs: [] } }])
})

test('§35: those of a text that its node holds back go with the text, and those of thoughts go nowhere', async () => {
  node.answer(async (call) => {
    call.open()
    const chunk = (delta: object, at: number, finish: 'stop' | null = null) => {
      const made = nodeChunk(delta, finish) as unknown as { choices: Record<string, unknown>[] }
      Object.assign(made.choices[0] ?? {}, { logprobs: { content: [content[at]] } })
      return call.event(made)
    }
    await chunk({ reasoning_content: 'so' }, 0)
    await chunk({ content: '' }, 0)
    await chunk({ content: 'ü' }, 1)
    await chunk({}, 0, 'stop')
    await call.event({ ...nodeChunk({}), choices: [], usage })
    await call.event('[DONE]')
    call.end()
  })
  const events: OpenAI.Responses.ResponseStreamEvent[] = []
  const stream = await client.responses.create({ model, input: 'hi', stream: true, top_logprobs: 2 })
  for await (const event of stream) events.push(event)
  const [zero, one] = expected
  expect(events.find(({ type }) => type === 'response.output_text.delta')).toMatchObject({ logprobs: [zero, one] })
  const done = events.find(({ type }) => type === 'response.completed') as OpenAI.Responses.ResponseCompletedEvent
  expect(done.response.output.at(-1)).toMatchObject({ content: [{ text: 'ü', logprobs: [zero, one, zero] }] })
})

test('§35: more than twenty beside each token are refused', async () => {
  const failure = await client.responses
    .create({ model, input: 'hi', top_logprobs: 21 })
    .catch((error: unknown) => error)
  expect(failure).toMatchObject({ status: 400, param: 'top_logprobs' })
})
