import { afterEach, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import type { ChatCompletionTool } from 'openai/resources/chat/completions'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())
const node = await fixture(startFakeNode({ models: ['m'] }))
const customer = await gateway.customer()
await gateway.node(node.url, { customerId: customer.customerId })
const client = new OpenAI({ apiKey: customer.key, baseURL: `${gateway.url}/v1/api` })

afterEach(() => {
  node.setAnswer({ reasoning: null, intervalMs: 0, chunks: 5, text: null })
})

const user = (content: string) => ({ role: 'user', content }) as const
const hello = { model: 'm', messages: [user('hello there')] }
const lastBody = () => node.requests.at(-1)?.body as Record<string, unknown>
const whole = 'fake-0 fake-1 fake-2 fake-3 fake-4 '
/** What the SDK's types do not know. */
const svcOf = (answer: object) => (answer as { svc?: Record<string, string> }).svc
const weather: ChatCompletionTool = {
  type: 'function',
  function: {
    name: 'look',
    description: 'x',
    parameters: { type: 'object', properties: { fake: { type: 'boolean' } } },
  },
}

describe('whole', () => {
  test('text, usage, our metadata and the request id', async () => {
    const { data, request_id, response } = await client.chat.completions.create(hello).withResponse()
    expect(data.choices[0]?.message.content).toBe(whole)
    expect(data.choices[0]?.finish_reason).toBe('stop')
    expect(data.usage?.total_tokens).toBe((data.usage?.prompt_tokens ?? 0) + 5)
    expect(svcOf(data)?.runtime_kind).toBe('openai')
    expect([request_id, (data as { _request_id?: string | null })._request_id]).toEqual([
      svcOf(data)?.request_id,
      svcOf(data)?.request_id,
    ])
    expect(response.status).toBe(200)
  })

  test('tool calls, and the loop of runTools to its end', async () => {
    const { choices } = await client.chat.completions.create({ ...hello, tools: [weather], tool_choice: 'auto' })
    expect(choices[0]?.finish_reason).toBe('tool_calls')
    const [call] = choices[0]?.message.tool_calls ?? []
    expect(call?.type === 'function' && call.function).toEqual({ name: 'look', arguments: '{"fake": true}' })
    expect(lastBody().tools).toEqual([weather])
    const given: unknown[] = []
    const runner = client.chat.completions.runTools({
      ...hello,
      tools: [
        {
          type: 'function',
          function: {
            name: 'look',
            description: 'x',
            parameters: { type: 'object', properties: {} },
            parse: JSON.parse,
            function: (args: unknown) => {
              given.push(args)
              return 'sunny'
            },
          },
        },
      ],
    })
    expect(await runner.finalContent()).toBe(whole)
    expect(given).toEqual([{ fake: true }])
    expect(lastBody().messages).toMatchObject([{}, { role: 'assistant' }, { role: 'tool', content: 'sunny' }])
  })

  test('images and other parts reach the node as they are', async () => {
    const content = [
      { type: 'text', text: 'what is it?' } as const,
      { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=', detail: 'low' } } as const,
    ]
    await client.chat.completions.create({ model: 'm', messages: [{ role: 'user', content }] })
    expect(lastBody().messages).toEqual([{ role: 'user', content }])
  })

  test('JSON mode, and a schema that is parsed', async () => {
    const json = await client.chat.completions.create({ ...hello, response_format: { type: 'json_object' } })
    expect(JSON.parse(json.choices[0]?.message.content ?? '')).toEqual({ echo: 'hello there' })
    const schema = {
      type: 'object',
      properties: { echo: { type: 'string' } },
      required: ['echo'],
      additionalProperties: false,
    }
    const response_format = { type: 'json_schema', json_schema: { name: 'echo', strict: true, schema } } as const
    const parsed = await client.chat.completions.parse({ ...hello, response_format })
    expect(lastBody().response_format).toEqual(response_format)
    expect(JSON.parse(parsed.choices[0]?.message.content ?? '')).toEqual({ echo: 'hello there' })
  })

  test('reasoning content', async () => {
    node.setAnswer({ reasoning: 'let me think' })
    const { choices } = await client.chat.completions.create(hello)
    expect(choices[0]?.message).toMatchObject({ reasoning_content: 'let me think', content: whole })
  })

  test('the keyed model list', async () => {
    const models = await client.models.list()
    expect(models.data.map(({ id, owned_by }) => [id, owned_by])).toEqual([['m', 'svc']])
  })
})

describe('streamed', () => {
  test('text; the last chunk has usage and our metadata', async () => {
    const { data: stream, request_id } = await client.chat.completions.create({ ...hello, stream: true }).withResponse()
    const chunks: OpenAI.ChatCompletionChunk[] = []
    for await (const chunk of stream) chunks.push(chunk)
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe(whole)
    expect(chunks[0]?.choices[0]?.delta.role).toBe('assistant')
    const last = chunks.at(-1)
    expect(last?.choices[0]?.finish_reason).toBe('stop')
    expect(last?.usage?.completion_tokens).toBe(5)
    expect(svcOf(last ?? {})?.request_id).toBe(request_id ?? '')
  })

  test('include_usage: a chunk of its own', async () => {
    const stream = await client.chat.completions.create({
      ...hello,
      stream: true,
      stream_options: { include_usage: true },
    })
    const chunks: OpenAI.ChatCompletionChunk[] = []
    for await (const chunk of stream) chunks.push(chunk)
    expect(chunks.at(-1)?.choices).toEqual([])
    expect(chunks.at(-1)?.usage?.completion_tokens).toBe(5)
    expect(svcOf(chunks.at(-1) ?? {})?.receipt_hash).toMatch(/^0x/)
    expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe('stop')
  })

  test('the helper builds the whole answer, with and without include_usage', async () => {
    for (const options of [{}, { stream_options: { include_usage: true } }]) {
      const final = await client.chat.completions.stream({ ...hello, ...options }).finalChatCompletion()
      expect(final.choices[0]?.message).toMatchObject({ role: 'assistant', content: whole })
      expect(final.choices[0]?.finish_reason).toBe('stop')
    }
  })

  test('the helper, where the node sends neither role nor [DONE], and the last text with its finish', async () => {
    node.setAnswer({ roleChunk: false, doneLine: false, textInFinish: true })
    try {
      const final = await client.chat.completions.stream(hello).finalChatCompletion()
      expect(final.choices[0]?.message).toMatchObject({ role: 'assistant', content: whole })
    } finally {
      node.setAnswer({ roleChunk: true, doneLine: true, textInFinish: false })
    }
  })

  test('tool calls', async () => {
    const final = await client.chat.completions.stream({ ...hello, tools: [weather] }).finalChatCompletion()
    const [call] = final.choices[0]?.message.tool_calls ?? []
    expect(call).toMatchObject({ id: 'call_fake_1', function: { name: 'look', arguments: '{"fake": true}' } })
    expect(final.choices[0]?.finish_reason).toBe('tool_calls')
  })

  test('reasoning content', async () => {
    node.setAnswer({ reasoning: 'let me think' })
    const stream = await client.chat.completions.create({ ...hello, stream: true })
    let reasoning = ''
    for await (const { choices } of stream) {
      const delta = choices[0]?.delta as { reasoning_content?: string } | undefined
      reasoning += delta?.reasoning_content ?? ''
    }
    expect(reasoning).toBe('let me think')
  })

  test('leaving the loop stops the node', async () => {
    node.setAnswer({ chunks: 1_000, intervalMs: 20 })
    const aborted = node.nextAbort()
    const stream = await client.chat.completions.create({ ...hello, stream: true })
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break
    expect((await aborted).outcome).toBe('aborted')
  })
})
