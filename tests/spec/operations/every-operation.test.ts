import { afterAll, describe, expect, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import type { Operation } from '../../../src/actors/operations/operation.ts'
import { ollamaOperations, operations, pathsOf, routeOf } from '../../../src/actors/operations/registry.ts'
import type { RequestStory } from '../../../src/protocol/wire/admin/requests.ts'
import { newToken } from '../../../src/secrets.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { type ScriptedCall, type ScriptedNode, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { play, sampleOf, streamed } from '../../support/pools/operation-samples.ts'
import { fixture } from '../../support/run/fixture.ts'

/** What every operation shares, asked of each of them: a new one needs its sample alone. */
const all = [...operations, ...ollamaOperations]
const models = [...new Set(all.map((operation) => sampleOf(operation).model))]
/** Those have a listener of their own. */
const isOllama = (operation: Operation) => ollamaOperations.includes(operation)
/** Two nodes of each model. */
const nodes = new Map<string, readonly ScriptedNode[]>()
afterAll(async () => {
  for (const node of [...nodes.values()].flat()) node.stop()
})
const gateway = await fixture(
  startTestGateway({
    env: {
      SVC_QUEUE_WAIT_MS: '50',
      SVC_TTFT_TIMEOUT_MS: '15000',
      SVC_EJECTION_CALLS: '1000000',
      SVC_OLLAMA_LISTEN: '127.0.0.1:0',
      SVC_PROCESSES: '1',
    },
  }),
)
const customer = await gateway.customer()
const denied = await gateway.customer({ policy: { denied_models: ['*'] } })
for (const model of models) {
  const pair = [startScriptedNode(model), startScriptedNode(model)]
  nodes.set(model, pair)
  for (const { url } of pair) await gateway.node(url, { customerId: customer.customerId })
}
const { url } = startScriptedNode('writer')
await gateway.node(url, { customerId: denied.customerId })

type Answering = (call: ScriptedCall) => void | Promise<void>
const answering = (operation: Operation, script: Answering | null) => {
  for (const node of nodes.get(sampleOf(operation).model) ?? []) node.answer(script)
}
/** The next call that arrives at either node; both stay silent until the test answers. */
const arriving = (operation: Operation) => {
  const { promise, resolve } = Promise.withResolvers<ScriptedCall>()
  answering(operation, resolve)
  return promise
}

interface Ask {
  readonly key?: string
  readonly path?: string
  readonly body?: object
  readonly signal?: AbortSignal
}
function formOf(members: object): FormData {
  const form = new FormData()
  for (const [name, value] of Object.entries(members)) form.set(name, value instanceof Blob ? value : String(value))
  return form
}
const ask = (operation: Operation, { key = customer.key, path = routeOf(operation), body = {}, signal }: Ask = {}) => {
  const sample = sampleOf(operation)
  const url = isOllama(operation) ? gateway.ollamaUrl : gateway.url
  const members = { model: sample.model, ...sample.body, ...body }
  const form = operation.form !== undefined
  return fetch(url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, ...(form ? {} : { 'content-type': 'application/json' }) },
    body: form ? formOf(members) : JSON.stringify(members),
    ...(signal === undefined ? {} : { signal }),
  })
}
const receiptsOf = (response: Response) => gateway.database.sql<Record<string, unknown>[]>`
  select kind, prompt_tokens, completion_tokens from receipts where request_id = ${response.headers.get('x-request-id')}`
interface Nodes {
  readonly nodes: readonly { readonly in_flight: number }[]
}
const idle = () =>
  waitFor('no call is open', async () => {
    const { nodes: all } = await gateway.admin<Nodes>('GET', '/v1/admin/nodes')
    return all.every(({ in_flight: calls }) => calls === 0)
  })

/** The code of a refusal, from the envelope that the operation promises. */
const refusal = async ({ envelope }: Operation, response: Response): Promise<readonly [number, string]> => {
  const body = (await response.json()) as { type?: string; error: { code?: string; svc: { code?: string } } }
  if (envelope === 'anthropic') expect(body.type).toBe('error')
  if (envelope === 'ollama') {
    expect(body.error).toBeString()
    return [response.status, (body as unknown as { svc: { code: string } }).svc.code]
  }
  return [response.status, (envelope === 'openai' ? body.error.code : body.error.svc.code) ?? '']
}

const each = describe.each(all.map((operation) => [operation.name, operation] as const))
const eachStreamed = describe.each(streamed.map((operation) => [operation.name, operation] as const))

each('§28: %s', (_, operation) => {
  const sample = sampleOf(operation)

  test('answers below each of its base URLs, is metered, and leaves a receipt of its kind', async () => {
    answering(operation, (call) => play(call, sample))
    for (const path of pathsOf(operation)) {
      const response = await ask(operation, { path })
      const text = await response.text()
      expect([path, response.status]).toEqual([path, 200])
      expect(text).toContain(sample.shows)
      if (operation.response !== undefined) expect(Value.Check(operation.response, JSON.parse(text))).toBe(true)
      await waitFor('the receipt', async () => (await receiptsOf(response)).length === 1)
      expect([...(await receiptsOf(response))]).toEqual([
        { kind: operation.receiptKind, prompt_tokens: sample.usage[0], completion_tokens: sample.usage[1] },
      ])
    }
  })

  test('what is the gateway’s never reaches a node', async () => {
    const call = arriving(operation)
    const svc = operation.form === undefined ? { svc: { job_id: 'j' } } : {}
    const asked = ask(operation, { body: { ...svc, user: 'u', metadata: { a: 'b' } } })
    const { body } = await call
    expect(['svc', 'user', 'metadata', 'store', 'prompt_cache_key'].filter((name) => name in body)).toEqual([])
    await play(await call, sample)
    expect((await asked).status).toBe(200)
  })

  test('a node that fails before its first byte: the other one answers, and the client hears of one', async () => {
    let failed = 0
    answering(operation, (call) => (failed++ === 0 ? call.cut('reset') : play(call, sample)))
    const response = await ask(operation)
    expect(await response.text()).toContain(sample.shows)
    expect([response.status, failed]).toEqual([200, 2])
    // A call to another node has an id of its own in its receipt.
    const id = response.headers.get('x-request-id')
    const { request } = await gateway.admin<RequestStory>('GET', `/v1/admin/requests/${id}`)
    const receipts = () => gateway.database.sql`select kind from receipts where receipt_hash = ${request.receipt_hash}`
    await waitFor('the receipt', async () => (await receipts()).length === 1)
  })

  test('both fail: its own envelope says so', async () => {
    answering(operation, (call) => call.respond(500, { error: { message: 'no' } }))
    expect(await refusal(operation, await ask(operation))).toEqual([502, 'upstream_error'])
  })

  test('a node’s refusal is the client’s to hear, once', async () => {
    let calls = 0
    answering(operation, (call) => {
      calls++
      call.respond(400, { error: { message: 'temperature is out of range', type: 'invalid_request_error' } })
    })
    const response = await ask(operation)
    expect(await response.clone().text()).toContain('temperature is out of range')
    expect(await refusal(operation, response)).toEqual([400, 'invalid_request'])
    expect(calls).toBe(1)
  })

  test('a client that leaves before the node answers, or in the middle of its answer, stops the node', async () => {
    for (const part of [null, '{"choices":[']) {
      const leaving = new AbortController()
      const call = arriving(operation)
      const asked = ask(operation, { signal: leaving.signal }).catch(() => null)
      const { raw, open, gone } = await call
      if (part !== null) {
        open({ 'content-type': 'application/json' })
        await raw(part)
      }
      leaving.abort()
      await gone
      await asked
      await idle()
    }
  })

  test('who may not ask is refused before a node hears of it', async () => {
    let calls = 0
    answering(operation, () => void calls++)
    const codes = async (more: Ask) => refusal(operation, await ask(operation, more))
    expect(await codes({ key: newToken('gateway') })).toEqual([401, 'invalid_api_key'])
    expect(await codes({ body: { model: 'nothing' } })).toEqual([404, 'model_not_found'])
    expect(await codes({ body: { node_id: 'n' } })).toEqual([400, 'direct_node_targeting_not_allowed'])
    expect(await codes({ body: { envelope: {} } })).toEqual([400, 'private_job_payload_not_allowed'])
    expect(await codes({ body: { svc: { dispatch_mode: 'private_job' } } })).toEqual([
      400,
      operation.form === undefined ? 'private_job_not_supported' : 'invalid_request',
    ])
    if (sample.model === 'writer') expect(await codes({ key: denied.key })).toEqual([403, 'model_not_allowed'])
    expect(calls).toBe(0)
  })

  test('it is described, and counted under its canonical path', async () => {
    const document = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as { paths: Record<string, object> }
    const described = document.paths[routeOf(operation)]
    // The document is that of the gateway's own listener.
    if (!isOllama(operation)) expect(described).toHaveProperty('post.requestBody')
    const answer = ['post', 'responses', '200', 'content', 'application/json', 'schema', 'properties']
    if (operation.response !== undefined && !isOllama(operation)) {
      expect(described).toHaveProperty([...answer, 'usage'])
    }
    const metrics = await (
      await fetch(`${gateway.url}/metrics`, { headers: { authorization: `Bearer ${gateway.tokens.viewer}` } })
    ).text()
    expect(metrics).toContain(`svc_http_requests_total{route="${routeOf(operation)}",method="POST",status="200"}`)
  })
})

eachStreamed('§28: a stream of %s', (_, operation) => {
  const sample = sampleOf(operation)
  const body = { stream: true }

  test('comes whole, is metered, and leaves its receipt', async () => {
    answering(operation, (call) => play(call, sample))
    const response = await ask(operation, { body })
    const text = await response.text()
    expect(response.headers.get('content-type')).toStartWith(operation.streamType ?? 'text/event-stream')
    for (const word of sample.shows.split(' ')) expect(text).toContain(word)
    expect(text).toContain('receipt_hash')
    await waitFor('the receipt', async () => (await receiptsOf(response)).length === 1)
    expect([...(await receiptsOf(response))]).toMatchObject([
      { prompt_tokens: sample.usage[0], completion_tokens: sample.usage[1] },
    ])
  })

  test('a node that fails before its first chunk is replaced in silence', async () => {
    let failed = 0
    answering(operation, (call) => (failed++ === 0 ? call.respond(503, {}) : play(call, sample)))
    const text = await (await ask(operation, { body })).text()
    expect(text).toContain('receipt_hash')
    expect(text).not.toMatch(/"error":(?!null)|event: error/)
  })

  test('a node that fails in the middle: an error that the client’s SDK hears, and no end', async () => {
    answering(operation, async (call) => {
      call.open()
      await call.event(sample.events?.[0] ?? {})
      call.cut('reset')
    })
    const text = await (await ask(operation, { body })).text()
    expect(text).toContain('The node stopped responding.')
    expect(text).not.toMatch(/\[DONE\]|message_stop|response\.completed|"done":true/)
    await idle()
  })

  test('a client that leaves in the middle stops the node', async () => {
    const leaving = new AbortController()
    const call = arriving(operation)
    const asked = ask(operation, { body, signal: leaving.signal })
    const { open, event, gone } = await call
    open()
    await event(sample.events?.[0] ?? {})
    const response = await asked
    await response.body?.getReader().read()
    leaving.abort()
    await gone
    await idle()
  })
})
