import { afterEach, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { Fault } from '../../src/fake-node/faults.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'

const gateway = await fixture(startTestGateway({ env: { SVC_INTER_CHUNK_TIMEOUT_MS: '6000' } }))
const node = await fixture(startFakeNode({ models: ['m'] }))
const customer = await gateway.customer()
await gateway.node(node.url, { customerId: customer.customerId })
const client = new Anthropic({ apiKey: customer.key, baseURL: gateway.url, maxRetries: 0 })

afterEach(() => {
  node.clearFaults()
  node.setAnswer({ chunks: 5, intervalMs: 0 })
})

const hello: Anthropic.MessageCreateParamsNonStreaming = {
  model: 'm',
  max_tokens: 1_000,
  messages: [{ role: 'user', content: 'hello there' }],
}
const whole = 'fake-0 fake-1 fake-2 fake-3 fake-4 '
const textOf = ({ content }: Anthropic.Message) =>
  content.map((block) => (block.type === 'text' ? block.text : '')).join('')
const schema = { type: 'object', properties: { echo: { type: 'string' } }, required: ['echo'] } as const

describe('§28: Anthropic’s own client', () => {
  test('whole, by a key in x-api-key and by a token in authorization', async () => {
    const byToken = new Anthropic({ authToken: customer.key, apiKey: null, baseURL: gateway.url, maxRetries: 0 })
    for (const asking of [client, byToken]) {
      const { data, request_id } = await asking.messages.create(hello).withResponse()
      expect([textOf(data), data.stop_reason, data.usage.output_tokens]).toEqual([whole, 'end_turn', 5])
      expect(data).toMatchObject({ svc: { request_id: request_id ?? '' } } as object)
    }
  })

  test('the loop of its tool runner comes to an end, whole and streamed', async () => {
    for (const stream of [false, true]) {
      const given: unknown[] = []
      const look = {
        type: 'custom',
        name: 'look',
        input_schema: schema,
        parse: (input: unknown) => input,
        run: (input: unknown) => {
          given.push(input)
          return 'sunny'
        },
      } as const
      const runner = client.beta.messages.toolRunner({ ...hello, tools: [look], max_iterations: 5, stream })
      const last = await runner.runUntilDone()
      expect(last.content).toMatchObject([{ type: 'text', text: whole }])
      expect(given).toEqual([{ fake: true }])
      // The runner would rather leave the conversation to the server; told that it cannot, it sends all of it.
      expect(node.requests.at(-1)?.body).toMatchObject({
        messages: [{}, { role: 'assistant', tool_calls: [{}] }, { role: 'tool', content: 'sunny' }],
      })
    }
  })

  test('structured output, parsed by the SDK', async () => {
    const output_config = { format: { type: 'json_schema', schema, parse: JSON.parse } } as const
    const message = await client.messages.parse({ ...hello, output_config })
    expect(message.parsed_output as unknown).toEqual({ echo: 'hello there' })
    expect(node.requests.at(-1)?.body).toMatchObject({ response_format: { json_schema: { schema } } })
  })

  interface Trial {
    readonly key?: string
    readonly body?: object
    readonly fault?: Fault
  }
  const refusals = [
    ['401', Anthropic.AuthenticationError, 'authentication_error', { key: 'nonsense' }],
    ['404', Anthropic.NotFoundError, 'not_found_error', { body: { model: 'unknown' } }],
    ['400', Anthropic.BadRequestError, 'invalid_request_error', { body: { top_p: 5 } }],
    ['502', Anthropic.InternalServerError, 'api_error', { fault: { kind: 'status500' } }],
    ['429', Anthropic.RateLimitError, 'rate_limit_error', { fault: { kind: 'status429' } }],
  ] as const satisfies readonly (readonly [string, unknown, string, Trial])[]
  test.each(refusals.map((row) => [...row] as const))(
    'errors are of the SDK’s own classes, whole and streamed: %s',
    async (status, Class, type, { key, body, fault }: Trial) => {
      if (fault !== undefined) node.setFaults(fault)
      const asking = key === undefined ? client : client.withOptions({ apiKey: key })
      for (const stream of [false, true]) {
        const error: unknown = await asking.messages
          .create({ ...hello, ...body, stream })
          .catch((thrown: unknown) => thrown)
        expect(error).toBeInstanceOf(Class)
        expect(error).toMatchObject({ status: Number(status), type, requestID: expect.stringMatching(/^req_/) })
      }
    },
  )

  test.each([
    ['a reset', { kind: 'dropMidStream', afterChunks: 2 }],
    ['an end without a reason', { kind: 'endWithoutFinish', afterChunks: 2 }],
    ['silence', { kind: 'stall', afterChunks: 2 }],
  ] as const)('a failure in the middle of a stream is raised, never a good end: %s', async (_, fault) => {
    node.setFaults(fault)
    let text = ''
    let raised: unknown = null
    try {
      for await (const event of await client.messages.create({ ...hello, stream: true })) {
        if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') text += event.delta.text
      }
    } catch (error) {
      raised = error
    }
    expect(text).toBe('fake-0 fake-1 ')
    expect(raised).toBeInstanceOf(Anthropic.APIError)
  })

  test('leaving the loop, or aborting a whole answer, stops the node', async () => {
    node.setAnswer({ chunks: 1_000, intervalMs: 20 })
    const left = node.nextAbort()
    for await (const event of await client.messages.create({ ...hello, stream: true })) {
      if (event.type === 'content_block_delta') break
    }
    expect((await left).outcome).toBe('aborted')
    const [arrived, aborted] = [node.nextRequest(), node.nextAbort()]
    const leaving = new AbortController()
    const failing = client.messages.create(hello, { signal: leaving.signal }).catch((thrown: unknown) => thrown)
    await arrived
    leaving.abort()
    expect(await failing).toBeInstanceOf(Anthropic.APIUserAbortError)
    expect((await aborted).outcome).toBe('aborted')
  })
})
