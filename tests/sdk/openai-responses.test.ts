import { afterEach, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { Fault } from '../../src/fake-node/faults.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'

const gateway = await fixture(startTestGateway({ env: { SVC_INTER_CHUNK_TIMEOUT_MS: '6000' } }))
const node = await fixture(startFakeNode({ models: ['m'] }))
const customer = await gateway.customer()
await gateway.node(node.url, { customerId: customer.customerId })
const client = new OpenAI({ apiKey: customer.key, baseURL: `${gateway.url}/v1`, maxRetries: 0 })

afterEach(() => {
  node.clearFaults()
  node.setAnswer({ chunks: 5, intervalMs: 0 })
})

const hello = { model: 'm', input: 'hello there' }
const whole = 'fake-0 fake-1 fake-2 fake-3 fake-4 '
const schema = {
  type: 'object',
  properties: { echo: { type: 'string' } },
  required: ['echo'],
  additionalProperties: false,
}
const look: OpenAI.Responses.FunctionTool = { type: 'function', name: 'look', parameters: schema, strict: true }

describe('§28: OpenAI’s own client and Responses', () => {
  test('whole, with the id of the request', async () => {
    const { data, request_id } = await client.responses.create(hello).withResponse()
    expect([data.output_text, data.status, data.usage?.output_tokens]).toEqual([whole, 'completed', 5])
    expect(data).toMatchObject({ svc: { request_id: request_id ?? '' } } as object)
  })

  test('a function is called and answered, whole and streamed', async () => {
    const ask = {
      whole: (body: OpenAI.Responses.ResponseCreateParamsNonStreaming) => client.responses.create(body),
      streamed: (body: OpenAI.Responses.ResponseCreateParamsNonStreaming) =>
        client.responses.stream({ ...body, stream: true }).finalResponse(),
    }
    for (const run of Object.values(ask)) {
      const input: OpenAI.Responses.ResponseInput = [{ role: 'user', content: 'hello there' }]
      const first = await run({ model: 'm', input, tools: [look] })
      const [called] = first.output
      if (called?.type !== 'function_call') throw new Error('no call')
      expect([called.name, JSON.parse(called.arguments)]).toEqual(['look', { fake: true }])
      const output = { type: 'function_call_output', call_id: called.call_id, output: 'sunny' } as const
      const second = await run({ model: 'm', input: [...input, called, output], tools: [look] })
      expect(second.output_text).toBe(whole)
      expect(node.requests.at(-1)?.body).toMatchObject({
        messages: [{}, { role: 'assistant', tool_calls: [{ id: called.call_id }] }, { role: 'tool', content: 'sunny' }],
      })
    }
  })

  test('structured output, parsed by the SDK', async () => {
    const text = { format: { type: 'json_schema', name: 'echo', schema, strict: true } } as const
    const response = await client.responses.parse({ ...hello, text })
    expect(response.output_parsed as unknown).toEqual({ echo: 'hello there' })
    expect(node.requests.at(-1)?.body).toMatchObject({
      response_format: { type: 'json_schema', json_schema: { name: 'echo', schema, strict: true } },
    })
  })

  const refusals = [
    ['401', OpenAI.AuthenticationError, 'invalid_api_key', { key: 'nonsense' }],
    ['404', OpenAI.NotFoundError, 'model_not_found', { body: { model: 'unknown' } }],
    ['400', OpenAI.BadRequestError, 'invalid_request', { body: { top_p: 5 } }],
    ['502', OpenAI.InternalServerError, 'upstream_error', { fault: { kind: 'status500' } }],
    ['429', OpenAI.RateLimitError, 'capacity_exhausted', { fault: { kind: 'status429' } }],
  ] as const satisfies readonly (readonly [string, unknown, string, Trial])[]
  interface Trial {
    readonly key?: string
    readonly body?: object
    readonly fault?: Fault
  }
  test.each(refusals.map((row) => [...row] as const))(
    'errors are of the SDK’s own classes, whole and streamed: %s',
    async (status, Class, code, { key, body, fault }: Trial) => {
      if (fault !== undefined) node.setFaults(fault)
      const asking = key === undefined ? client : client.withOptions({ apiKey: key })
      for (const stream of [false, true]) {
        const error: unknown = await asking.responses
          .create({ ...hello, ...body, stream })
          .catch((thrown: unknown) => thrown)
        expect(error).toBeInstanceOf(Class)
        expect(error).toMatchObject({ status: Number(status), code, requestID: expect.stringMatching(/^req_/) })
      }
    },
  )

  test.each([
    ['a reset', { kind: 'dropMidStream', afterChunks: 2 }],
    ['an end without a reason', { kind: 'endWithoutFinish', afterChunks: 2 }],
    ['silence', { kind: 'stall', afterChunks: 2 }],
  ] as const)('a failure in the middle of a stream is told, never a good end: %s', async (_, fault) => {
    node.setFaults(fault)
    let text = ''
    let last: OpenAI.Responses.ResponseStreamEvent | undefined
    for await (const event of await client.responses.create({ ...hello, stream: true })) {
      if (event.type === 'response.output_text.delta') text += event.delta
      last = event
    }
    expect(text).toBe('fake-0 fake-1 ')
    expect(last).toMatchObject({ type: 'response.failed', response: { status: 'failed' } } as object)
  })

  test('leaving the loop, or aborting a whole answer, stops the node', async () => {
    node.setAnswer({ chunks: 1_000, intervalMs: 20 })
    const left = node.nextAbort()
    for await (const event of await client.responses.create({ ...hello, stream: true })) {
      if (event.type === 'response.output_text.delta') break
    }
    expect((await left).outcome).toBe('aborted')
    const [arrived, aborted] = [node.nextRequest(), node.nextAbort()]
    const leaving = new AbortController()
    const failing = client.responses.create(hello, { signal: leaving.signal }).catch((thrown: unknown) => thrown)
    await arrived
    leaving.abort()
    expect(await failing).toBeInstanceOf(OpenAI.APIUserAbortError)
    expect((await aborted).outcome).toBe('aborted')
  })
})
