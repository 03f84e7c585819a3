import { afterAll, expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import type { Operation, WholeAnswer } from '../../../src/actors/operations/operation.ts'
import { operations } from '../../../src/actors/operations/registry.ts'
import { readRequestBody, refuseRouting } from '../../../src/actors/operations/request-body.ts'
import { upstreamBody } from '../../../src/protocol/chat/upstream-request.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture } from '../../support/run/fixture.ts'

/** What its file would hold. */
const Shout = Type.Object(
  { model: Type.String(), words: Type.String({ minLength: 1 }) },
  { additionalProperties: true },
)
const estimate = () => ({ tokens: 1, textTokens: 1 })
const shout: Operation<typeof Shout.static> = {
  name: 'shout',
  path: '/shouts',
  summary: 'Shout',
  description: 'Made up',
  schema: Shout,
  modality: 'chat',
  byAgents: false,
  receiptKind: 'hosted_chat',
  envelope: 'openai',
  generates: false,
  idPrefix: 'shout-',
  read: (text) => {
    const body = readRequestBody(text, Shout)
    refuseRouting(body, false)
    return body
  },
  estimate,
  tokensLeast: () => 1,
  prompt: () => null,
  upstream: (text, body) => upstreamBody(text, body, null, null, '/v1/shouts'),
  readWhole: (text): WholeAnswer & { readonly loud: string } => ({
    choices: [],
    usage: { prompt_tokens: 3, completion_tokens: 0, total_tokens: 3 },
    svc: undefined,
    cachedTokens: null,
    outputWeight: () => 0,
    loud: (JSON.parse(text) as { loud: string }).loud,
  }),
  writeWhole: ({ id }, answer, { metadata: svc }) =>
    JSON.stringify({ id, loud: (answer as unknown as { loud: string }).loud, svc }),
}

afterAll(async () => {
  ;(operations as Operation[]).pop()
})
// Its line of the registry.
;(operations as Operation[]).push(shout)
const gateway = await fixture(startTestGateway())
const node = await fixture(startScriptedNode('m'))

test('§28: an operation more is one file and one line; the rest follows', async () => {
  const { customerId, key } = await gateway.customer()
  await gateway.node(node.url, { customerId })
  const ask = (body: object, base = '/v1') =>
    fetch(`${gateway.url}${base}/shouts`, {
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', ...body }),
    })
  let path = ''
  node.answer((call) => {
    path = call.path
    call.respond(200, { loud: String(call.body.words).toUpperCase() })
  })
  for (const base of ['/v1', '/v1/api']) {
    const response = await ask({ words: 'hello', svc: { job_id: 'j' } }, base)
    expect([response.status, await response.json()]).toMatchObject([
      200,
      { loud: 'HELLO', svc: { latency_ms: expect.any(Number) } },
    ])
    const id = response.headers.get('x-request-id')
    const receipt = () => gateway.database.sql`select prompt_tokens, job_id from receipts where request_id = ${id}`
    await waitFor('the receipt', async () => (await receipt()).length === 1)
    expect([...(await receipt())]).toEqual([{ prompt_tokens: 3, job_id: 'j' }])
  }
  expect(path).toBe('/v1/shouts')
  const wrong = await ask({ words: '' })
  expect([wrong.status, await wrong.json()]).toMatchObject([
    400,
    { error: { code: 'invalid_request', param: 'words' } },
  ])
  const lost = await fetch(`${gateway.url}/shouts`, { method: 'POST' })
  expect(await lost.text()).toContain('/v1/shouts is there')
  const { paths } = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as { paths: object }
  expect(paths).toHaveProperty(['/v1/api/shouts', 'post', 'requestBody'])
})
