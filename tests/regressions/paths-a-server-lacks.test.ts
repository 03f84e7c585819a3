import { describe, expect, test } from 'bun:test'
import { expectRefusal } from '../support/clients/chat-refusal.ts'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { nodeOf } from '../support/nodes/agents.ts'
import { type ScriptedCall, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { type OperationSample, play, samples } from '../support/pools/operation-samples.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: Schemathesis saw 502 `upstream_error` for a valid `POST /v1/completions`, which clients then sent again.
 * Cause: the server of the model chats and has no `/v1/completions`; its 404 was taken for a failure of the node.
 * Fix: a server without the path refuses this work, and another server of the model is asked; a 404 that speaks of the model is a failure.
 */
const path = '/v1/completions'
/** Of what the server says. */
const secret = '/srv/weights'
const nodes = await fixture(['m', 'pair', 'pair', 'text-embed'].map((model) => startScriptedNode(model)))
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const ids = await Promise.all(nodes.map(({ url }) => gateway.node(url, { customerId: customer.customerId })))
const alone = ids[0] ?? ''

const sampleOf = ({ path: asked }: ScriptedCall) => samples[asked === path ? 'completions' : 'chat'] as OperationSample
const answering = (call: ScriptedCall) => play(call, sampleOf(call))
/** A server that chats as it should, and answers a completion by this. */
const lacking = (status: number, body: unknown) => (call: ScriptedCall) =>
  call.path === path ? call.respond(status, body) : answering(call)
const ask = (model: string, more: object = {}) =>
  postJson(gateway.url + path, customer.key, { model, prompt: 'Once upon a time', ...more })

const bodies: readonly (readonly [string, object])[] = [
  ['one prompt', {}],
  ['a stream', { stream: true }],
  ['several prompts', { prompt: ['one', 'two'] }],
  ['several prompts as a stream', { prompt: ['one', 'two'], stream: true }],
  ['the best of several answers', { best_of: 2 }],
]
const answers: readonly (readonly [string, number, unknown])[] = [
  ['llama.cpp', 404, { error: { code: 404, message: 'File Not Found: /srv/weights', type: 'not_found_error' } }],
  ['FastAPI', 404, { detail: 'Not Found' }],
  ['gin', 404, '404 page not found in /srv/weights'],
  ['another method alone', 405, { detail: 'Method Not Allowed' }],
  ['work that is not implemented', 501, { error: { message: 'Not Implemented', code: 501 } }],
]

describe('a server that chats and has no completions', () => {
  const expected = { status: 400, code: 'modality_not_supported', retry: false, param: 'model' }

  test.each(bodies)('%s: 400 that names the path, and no strike', async (_name, more) => {
    nodes[0]?.answer(lacking(404, { detail: 'Not Found' }))
    for (let round = 0; round < 4; round++) {
      const { message } = await expectRefusal(await ask('m', more), expected, secret)
      expect(message).toBe('The server of m has no /v1/completions. Use /v1/chat/completions.')
    }
    const messages = [{ role: 'user', content: 'hi' }]
    expect((await gateway.chat(customer.key, { model: 'm', messages })).status).toBe(200)
    expect((await nodeOf(gateway, alone)).last_error).toBeNull()
  })

  test.each(answers)('as %s says it (%d)', async (_name, status, body) => {
    nodes[0]?.answer(lacking(status, body))
    await expectRefusal(await ask('m'), expected, secret)
  })

  test('another server of the model completes the text', async () => {
    nodes[1]?.answer(lacking(404, { detail: 'Not Found' }))
    nodes[2]?.answer(answering)
    for (let round = 0; round < 4; round++) {
      const response = await ask('pair')
      expect([response.status, await response.json()]).toMatchObject([200, { choices: [{ text: 'well said' }] }])
    }
  })

  test('a model that embeds by its name alone: 400 as well', async () => {
    nodes[3]?.answer((call) => call.respond(404, { detail: 'Not Found' }))
    const response = await postJson(`${gateway.url}/v1/embeddings`, customer.key, {
      model: 'text-embed',
      input: 'Once',
    })
    const { message } = await expectRefusal(response, expected, secret)
    expect(message).toBe('The server of text-embed has no /v1/embeddings.')
  })

  test('a 404 that speaks of the model is a failure of the node', async () => {
    nodes[0]?.answer(lacking(404, { object: 'error', message: 'The model `m` does not exist in /srv/weights.' }))
    await expectRefusal(await ask('m'), { status: 502, code: 'upstream_error', retry: true }, secret)
  })
})
