import { afterEach, describe, expect, test } from 'bun:test'
import type { FakeNode } from '../../../src/fake-node/fake-node.ts'
import type { Explanation } from '../../../src/protocol/wire/admin/explanation.ts'
import type { AdminRequest } from '../../../src/protocol/wire/admin/requests.ts'
import { readStream } from '../../support/clients/event-stream.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { nodeAt, startFakeNodes } from '../../support/nodes/fake-nodes.ts'
import { fixture } from '../../support/run/fixture.ts'
import { stopwatch } from '../../support/run/stopwatch.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const queueWaitMs = 300
const firstChunkMs = 400
const messages = [{ role: 'user', content: 'hello' }]

const gateway = await fixture(
  startTestGateway({
    env: {
      SVC_QUEUE_WAIT_MS: String(queueWaitMs),
      SVC_FAILOVER_FIRST_CHUNK_MS: String(firstChunkMs),
      SVC_POLL_INTERVAL_MS: '60000',
      SVC_STALE_AFTER_MS: '600000',
      SVC_OFFLINE_AFTER_MS: '3600000',
    },
  }),
)
const customer = await gateway.customer()
const nodes = await fixture(
  startFakeNodes(4, (at) => ({
    models: [['first', 'second', 'third', 'fourth'][at] as string],
    slots: at === 1 ? 4 : 1,
    speaks: 'llama.cpp',
  })),
)
/** They serve `first`, `second`, `third` and `fourth`; all but the second have one slot. */
const one = nodeAt(nodes, 0)
const two = nodeAt(nodes, 1)
const three = nodeAt(nodes, 2)
const four = nodeAt(nodes, 3)
for (const { url } of nodes) await gateway.node(url, { customerId: customer.customerId })

afterEach(() => {
  for (const node of nodes) {
    node.clearFaults()
    node.setAnswer({ firstTokenMs: 0, intervalMs: 0, chunks: 3 })
  }
})

const ask = (body: object, key = customer.key, init: RequestInit = {}) => gateway.chat(key, { messages, ...body }, init)
interface Answer {
  readonly model: string
  readonly svc: { readonly request_id: string }
}
const answered = async (response: Response) => {
  expect(response.status).toBe(200)
  return (await response.json()) as Answer
}
const recordOf = (requestId: string) =>
  gateway.admin<{ request: AdminRequest; explain: Explanation }>('GET', `/v1/admin/requests/${requestId}`)
const refused = async (response: Response) => {
  const { error } = (await response.json()) as { error: { code: string; param: string | null; message: string } }
  return { status: response.status, code: error.code, param: error.param, message: error.message }
}

describe('§28: models in their order', () => {
  test('the first that can answer does, and the answer, its record and explain say which', async () => {
    const [before, asked] = [one.requests.length, two.requests.length]
    const plain = await answered(await ask({ model: 'first', models: ['second'] }))
    expect([plain.model, one.requests.length - before, two.requests.length - asked]).toEqual(['first', 1, 0])
    const next = await answered(await ask({ model: 'nowhere', models: ['second', 'first'] }))
    expect([next.model, two.requests.length - asked]).toEqual(['second', 1])
    const { request, explain } = await recordOf(next.svc.request_id)
    expect([request.model, request.status, request.tries]).toEqual(['second', 200, 1])
    expect(explain.tries.map(({ model, result }) => [model, result])).toEqual([
      ['nowhere', 'refused'],
      ['second', 'placed'],
    ])
  })

  test('model may be left out, and a name that comes twice is tried once', async () => {
    expect((await answered(await ask({ models: ['second', 'first'] }))).model).toBe('second')
    expect((await answered(await ask({ model: 'first', models: ['first', 'first'] }))).model).toBe('first')
    for (const models of [null, []]) {
      expect((await answered(await ask({ model: 'first', models }))).model).toBe('first')
    }
  })

  test('no node is sent models, and each gets its own name', async () => {
    await ask({ model: 'nowhere', models: ['second'], seed: 7 })
    const { body } = two.requests.at(-1) as { body: Record<string, unknown> }
    expect([body.model, body.models, body.seed]).toEqual(['second', undefined, 7])
  })

  test.each([[false], [true]])('a node that fails before its first token is followed; stream %p', async (stream) => {
    one.setFaults({ kind: 'status500' })
    const response = await ask({ model: 'first', models: ['second'], stream })
    if (!stream) {
      const { model, svc } = await answered(response)
      const { request } = await recordOf(svc.request_id)
      expect([model, request.model, request.tries]).toEqual(['second', 'second', 2])
      return
    }
    const read = await readStream(response)
    expect(read.done).toBe(true)
    expect(new Set(read.chunks.map(({ model }) => model))).toEqual(new Set(['second']))
  })

  test('a stream gives up a silent node after SVC_FAILOVER_FIRST_CHUNK_MS where a model is left', async () => {
    one.setFaults({ kind: 'hang' })
    const elapsed = stopwatch()
    const read = await readStream(await ask({ model: 'first', models: ['second'], stream: true }))
    expect(read.chunks[0]?.model).toBe('second')
    expect(elapsed()).toBeGreaterThanOrEqual(firstChunkMs)
  })

  /** A request that keeps the one slot of a model until it is left. */
  async function holding(node: FakeNode, model: string) {
    node.setAnswer({ firstTokenMs: 60_000 })
    const leave = new AbortController()
    const arrived = node.nextRequest()
    const asking = ask({ model }, customer.key, { signal: leave.signal }).catch(() => null)
    await arrived
    return async () => {
      leave.abort()
      await asking
      await node.idle()
    }
  }

  test('all full: it waits as any request does, then takes the next', async () => {
    const letGo = await holding(one, 'first')
    const elapsed = stopwatch()
    const next = await answered(await ask({ model: 'first', models: ['second'] }))
    expect(next.model).toBe('second')
    expect(elapsed()).toBeGreaterThanOrEqual(queueWaitMs - 20)
    const { request } = await recordOf(next.svc.request_id)
    expect(request.queue_ms).toBeGreaterThanOrEqual(queueWaitMs - 20)
    await letGo()
  })

  test('the wait for a slot is one, however many models are full', async () => {
    const letGo = await Promise.all([holding(one, 'first'), holding(three, 'third'), holding(four, 'fourth')])
    const waitsTwice = (async () => {
      for (let wait = 0; wait < 2; wait++) await (await ask({ model: 'third' })).text()
      return 'two waits'
    })()
    const asking = ask({ models: ['first', 'third', 'fourth'] })
    expect(await Promise.race([asking.then(() => 'the request'), waitsTwice])).toBe('the request')
    const response = await asking
    expect(await refused(response)).toMatchObject({ status: 429, code: 'capacity_exhausted' })
    expect(response.headers.get('retry-after')).not.toBeNull()
    await waitsTwice
    await Promise.all(letGo.map((each) => each()))
  })

  test('a first token is never followed by another model', async () => {
    one.setFaults({ kind: 'dropMidStream', afterChunks: 2 })
    const asked = two.requests.length
    const text = await (await ask({ model: 'first', models: ['second'], stream: true })).text()
    expect(text).toContain('"error"')
    expect(text).not.toContain('"model":"second"')
    expect(two.requests.length).toBe(asked)
  })

  test('each model is one that the key may call', async () => {
    const { gateway_key: key } = await gateway.admin<{ gateway_key: string }>(
      'POST',
      `/v1/admin/customers/${customer.customerId}/keys`,
      { name: 'second alone', model_policy: { allowed_models: ['second'] } },
    )
    const before = one.requests.length
    expect((await answered(await ask({ model: 'first', models: ['second'] }, key))).model).toBe('second')
    expect(await refused(await ask({ model: 'first', models: ['nowhere'] }, key))).toMatchObject({
      status: 403,
      code: 'model_not_allowed',
    })
    expect(one.requests.length).toBe(before)
  })

  test('a client that leaves while the first is asked has no second asked', async () => {
    one.setAnswer({ firstTokenMs: 60_000 })
    const [leave, asked, arrived] = [new AbortController(), two.requests.length, one.nextRequest()]
    const asking = ask({ model: 'first', models: ['second'] }, customer.key, { signal: leave.signal }).catch(() => null)
    await arrived
    const aborted = one.nextAbort()
    leave.abort()
    await Promise.all([asking, aborted])
    await one.idle()
    expect(two.requests.length).toBe(asked)
  })
})

describe('§28: where no model can answer', () => {
  test('the first refusal that may pass is told, and why each did not', async () => {
    one.setFaults({ kind: 'status500' })
    for (const stream of [false, true]) {
      const told = await refused(await ask({ models: ['nowhere', 'first', 'elsewhere'], stream }))
      expect(told).toMatchObject({ status: 502, code: 'upstream_error' })
      expect(told.message).toStartWith('None of the 3 models of this request can answer now. nowhere: ')
      expect(told.message).toContain(' first: The node failed before it answered.')
      expect(told.message).toContain(' elsewhere: No model has this name.')
    }
    const lasting = await refused(await ask({ models: ['nowhere', 'elsewhere'] }))
    expect(lasting).toMatchObject({ status: 404, code: 'model_not_found', param: 'model' })
  })

  test('the record is that of the model that is told', async () => {
    one.setFaults({ kind: 'status500' })
    const response = await ask({ models: ['first', 'nowhere'] })
    const { request } = await recordOf(response.headers.get('x-request-id') ?? '')
    expect([request.model, request.status, request.code, request.tries]).toEqual(['first', 502, 'upstream_error', 1])
    expect(request.node_id).not.toBeNull()
  })
})

describe('§28: the day’s quota', () => {
  test('it reserves the largest bound of all models, and nothing where none can be placed', async () => {
    await gateway.admin('PUT', '/v1/admin/models', { id: 'second', max_output_length: 50 })
    const bounded = await gateway.customer({ policy: { daily_token_quota: 1_000 } })
    await gateway.node(two.url, { customerId: bounded.customerId })
    await gateway.node(three.url, { customerId: bounded.customerId })
    const told = (models: readonly string[]) => ask({ models }, bounded.key).then(refused)
    expect(await told(['nowhere', 'elsewhere'])).toMatchObject({ status: 404 })
    const taken = await gateway.database.sql`select 1 from quota_days where customer_id = ${bounded.customerId}`
    expect([...taken]).toEqual([])
    expect((await answered(await ask({ models: ['second'] }, bounded.key))).model).toBe('second')
    expect(await told(['second', 'third'])).toMatchObject({ status: 429, code: 'daily_token_quota_exceeded' })
  })
})

describe('§28: what is refused before anything is asked', () => {
  const faults = [
    ['nine models', { models: Array.from({ length: 9 }, (_, at) => `m${at}`) }, 'models'],
    ['a name that is none', { model: 'first', models: [7] }, 'models[0]'],
    ['an empty name', { models: [''] }, 'model'],
    ['a text', { model: 'first', models: 'second' }, 'models'],
    ['no model at all', { models: [] }, 'model'],
    [
      'a mixture',
      {
        model: 'any',
        models: ['second'],
        svc: { mixture: { strategy: 'vote', experts: [{ model: 'first' }, { model: 'second' }] } },
      },
      'models',
    ],
  ] as const
  test.each(faults)('no node is asked for %s', async (_, body, param) => {
    const asked = one.requests.length + two.requests.length
    expect(await refused(await ask(body))).toMatchObject({ status: 400, code: 'invalid_request', param })
    expect(one.requests.length + two.requests.length).toBe(asked)
  })
})

test('a node that is back is asked again: nothing of a request stays with its models', async () => {
  one.setFaults({ kind: 'status500', times: 1 })
  await ask({ models: ['first', 'second'] })
  await waitUntil('the first answers', async () => {
    const { model } = await answered(await ask({ models: ['first', 'second'] }))
    return model === 'first'
  })
})
