import { describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { postJson } from '../../support/clients/post-json.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture } from '../../support/run/fixture.ts'

const model = 'text-embed'
const path = '/v1/api/embeddings'
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const node = await fixture(startScriptedNode(model))
const chatNode = await fixture(startScriptedNode('writer'))
for (const { url } of [node, chatNode]) await gateway.node(url, { customerId: customer.customerId })

const ask = (body: object, key = customer.key) => postJson(gateway.url + path, key, { model, ...body })
const floats = [0.5, -0.25, 1]
const base64 = Buffer.from(new Float32Array(floats).buffer).toString('base64')
const list = (embeddings: readonly unknown[], usage: object | null = { prompt_tokens: 7, total_tokens: 7 }) => ({
  object: 'list',
  model: 'whatever-the-node-calls-it',
  data: embeddings.map((embedding, index) => ({ object: 'embedding', index, embedding })),
  ...(usage === null ? {} : { usage }),
})
const answering = (body: object, status = 200) => node.answer((call) => call.respond(status, body))
interface Embeddings {
  readonly data: readonly { readonly index: number; readonly embedding: unknown }[]
  readonly usage: object
  readonly model: string
  readonly svc: { readonly receipt_hash: string; readonly usage_estimated?: boolean }
}
const answered = async (response: Response) => {
  expect(response.status).toBe(200)
  return (await response.json()) as Embeddings
}
const refused = async (response: Response) => {
  const { error } = (await response.json()) as { error: { code: string; param: string | null; type: string } }
  return [response.status, error.code, error.param] as const
}

describe('§28: embeddings', () => {
  test('JSON in, JSON out, usage, a receipt of its own kind', async () => {
    const arriving = Promise.withResolvers<{ path: string; body: object }>()
    node.answer((call) => {
      arriving.resolve(call)
      call.respond(200, list([floats, [1, 2, 3]]))
    })
    const body = await answered(
      await ask({ input: ['a', 'b'], dimensions: 3, user: 'somebody', svc: { job_id: 'j-1' } }),
    )
    const call = await arriving.promise
    expect(call.path).toBe('/v1/embeddings')
    expect(call.body).toEqual({ model, input: ['a', 'b'], dimensions: 3 })
    expect(body).toMatchObject({
      object: 'list',
      model,
      usage: { prompt_tokens: 7, total_tokens: 7 },
      data: [
        { object: 'embedding', index: 0, embedding: floats },
        { object: 'embedding', index: 1, embedding: [1, 2, 3] },
      ],
    })
    const { receipt_hash: hash } = body.svc
    const rows = () => gateway.database.sql`
      select kind, model_id, prompt_tokens, completion_tokens, job_id from receipts where receipt_hash = ${hash}`
    await waitFor('the receipt', async () => (await rows()).length === 1)
    expect([...(await rows())]).toEqual([
      { kind: 'hosted_embedding', model_id: model, prompt_tokens: 7, completion_tokens: 0, job_id: 'j-1' },
    ])
  })

  test.each([
    ['floats for floats', floats, 'float', floats],
    ['floats where the node says base64', base64, 'float', floats],
    ['base64 where the node says floats', floats, 'base64', base64],
    ['base64 for base64', base64, 'base64', base64],
  ] as const)('the form that was asked for: %s', async (_, given, format, expected) => {
    answering(list([given]))
    const { data } = await answered(await ask({ input: 'a', encoding_format: format }))
    expect(data[0]?.embedding).toEqual(expected)
  })

  test('whatever order the node answers in, the client gets its own', async () => {
    const { data, ...rest } = list([[0], [1], [2]])
    answering({ ...rest, data: data.toReversed() })
    const body = await answered(await ask({ input: [[1, 2], [3], [4]] }))
    expect(body.data.map(({ embedding }) => embedding)).toEqual([[0], [1], [2]])
  })

  test('no usage of the node: it is estimated, and said to be', async () => {
    answering(list([floats], null))
    const body = await answered(await ask({ input: 'a'.repeat(100) }))
    expect(body.usage).toEqual({ prompt_tokens: 30, total_tokens: 30 })
    expect(body.svc.usage_estimated).toBe(true)
  })

  test.each([
    ['too few', list([])],
    ['too many', list([floats, floats])],
    ['one index twice', { data: [{ index: 1, embedding: floats }] }],
    ['a text in place of numbers', list([['a']])],
    ['no 32-bit floats', list([Buffer.from('abc').toString('base64')])],
    ['an error under a 200', { error: { message: 'oops' } }],
  ])('an answer that is none is the node’s failure: %s', async (_, body) => {
    answering(body)
    expect(await refused(await ask({ input: 'a' }))).toEqual([502, 'upstream_error', null])
  })

  test.each([
    [{}, 'input'],
    [{ input: [] }, 'input'],
    [{ input: '' }, 'input'],
    [{ input: Array.from({ length: 2_049 }, () => 'a') }, 'input'],
    [{ input: ['a', 1] }, 'input'],
    [{ input: 'a', encoding_format: 'int8' }, 'encoding_format'],
    [{ input: 'a', stream: true }, 'stream'],
  ])('what the schema refuses names its field: %#', async (body, param) => {
    expect(await refused(await ask(body))).toEqual([400, 'invalid_request', param])
  })

  test('a model that writes embeds nothing, and the other way round', async () => {
    const no = { error: { message: 'This server does not support embeddings.' } }
    chatNode.answer((call) => call.respond(501, no))
    expect(await refused(await ask({ model: 'writer', input: 'a' }))).toEqual([400, 'modality_not_supported', 'model'])
    answering({}, 404)
    const chat = await postJson(`${gateway.url}/v1/api/chat/completions`, customer.key, {
      model,
      messages: [{ role: 'user', content: 'a' }],
    })
    expect(await refused(chat)).toEqual([400, 'modality_not_supported', 'model'])
  })

  test('a mixture of embeddings does not exist', async () => {
    expect(await refused(await ask({ input: 'a', svc: { mixture: {} } }))).toEqual([
      400,
      'mixture_unsupported_path',
      'svc.mixture',
    ])
  })

  test('the published SDK', async () => {
    const client = new OpenAI({ baseURL: `${gateway.url}/v1/api`, apiKey: customer.key })
    answering(list([floats, floats]))
    const { data, usage } = await client.embeddings.create({ model, input: ['a', 'b'] })
    expect(data.map(({ embedding }) => embedding)).toEqual([floats, floats])
    expect(usage).toEqual({ prompt_tokens: 7, total_tokens: 7 })
  })
})
