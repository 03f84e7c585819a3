import { describe, expect, test } from 'bun:test'
import { postJson } from '../../support/clients/post-json.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture } from '../../support/run/fixture.ts'

const model = 'writer'
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const node = await fixture(startScriptedNode(model))
await gateway.node(node.url, { customerId: customer.customerId })

const ask = (body: object) => postJson(`${gateway.url}/v1/completions`, customer.key, { model, ...body })
const logprobs = { tokens: ['x'], token_logprobs: [-0.5], top_logprobs: null, text_offset: [0] }

describe('§28: completions', () => {
  test.each([
    ['a text', { prompt: 'Once' }],
    ['tokens', { prompt: [1, 2, 3] }],
    ['what comes after, an echo and logprobs', { prompt: 'Once', suffix: 'the end', echo: true, logprobs: 2 }],
    ['one choice of one', { prompt: 'Once', n: 1, best_of: 1 }],
    ['the best of one', { prompt: 'Once', best_of: 1 }],
  ])('one prompt goes to the node as it came, and its text comes back: %s', async (_, body) => {
    const heard = Promise.withResolvers<object>()
    node.answer((call) => {
      heard.resolve(call.body)
      call.respond(200, {
        choices: [{ index: 0, text: 'x', finish_reason: 'stop', logprobs }],
        usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
      })
    })
    const response = await ask(body)
    expect(response.status).toBe(200)
    expect(await response.json()).toMatchObject({
      object: 'text_completion',
      model,
      choices: [{ index: 0, text: 'x', finish_reason: 'stop', logprobs }],
    })
    expect(await heard.promise).toEqual({ model, ...body })
  })
})
