import { afterEach, describe, expect, test } from 'bun:test'
import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { APICallError, generateText, jsonSchema, type LanguageModel, Output, stepCountIs, streamText, tool } from 'ai'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { Fault } from '../../src/fake-node/faults.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'

const gateway = await fixture(
  startTestGateway({ env: { SVC_INTER_CHUNK_TIMEOUT_MS: '6000', SVC_TTFT_TIMEOUT_MS: '6000' } }),
)
const node = await fixture(startFakeNode({ models: ['m'] }))
const customer = await gateway.customer()
await gateway.node(node.url, { customerId: customer.customerId })

afterEach(() => {
  node.clearFaults()
  node.setAnswer({ reasoning: null, chunks: 5, intervalMs: 0 })
})

// It would warn of models that it does not know.
globalThis.AI_SDK_LOG_WARNINGS = false

const whole = 'fake-0 fake-1 fake-2 fake-3 fake-4 '
const prompt = 'hello there'
const lastBody = () => node.requests.at(-1)?.body as Record<string, unknown>
const baseURL = () => `${gateway.url}/v1/api`

const providers: readonly (readonly [name: string, model: (id: string, key?: string) => LanguageModel])[] = [
  [
    '@ai-sdk/openai-compatible',
    (id, key = customer.key) =>
      createOpenAICompatible({
        name: 'penstock',
        baseURL: baseURL(),
        apiKey: key,
        includeUsage: true,
        supportsStructuredOutputs: true,
      }).chatModel(id),
  ],
  ['@ai-sdk/openai .chat', (id, key = customer.key) => createOpenAI({ baseURL: baseURL(), apiKey: key }).chat(id)],
  ['@ai-sdk/openai', (id, key = customer.key) => createOpenAI({ baseURL: baseURL(), apiKey: key })(id)],
  ['@ai-sdk/anthropic', (id, key = customer.key) => createAnthropic({ baseURL: baseURL(), apiKey: key })(id)],
]

/** What `look` is asked for by the fake node. */
interface Look {
  readonly fake: boolean
}
function lookTool(given: Look[]) {
  return tool({
    description: 'x',
    inputSchema: jsonSchema<Look>({ type: 'object', properties: { fake: { type: 'boolean' } }, required: ['fake'] }),
    execute: (input) => {
      given.push(input)
      return 'sunny'
    },
  })
}
interface Told {
  readonly svc?: Record<string, string>
  /** Where the events of a response have it. */
  readonly response?: Told
}
function svcOf(value: unknown): Record<string, string> | undefined {
  const told = value as Told | undefined
  return told?.svc ?? told?.response?.svc
}

describe.each(providers.map((row) => [...row] as const))('%s', (name, model) => {
  test('whole: text, usage, finish reason, our metadata and the request id', async () => {
    const result = await generateText({ model: model('m'), prompt, include: { responseBody: true } })
    expect([result.text, result.finishReason]).toEqual([whole, 'stop'])
    expect(result.usage.outputTokens).toBe(5)
    expect(svcOf(result.response.body)?.request_id).toBe(result.response.headers?.['x-request-id'] ?? '')
  })

  test('streamed: text, usage, finish reason; our metadata on the last raw chunk', async () => {
    const result = streamText({ model: model('m'), prompt, includeRawChunks: true })
    let text = ''
    let svc: Record<string, string> | undefined
    for await (const part of result.fullStream) {
      if (part.type === 'text-delta') text += part.text
      if (part.type === 'raw') svc = svcOf(part.rawValue) ?? svc
    }
    expect(text).toBe(whole)
    expect([await result.finishReason, (await result.usage).outputTokens]).toEqual(['stop', 5])
    expect(svc?.request_id).toBe((await result.response).headers?.['x-request-id'] ?? '')
    expect(svc?.receipt_hash).toMatch(/^0x/)
  })

  test('tools: called, and the answer after them, whole and streamed', async () => {
    const given: Look[] = []
    const options = { model: model('m'), prompt, tools: { look: lookTool(given) }, stopWhen: stepCountIs(2) }
    const result = await generateText(options)
    expect([result.text, result.steps.length]).toEqual([whole, 2])
    expect(result.steps[0]?.finishReason).toBe('tool-calls')
    const streamed = streamText(options)
    await streamed.consumeStream()
    expect([await streamed.text, (await streamed.steps)[0]?.finishReason]).toEqual([whole, 'tool-calls'])
    expect(given).toEqual([{ fake: true }, { fake: true }])
    expect(lastBody().tools).toMatchObject([{ type: 'function', function: { name: 'look' } }])
  })

  test('images', async () => {
    const image = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
    const content = [
      { type: 'text', text: 'what is it?' } as const,
      { type: 'file', mediaType: 'image/png', data: image } as const,
    ]
    await generateText({ model: model('m'), messages: [{ role: 'user', content }] })
    const url = `data:image/png;base64,${Buffer.from(image).toString('base64')}`
    expect(lastBody().messages).toMatchObject([
      { role: 'user', content: [{ type: 'text' }, { type: 'image_url', image_url: { url } }] },
    ])
  })

  test('JSON mode', async () => {
    const schema = jsonSchema<{ echo: string }>({
      type: 'object',
      properties: { echo: { type: 'string' } },
      required: ['echo'],
      additionalProperties: false,
    })
    // For a model that it does not know, this provider would rather force a call of a tool.
    const providerOptions = { anthropic: { structuredOutputMode: 'outputFormat' } }
    const { output } = await generateText({
      model: model('m'),
      prompt,
      output: Output.object({ schema }),
      providerOptions,
    })
    expect(output).toEqual({ echo: prompt })
    expect(lastBody().response_format).toMatchObject({ type: 'json_schema' })
  })

  test('reasoning content beside the text', async () => {
    node.setAnswer({ reasoning: 'let me think' })
    const result = await generateText({ model: model('m'), prompt })
    const streamed = streamText({ model: model('m'), prompt })
    await streamed.consumeStream()
    expect([result.text, await streamed.text]).toEqual([whole, whole])
    // OpenAI's own providers do not know the field, or look for summaries.
    if (name.startsWith('@ai-sdk/openai') && name !== '@ai-sdk/openai-compatible') return
    expect([result.reasoningText, await streamed.reasoningText]).toEqual(['let me think', 'let me think'])
  })

  const refusals: readonly (readonly [string, () => Parameters<typeof generateText>[0], number, boolean])[] = [
    ['401', () => ({ model: model('m', 'nonsense'), prompt }), 401, false],
    ['404', () => ({ model: model('unknown'), prompt }), 404, false],
    ['400', () => ({ model: model('m'), prompt, topP: 5 }), 400, false],
    ['403', () => ({ model: model('hidden'), prompt }), 403, false],
  ]
  test.each(refusals.map((row) => [...row] as const))('%s', async (_name, options, status, retryable) => {
    const hidden = await gateway.admin<{ gateway_key: string }>(
      'POST',
      `/v1/admin/customers/${customer.customerId}/keys`,
      { name: 'narrow', model_policy: { denied_models: ['m'] } },
    )
    const given = status === 403 ? { model: model('m', hidden.gateway_key), prompt } : options()
    for (const error of await bothErrors({ ...given, maxRetries: 0 })) {
      expect([error.statusCode, error.isRetryable]).toEqual([status, retryable])
      expect(error.responseHeaders?.['x-request-id']).toMatch(/^req_/)
      expect(error.message.length).toBeGreaterThan(5)
      expect(JSON.parse(error.responseBody ?? '')).toMatchObject({ error: { svc: { status } } })
    }
    await gateway.admin('DELETE', `/v1/admin/keys/${(hidden as unknown as { key_id: string }).key_id}`)
  })

  const failures: readonly (readonly [string, Fault, number])[] = [
    ['502', { kind: 'status500' }, 502],
    ['429', { kind: 'status429' }, 429],
  ]
  test.each(failures.map((row) => [...row] as const))('%s', async (_name, fault, status) => {
    node.setFaults(fault)
    for (const error of await bothErrors({ model: model('m'), prompt, maxRetries: 0 })) {
      expect([error.statusCode, error.isRetryable]).toEqual([status, true])
    }
  })

  test('what may be retried is, and succeeds', async () => {
    node.setFaults({ kind: 'status429', times: 1, retryAfterS: 1 })
    expect((await generateText({ model: model('m'), prompt, maxRetries: 1 })).text).toBe(whole)
  })

  test('a client that leaves stops the node', async () => {
    node.setAnswer({ chunks: 1_000, intervalMs: 20 })
    const aborted = node.nextAbort()
    const leaving = new AbortController()
    const { fullStream } = streamText({ model: model('m'), prompt, abortSignal: leaving.signal })
    const parts: string[] = []
    for await (const { type } of fullStream) {
      parts.push(type)
      if (type === 'text-delta') leaving.abort()
    }
    expect(parts.at(-1)).toBe('abort')
    expect((await aborted).outcome).toBe('aborted')
  })

  const faults: readonly (readonly [string, Fault])[] = [
    ['an error event', { kind: 'errorEvent', afterChunks: 2 }],
    ['an error line', { kind: 'errorEvent', afterChunks: 2, shape: 'line' }],
    ['a reset', { kind: 'dropMidStream', afterChunks: 2 }],
    ['a clean end of the connection', { kind: 'dropMidStream', afterChunks: 2, how: 'fin' }],
    ['an end without finish_reason', { kind: 'endWithoutFinish', afterChunks: 2 }],
    ['silence', { kind: 'stall', afterChunks: 2 }],
  ]
  test.each(faults.map((row) => [...row] as const))(
    'in the middle of a stream, an error and no silent end: %s',
    async (_name, fault) => {
      node.setFaults(fault)
      const raised: unknown[] = []
      const result = streamText({
        model: model('m'),
        prompt,
        maxRetries: 0,
        onError: ({ error }) => void raised.push(error),
      })
      let text = ''
      const errors: unknown[] = []
      const finishes: string[] = []
      for await (const part of result.fullStream) {
        if (part.type === 'text-delta') text += part.text
        if (part.type === 'error') errors.push(part.error)
        if (part.type === 'finish') finishes.push(part.finishReason)
      }
      expect(text).toBe('fake-0 fake-1 ')
      expect([errors.length, raised.length]).toEqual([1, 1])
      expect(finishes.every((reason) => reason === 'error')).toBe(true)
    },
  )
})

/** The errors of one call, whole and streamed. */
async function bothErrors(options: Parameters<typeof generateText>[0]): Promise<readonly APICallError[]> {
  const thrown: unknown = await generateText(options).then(
    () => null,
    (error: unknown) => error,
  )
  const streamed: unknown[] = []
  const { model, prompt: asked, maxRetries, topP } = options
  const result = streamText({
    model,
    prompt: String(asked),
    ...(maxRetries === undefined ? {} : { maxRetries }),
    ...(topP === undefined ? {} : { topP }),
    onError: ({ error }) => void streamed.push(error),
  })
  await result.consumeStream()
  return [thrown, ...streamed].map((error) => {
    if (!APICallError.isInstance(error)) throw new Error(`no APICallError: ${String(error)}`)
    return error
  })
}
