import { afterEach, describe, expect, test } from 'bun:test'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { APICallError, generateText, type LanguageModel, streamText } from 'ai'
import OpenAI from 'openai'
import {
  answerOf,
  expert,
  type MixtureBody,
  type MixtureMetadata,
  startMixturePool,
  synthesize,
  traceEntry,
  usageOf,
  vote,
} from '../support/pools/mixture-pool.ts'
import { fixture } from '../support/run/fixture.ts'

const pool = await fixture(startMixturePool())
const baseURL = `${pool.gateway.url}/v1/api`

afterEach(() => pool.reset())

const [a, b] = [expert('a'), expert('b')]
const council = { model: 'council', messages: [{ role: 'user', content: 'hello there' }] } as const
const completionTokens = (...names: Parameters<typeof usageOf>[0][]) =>
  names.reduce((sum, name) => sum + usageOf(name).completion_tokens, 0)
const traced = () => ({
  strategy: 'synthesize',
  degraded: false,
  experts: (['a', 'b', 'agg'] as const).map((name) => traceEntry(pool, name)),
})
const svcOf = (value: unknown) => (value as { svc?: MixtureMetadata } | undefined)?.svc

describe('openai', () => {
  /** `svc` is a field that the SDK's types do not know; it is sent as it is. */
  const withMixture = <T extends object>(body: T, mixture: MixtureBody): T => ({ ...body, svc: { mixture } })
  const client = () => new OpenAI({ apiKey: pool.customer.key, baseURL })

  test('whole', async () => {
    const answer = await client().chat.completions.create(
      withMixture({ ...council, messages: [...council.messages] }, synthesize(a, b)),
    )
    expect([answer.model, answer.choices[0]?.message.content]).toEqual(['agg', answerOf('agg')])
    expect(answer.usage?.completion_tokens).toBe(completionTokens('a', 'b', 'agg'))
    expect(svcOf(answer)?.mixture).toEqual(traced())
  })

  test.each([[false], [true]])('streamed, include_usage %p', async (include_usage) => {
    const body = {
      ...council,
      messages: [...council.messages],
      stream: true as const,
      stream_options: { include_usage },
    }
    const stream = await client().chat.completions.create(withMixture(body, synthesize(a, b)))
    let text = ''
    let last: OpenAI.ChatCompletionChunk | undefined
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? ''
      last = chunk
    }
    expect(text).toBe(answerOf('agg'))
    expect(last?.usage?.completion_tokens).toBe(completionTokens('a', 'b', 'agg'))
    expect(svcOf(last)?.mixture).toEqual(traced())
  })

  test('the helper builds the whole answer, calls of tools too', async () => {
    const messages = [...council.messages]
    const plain = await client()
      .chat.completions.stream(withMixture({ ...council, messages }, vote(a, b)))
      .finalChatCompletion()
    expect(plain.choices[0]).toMatchObject({
      message: { role: 'assistant', content: answerOf('a') },
      finish_reason: 'stop',
    })
    const tools = [{ type: 'function' as const, function: { name: 'look', parameters: { type: 'object' } } }]
    const called = await client()
      .chat.completions.stream(withMixture({ ...council, messages, tools }, vote(a, b)))
      .finalChatCompletion()
    expect(called.choices[0]).toMatchObject({
      message: { tool_calls: [{ function: { name: 'look', arguments: '{"fake": true}' } }] },
      finish_reason: 'tool_calls',
    })
  })

  test.each([[false], [true]])('a missed quorum is not retried by the SDK: stream %p', async (stream) => {
    pool.nodes.a.setFaults({ kind: 'status500' })
    const body = withMixture({ ...council, messages: [...council.messages], stream }, vote(a))
    const error: unknown = await client()
      .chat.completions.create(body, { maxRetries: 2 })
      .then(
        () => null,
        (thrown: unknown) => thrown,
      )
    if (!(error instanceof OpenAI.APIError)) throw new Error(`no APIError: ${String(error)}`)
    expect([error.status, error.code]).toEqual([503, 'mixture_quorum_not_met'])
    expect(svcOf(error.error)?.mixture.experts.map(({ status }) => status)).toEqual(['upstream_error'])
    expect(pool.calls()).toEqual({ a: 1 })
  })
})

const providers: readonly (readonly [string, (mixture: MixtureBody) => LanguageModel])[] = [
  [
    '@ai-sdk/openai-compatible',
    (mixture) =>
      createOpenAICompatible({
        name: 'penstock',
        baseURL,
        apiKey: pool.customer.key,
        includeUsage: true,
        transformRequestBody: (body) => ({ ...body, svc: { mixture } }),
      }).chatModel('council'),
  ],
  [
    '@ai-sdk/openai .chat',
    (mixture) =>
      createOpenAI({
        baseURL,
        apiKey: pool.customer.key,
        // This provider has no field for what it does not know: the body is completed on its way out.
        fetch: Object.assign(
          (url: Parameters<typeof fetch>[0], init?: RequestInit) =>
            fetch(url, { ...init, body: JSON.stringify({ ...JSON.parse(String(init?.body)), svc: { mixture } }) }),
          { preconnect: fetch.preconnect },
        ),
      }).chat('council'),
  ],
]

describe.each(providers.map((row) => [...row] as const))('%s', (_name, model) => {
  const prompt = 'hello there'

  test('whole', async () => {
    const result = await generateText({ model: model(synthesize(a, b)), prompt, include: { responseBody: true } })
    expect([result.text, result.finishReason]).toEqual([answerOf('agg'), 'stop'])
    expect(result.usage.outputTokens).toBe(completionTokens('a', 'b', 'agg'))
    expect(svcOf(result.response.body)?.mixture).toEqual(traced())
  })

  test('streamed', async () => {
    const result = streamText({ model: model(synthesize(a, b)), prompt, includeRawChunks: true })
    let text = ''
    let svc: MixtureMetadata | undefined
    for await (const part of result.fullStream) {
      if (part.type === 'text-delta') text += part.text
      if (part.type === 'raw') svc = svcOf(part.rawValue) ?? svc
    }
    expect(text).toBe(answerOf('agg'))
    expect([await result.finishReason, (await result.usage).outputTokens]).toEqual([
      'stop',
      completionTokens('a', 'b', 'agg'),
    ])
    expect(svc?.mixture).toEqual(traced())
  })

  test('a missed quorum', async () => {
    pool.nodes.a.setFaults({ kind: 'status500' })
    const error: unknown = await generateText({ model: model(vote(a)), prompt, maxRetries: 0 }).then(
      () => null,
      (thrown: unknown) => thrown,
    )
    if (!APICallError.isInstance(error)) throw new Error(`no APICallError: ${String(error)}`)
    expect(error.statusCode).toBe(503)
    expect(JSON.parse(error.responseBody ?? '')).toMatchObject({ error: { code: 'mixture_quorum_not_met' } })
  })
})
