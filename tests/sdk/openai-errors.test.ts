import { afterEach, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { Fault } from '../../src/fake-node/faults.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture, scoped } from '../support/run/fixture.ts'
import { waitFor } from '../support/run/wait-until.ts'

const gateway = await fixture(
  startTestGateway({ env: { SVC_INTER_CHUNK_TIMEOUT_MS: '6000', SVC_TTFT_TIMEOUT_MS: '6000' } }),
)
const node = await fixture(startFakeNode({ models: ['m'] }))
const customer = await gateway.customer()
await gateway.node(node.url, { customerId: customer.customerId })
const client = new OpenAI({ apiKey: customer.key, baseURL: `${gateway.url}/v1/api` })

afterEach(() => node.clearFaults())

const user = (content: string) => ({ role: 'user', content }) as const
const hello = { model: 'm', messages: [user('hello there')] }
const whole = 'fake-0 fake-1 fake-2 fake-3 fake-4 '

describe('errors, by the SDK’s classes', () => {
  const patient = () => ({ maxRetries: 2 })
  async function failure(run: () => Promise<unknown>) {
    const before = node.requests.length
    const error = await run().then(
      () => null,
      (thrown: unknown) => thrown,
    )
    if (!(error instanceof OpenAI.APIError)) throw new Error(`no APIError: ${String(error)}`)
    expect(error.requestID).toMatch(/^req_/)
    expect(error.error).toMatchObject({ svc: { request_id: error.requestID, status: error.status } })
    return { error, calls: node.requests.length - before }
  }
  const refusals: readonly (readonly [
    string,
    () => Promise<unknown>,
    new (...args: never[]) => Error,
    number,
    string,
    string,
  ])[] = [
    [
      '401',
      () => new OpenAI({ apiKey: 'nonsense', baseURL: client.baseURL }).chat.completions.create(hello),
      OpenAI.AuthenticationError,
      401,
      'invalid_api_key',
      'authentication_error',
    ],
    [
      '403',
      () => client.post('/chat/completions', { body: { ...hello, svc: { node_id: 'node_nobody' } } }),
      OpenAI.PermissionDeniedError,
      403,
      'node_pin_forbidden',
      'permission_error',
    ],
    [
      '404 model',
      () => client.chat.completions.create({ ...hello, model: 'unknown' }),
      OpenAI.NotFoundError,
      404,
      'model_not_found',
      'invalid_request_error',
    ],
    [
      '400',
      () => client.chat.completions.create({ ...hello, temperature: 5 }),
      OpenAI.BadRequestError,
      400,
      'invalid_request',
      'invalid_request_error',
    ],
    [
      '400 n',
      () => client.chat.completions.create({ ...hello, n: 2 }),
      OpenAI.BadRequestError,
      400,
      'n_not_supported',
      'invalid_request_error',
    ],
    [
      '400 context',
      () => client.chat.completions.create({ model: 'm', messages: [user('x'.repeat(80_000))] }),
      OpenAI.BadRequestError,
      400,
      'context_length_exceeded',
      'invalid_request_error',
    ],
  ]
  test.each(refusals.map((row) => [...row] as const))(
    '%s: not retried',
    async (_name, run, Class, status, code, type) => {
      const { error, calls } = await failure(run)
      expect(error).toBeInstanceOf(Class)
      expect([error.status, error.code, error.type]).toEqual([status, code, type])
      expect(calls).toBe(0)
    },
  )

  test('the parameter and our words', async () => {
    const { error } = await failure(() => client.chat.completions.create({ ...hello, temperature: 5 }))
    expect(error.param).toBe('temperature')
    expect(error.message).toContain('temperature')
  })

  const failures: readonly (readonly [string, Fault, new (...args: never[]) => Error, number, string])[] = [
    ['502', { kind: 'status500' }, OpenAI.InternalServerError, 502, 'upstream_error'],
    ['429', { kind: 'status429', retryAfterS: 1 }, OpenAI.RateLimitError, 429, 'capacity_exhausted'],
    ['400 of the node', { kind: 'status400' }, OpenAI.BadRequestError, 400, 'invalid_request'],
  ]
  test.each(failures.map((row) => [...row] as const))(
    '%s, whole and streamed',
    async (_name, fault, Class, status, code) => {
      node.setFaults(fault)
      for (const stream of [false, true]) {
        const { error } = await failure(() => client.chat.completions.create({ ...hello, stream }, { maxRetries: 0 }))
        expect(error).toBeInstanceOf(Class)
        expect([error.status, error.code]).toEqual([status, code])
      }
    },
  )

  test('503, with the time to wait', async () => {
    await using gone = await scoped(startFakeNode({ models: ['gone'] }))
    const nodeId = await gateway.node(gone.url, { customerId: customer.customerId })
    await gateway.admin('POST', `/v1/admin/nodes/${nodeId}/drain`)
    const run = () => client.chat.completions.create({ ...hello, model: 'gone' }, { maxRetries: 0 })
    const seen = await waitFor('the drain', async () => {
      const one = await failure(run)
      return one.error.status === 503 ? one : null
    })
    expect(seen.error).toBeInstanceOf(OpenAI.InternalServerError)
    expect([seen.error.status, seen.error.code]).toEqual([503, 'no_route_available'])
    expect(seen.error.headers?.get('retry-after')).toBe('5')
  })

  test('504', async () => {
    node.setFaults({ kind: 'hang' })
    const { error } = await failure(() => client.chat.completions.create({ ...hello, stream: true }, { maxRetries: 0 }))
    expect([error.status, error.code, error.type]).toEqual([504, 'upstream_timeout', 'server_error'])
  })

  test('what may be retried is, and succeeds', async () => {
    node.setFaults({ kind: 'status500', times: 1 })
    const before = node.requests.length
    const { choices } = await client.chat.completions.create(hello, patient())
    expect(choices[0]?.message.content).toBe(whole)
    expect(node.requests.length - before).toBe(2)
  })

  test('what the node refuses is not', async () => {
    node.setFaults({ kind: 'status400' })
    const { calls } = await failure(() => client.chat.completions.create(hello, patient()))
    expect(calls).toBe(1)
  })
})

describe('a failure in the middle of a stream is raised, never a silent end', () => {
  const faults: readonly (readonly [string, Fault, string])[] = [
    ['an error event', { kind: 'errorEvent', afterChunks: 2 }, 'upstream_error'],
    ['object error', { kind: 'errorEvent', afterChunks: 2, shape: 'object' }, 'upstream_error'],
    ['an error line', { kind: 'errorEvent', afterChunks: 2, shape: 'line' }, 'upstream_error'],
    ['a named event', { kind: 'errorEvent', afterChunks: 2, shape: 'named' }, 'upstream_error'],
    ['a reset', { kind: 'dropMidStream', afterChunks: 2 }, 'node_lost'],
    ['a clean end of the connection', { kind: 'dropMidStream', afterChunks: 2, how: 'fin' }, 'node_lost'],
    ['an end without finish_reason', { kind: 'endWithoutFinish', afterChunks: 2 }, 'node_lost'],
    ['silence', { kind: 'stall', afterChunks: 2 }, 'stream_idle_timeout'],
  ]
  test.each(faults.map((row) => [...row] as const))('%s', async (_name, fault, code) => {
    node.setFaults(fault)
    const stream = await client.chat.completions.create({ ...hello, stream: true })
    let text = ''
    let raised: unknown = null
    try {
      for await (const { choices } of stream) text += choices[0]?.delta.content ?? ''
    } catch (error) {
      raised = error
    }
    expect(text).toBe('fake-0 fake-1 ')
    if (!(raised instanceof OpenAI.APIError)) throw new Error(`no APIError: ${String(raised)}`)
    expect([raised.code, raised.type]).toEqual([code, 'server_error'])
  })

  test('the helper rejects too', async () => {
    node.setFaults({ kind: 'dropMidStream', afterChunks: 2 })
    const final = client.chat.completions.stream(hello).finalChatCompletion()
    expect(await final.catch((error: unknown) => error)).toBeInstanceOf(OpenAI.APIError)
  })
})
