import { beforeEach, expect, test } from 'bun:test'
import { createSpanExporter, type FinishedSpan, readHeaders } from '../../../src/actors/telemetry/trace-export.ts'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { readConfig } from '../../../src/settings/config.ts'
import { postJson } from '../../support/clients/post-json.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { type SeenSpan, startCollector } from '../../support/money/collector.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'
import conventions from './fixtures/semantic-conventions.json'

const secret = 'the-prompt-nobody-may-see'
const ids = { trace: '4bf92f3577b34da6a3ce929d0e0e4736', parent: '00f067aa0ba902b7' }
const sampled = `00-${ids.trace}-${ids.parent}-01`
const [internal, server, client] = [1, 2, 3]

const collector = await fixture(startCollector())
const gateway = await fixture(
  startTestGateway({
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/`,
      OTEL_EXPORTER_OTLP_HEADERS: 'Authorization=Bearer%20word,x-team=a=b',
    },
  }),
)
const node = await fixture(startFakeNode({ models: ['a', 'b', 'agg'] }))
const customer = await gateway.customer()
const id = await gateway.node(node.url, { customerId: customer.customerId })
await gateway.admin('PATCH', `/v1/admin/nodes/${id}`, { name: 'the-rack' })

beforeEach(() => {
  collector.clear()
  node.clearFaults()
})

const ask = (body: object, headers: Readonly<Record<string, string>> = {}) =>
  gateway.chat(
    customer.key,
    { model: 'a', messages: [{ role: 'user', content: secret }], ...body },
    { headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json', ...headers } },
  )
const named = (spans: readonly SeenSpan[], name: string) => spans.filter((span) => span.name === name)
const one = (spans: readonly SeenSpan[], name: string) => {
  const [found, more] = named(spans, name)
  if (found === undefined || more !== undefined) throw new Error(`${named(spans, name).length} spans are ${name}`)
  return found
}

test.each([false, true])(
  '§18: a SERVER span for chat, a CLIENT span for its call, continued from the caller (stream: %p)',
  async (stream) => {
    const response = await ask(
      {
        stream,
        stream_options: stream ? { include_usage: true } : undefined,
        temperature: 1,
        top_p: 0.5,
        max_tokens: 40,
        seed: 7,
        stop: [secret],
      },
      { traceparent: sampled },
    )
    const text = await response.text()
    const spans = await collector.trace(ids.trace, 2)
    const [request, call] = [one(spans, 'POST /v1/api/chat/completions'), one(spans, 'chat a')]
    expect(request).toMatchObject({ kind: server, parentSpanId: ids.parent, status: 0 })
    expect(request.attributes).toEqual({
      'http.request.method': 'POST',
      'http.route': '/v1/api/chat/completions',
      'url.path': '/v1/api/chat/completions',
      'url.scheme': 'http',
      'svc.request.id': response.headers.get('x-request-id') ?? '',
      'http.response.status_code': 200,
    })
    expect(call).toMatchObject({ kind: client, parentSpanId: request.spanId, status: 0 })
    const [, usage = '{}'] = /"usage":(\{[^}]+\})/.exec(text) ?? []
    const { prompt_tokens, completion_tokens } = JSON.parse(usage) as Record<string, number>
    expect(call.attributes).toEqual({
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'svc',
      'gen_ai.request.model': 'a',
      'gen_ai.request.temperature': 1,
      'gen_ai.request.top_p': 0.5,
      'gen_ai.request.max_tokens': 40,
      'gen_ai.request.seed': 7,
      'svc.request.id': node.requests.at(-1)?.headers['x-svc-request-id'] ?? '',
      'svc.node.name': 'the-rack',
      'gen_ai.response.model': 'a',
      'gen_ai.usage.input_tokens': prompt_tokens ?? -1,
      'gen_ai.usage.output_tokens': completion_tokens ?? -1,
      'gen_ai.response.finish_reasons': ['stop'],
    })
    expect(call.startMs).toBeGreaterThanOrEqual(request.startMs)
    expect(call.endMs).toBeLessThanOrEqual(request.endMs)
    expect(call.endMs).toBeGreaterThan(call.startMs)
  },
)

test('§18: a request without traceparent, or with one that is none, begins a trace of its own', async () => {
  for (const traceparent of [undefined, `00-${'0'.repeat(32)}-${ids.parent}-01`, 'ff-x', '00-zz-00-01', secret]) {
    collector.clear()
    await (await ask({}, traceparent === undefined ? {} : { traceparent })).text()
    await waitFor('the spans', () => collector.spans.length >= 2)
    const request = one(collector.spans, 'POST /v1/api/chat/completions')
    expect(request.parentSpanId).toBeUndefined()
    expect(request.traceId).toMatch(/^(?!0{32})[0-9a-f]{32}$/)
  }
})

test('§18: a caller who does not record its trace gets none here either', async () => {
  await (await ask({}, { traceparent: sampled.replace(/01$/, '00') })).text()
  await (await ask({}, { traceparent: sampled })).text()
  expect(await collector.trace(ids.trace, 2)).toHaveLength(2)
  expect(collector.spans).toHaveLength(2)
})

test('§18: the node hears nothing of the trace', async () => {
  await (await ask({}, { traceparent: sampled, tracestate: 'a=b', baggage: 'c=d' })).text()
  await collector.trace(ids.trace, 2)
  const sent = node.requests.at(-1)
  expect(Object.keys(sent?.headers ?? {}).filter((name) => /trace|baggage/.test(name))).toEqual([])
  expect(JSON.stringify(sent)).not.toContain(ids.trace)
})

test('§18: error.type is the code: of a call that failed, of the request that failed with it, of a refusal', async () => {
  node.setFaults({ kind: 'status500' })
  expect((await ask({}, { traceparent: sampled })).status).toBe(502)
  const spans = await collector.trace(ids.trace, 2)
  expect(one(spans, 'chat a')).toMatchObject({ status: 2, attributes: { 'error.type': 'upstream_error' } })
  const request = one(spans, 'POST /v1/api/chat/completions')
  expect(request).toMatchObject({
    status: 2,
    attributes: { 'error.type': 'upstream_error', 'http.response.status_code': 502 },
  })
  collector.clear()
  node.clearFaults()
  await (await ask({ model: secret }, { traceparent: sampled })).text()
  const [refused, more] = await collector.trace(ids.trace, 1)
  expect(more).toBeUndefined()
  expect(refused).toMatchObject({
    status: 0,
    attributes: { 'error.type': 'model_not_found', 'http.response.status_code': 404 },
  })
})

test('§18: a stream that breaks ends its call with the code, and with what it used', async () => {
  node.setFaults({ kind: 'dropMidStream', afterChunks: 2, how: 'reset' })
  await (await ask({ stream: true }, { traceparent: sampled })).text()
  const call = one(await collector.trace(ids.trace, 2), 'chat a')
  expect(call).toMatchObject({ status: 2, attributes: { 'error.type': 'node_lost', 'gen_ai.response.model': 'a' } })
})

test('§18: a client that leaves ends both spans, and neither is an error', async () => {
  node.setFaults({ kind: 'hang' })
  const gone = new AbortController()
  const arrived = node.nextRequest()
  const asking = gateway.chat(
    customer.key,
    { model: 'a', messages: [{ role: 'user', content: secret }] },
    {
      headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json', traceparent: sampled },
      signal: gone.signal,
    },
  )
  await arrived
  gone.abort()
  await asking.catch(() => {})
  const spans = await collector.trace(ids.trace, 2)
  expect(spans.map(({ status }) => status)).toEqual([0, 0])
  expect(one(spans, 'chat a').attributes['error.type']).toBeUndefined()
  expect(one(spans, 'POST /v1/api/chat/completions').attributes['http.response.status_code']).toBe(499)
})

test('§18: the sub-calls of a mixture stand under svc.mixture', async () => {
  node.setFaults({ kind: 'status500', match: 'b' })
  const mixture = { strategy: 'synthesize', experts: [{ model: 'a' }, { model: 'b' }], aggregator: { model: 'agg' } }
  const answer = await ask({ model: 'council', svc: { mixture } }, { traceparent: sampled })
  expect(answer.status).toBe(200)
  const spans = await collector.trace(ids.trace, 5)
  const request = one(spans, 'POST /v1/api/chat/completions')
  const parent = one(spans, 'svc.mixture')
  expect(parent).toMatchObject({ kind: internal, parentSpanId: request.spanId, status: 0 })
  expect(parent.attributes).toEqual({
    'svc.request.id': answer.headers.get('x-request-id') ?? '',
    'svc.mixture.strategy': 'synthesize',
    'svc.mixture.experts': ['a', 'b'],
    'svc.mixture.weights': ['1', '1'],
    'svc.mixture.min_experts': 1,
    'svc.mixture.answered': 1,
    'svc.mixture.degraded': true,
    'svc.mixture.outcome': 'degraded',
  })
  for (const model of ['a', 'b', 'agg']) expect(one(spans, `chat ${model}`).parentSpanId).toBe(parent.spanId)
  expect(one(spans, 'chat b').attributes['error.type']).toBe('upstream_error')
  expect(one(spans, 'chat agg').attributes['gen_ai.usage.output_tokens']).toBeGreaterThan(0)
})

test('§18: failover: each try is a call of its own', async () => {
  await using second = await scoped(startFakeNode({ models: ['pair'] }))
  await using third = await scoped(startFakeNode({ models: ['pair'] }))
  for (const { url } of [second, third]) await gateway.node(url, { customerId: customer.customerId })
  for (const each of [second, third]) each.setFaults({ kind: 'status500', times: 1 })
  await (await ask({ model: 'pair' }, { traceparent: sampled })).text()
  const spans = await collector.trace(ids.trace, 3)
  expect(named(spans, 'chat pair').map(({ status }) => status)).toEqual([2, 2])
})

test('§18: every attribute has the name and type of the published conventions, or our own prefix', async () => {
  const published = new Map(conventions.registries.flatMap(({ attributes }) => Object.entries(attributes)))
  await using own = await scoped(startFakeNode({ models: ['e'] }))
  await gateway.node(own.url, { customerId: customer.customerId })
  const sampling = {
    top_k: 5,
    frequency_penalty: 0,
    presence_penalty: 0.5,
    n: 1,
    seed: 1,
    temperature: 0,
    max_completion_tokens: 9,
  }
  await (await ask({ model: 'e', ...sampling }, { traceparent: sampled })).text()
  await postJson(
    `${gateway.url}/v1/completions`,
    customer.key,
    { model: 'e', prompt: secret },
    { headers: { traceparent: sampled } },
  ).then((response) => response.text())
  const spans = await collector.trace(ids.trace, 4)
  expect(one(spans, 'chat e').attributes['gen_ai.request.max_tokens']).toBe(9)
  expect(one(spans, 'POST /v1/api/completions').attributes['url.path']).toBe('/v1/completions')
  expect(named(spans, 'text_completion e')).toHaveLength(1)
  for (const { attributes, types } of spans) {
    for (const [name, type] of Object.entries(types)) {
      if (!name.startsWith('svc.'))
        expect({ name, type }).toEqual({ name, type: published.get(name) ?? 'not published' })
    }
    const { 'gen_ai.operation.name': operation } = attributes
    if (operation !== undefined) expect(conventions.operations).toContain(String(operation))
  }
})

test('§18: no prompt, answer, key, address or customer is in what is sent; the headers of the setting are', () => {
  expect(collector.bodies.length).toBeGreaterThan(5)
  const all = collector.bodies.join('\n')
  const answerText = 'fake-'
  const port = new URL(node.url).port
  for (const hidden of [
    secret,
    answerText,
    customer.key,
    customer.customerId,
    `:${port}`,
    'node_01',
    'rt_01',
    'word',
  ]) {
    expect({ hidden, found: all.includes(hidden) }).toEqual({ hidden, found: false })
  }
  expect(collector.headers[0]).toMatchObject({ authorization: 'Bearer word', 'x-team': 'a=b' })
  expect(readHeaders('bad=%zz,,=x')).toEqual({ bad: '%zz' })
})

const span: FinishedSpan = {
  traceId: '1'.repeat(32),
  spanId: '2'.repeat(16),
  parentId: null,
  name: 'n',
  kind: server,
  startedMs: 1,
  endedMs: 2,
  attributes: [],
  isError: false,
}
const log = { warn: () => {}, info: () => {} } as never

test('§18: what a collector refuses for now is sent again; what it refuses for good is dropped and counted', async () => {
  await using own = await scoped(startCollector())
  await using exporter = await scoped(createSpanExporter({ endpoint: own.url, headers: null, serviceName: 's', log }))
  own.fail(503)
  exporter.add(span)
  await waitFor('the second try', () => own.spans.length === 1)
  expect(own.bodies).toHaveLength(2)
  own.fail(400)
  exporter.add(span)
  await waitFor('the drop', () => exporter.dropped() === 1)
  expect(own.spans).toHaveLength(1)
})

test('§18: spans wait a second for others, and twice as long after each refusal, up to half a minute', async () => {
  const own = startCollector()
  const clock = new VirtualClock()
  const exporter = createSpanExporter({ endpoint: own.url, headers: null, serviceName: 's', log, clock })
  own.fail(503, 503, 503, 503, 503, 503)
  exporter.add(span)
  const waits: (readonly number[])[] = []
  for (let tries = 0; tries < 7; tries++) {
    await waitFor('the next try is set', () => clock.waits.length === 1)
    waits.push(clock.waits)
    await clock.pass(clock.waits[0] ?? 0)
  }
  expect(waits.flat()).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000])
  await waitFor('the span', () => own.spans.length === 1)
  exporter.add(span)
  await waitFor('a try after the success', () => clock.waits.length === 1)
  expect(clock.waits).toEqual([1_000])
  await exporter.stop()
  own.stop()
})

test('§18: the queue is bounded, and a stop sends what is left; without a collector it ends all the same', async () => {
  const own = startCollector()
  const exporter = createSpanExporter({ endpoint: own.url, headers: null, serviceName: 's', log })
  for (let at = 0; at < 5_000; at++) exporter.add(span)
  expect(exporter.dropped()).toBe(904)
  await exporter.stop()
  expect(own.spans).toHaveLength(4_096)
  own.stop()
  const alone = createSpanExporter({ endpoint: 'http://127.0.0.1:1', headers: null, serviceName: 's', log })
  alone.add(span)
  await alone.stop()
  expect(alone.dropped()).toBe(1)
})

test('§18: off unless a collector is named, and its address is checked', async () => {
  const quiet = await startTestGateway({ beside: gateway, env: { OTEL_EXPORTER_OTLP_ENDPOINT: '' } })
  try {
    const before = collector.bodies.length
    const { status } = await quiet.chat(customer.key, { model: 'nothing', messages: [{ role: 'user', content: 'x' }] })
    expect(status).toBe(404)
    expect(collector.bodies.length).toBe(before)
  } finally {
    await quiet.stop()
  }
  const read = readConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: '127.0.0.1:4318' })
  expect('faults' in read && read.faults.join()).toContain('OTEL_EXPORTER_OTLP_ENDPOINT')
})
