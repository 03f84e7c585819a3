import { expect, test } from 'bun:test'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { nodeChunk, nodeUsage, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: a client of Messages could not see that an answer had ended at one of its `stop_sequences`, nor at which.
 * Cause: chat has one reason for both ends, and what vLLM and SGLang say beside it was dropped.
 * Fix: where their word is one of the request's own sequences, the message ends with `stop_sequence` and names it.
 */
const gateway = await fixture(startTestGateway())
const { key, customerId } = await gateway.customer()
const node = await fixture(startScriptedNode('m'))
const late = await fixture(startScriptedNode('late', 'llama.cpp'))
for (const { url } of [node, late]) await gateway.node(url, { customerId })

/** What the server says of an end. */
function ends(more: object, finish = 'stop'): void {
  for (const scripted of [node, late]) {
    scripted.answer(async ({ body, open, event, end, respond }) => {
      const last = { index: 0, finish_reason: finish, ...more }
      if (body.stream !== true) {
        return respond(200, { choices: [{ ...last, message: { content: 'a' } }], usage: nodeUsage })
      }
      open()
      await event(nodeChunk({ content: 'a' }))
      await event({ choices: [{ ...last, delta: {} }], usage: nodeUsage })
      await event('[DONE]')
      end()
    })
  }
}

const messages = [{ role: 'user', content: 'hi' }]

async function endOf(model: string, stream: boolean): Promise<unknown> {
  const body = { model, max_tokens: 9, messages, stream, stop_sequences: ['END', '</a>'] }
  const text = await (await postJson(`${gateway.url}/v1/messages`, key, body)).text()
  const said = stream ? /event: message_delta\ndata: (.*)\n/.exec(text)?.[1] : text
  const answer = JSON.parse(said ?? '')
  const { stop_reason, stop_sequence } = stream ? answer.delta : answer
  return [stop_reason, stop_sequence]
}

test.each([
  ['vLLM', { stop_reason: 'END' }, 'stop', ['stop_sequence', 'END']],
  ['SGLang', { matched_stop: '</a>' }, 'stop', ['stop_sequence', '</a>']],
  ['vLLM, at a token of the model', { stop_reason: 128_009 }, 'stop', ['end_turn', null]],
  ['SGLang, at a token of the model', { matched_stop: 2 }, 'stop', ['end_turn', null]],
  ['a server, at no sequence of the request', { stop_reason: '/srv/models' }, 'stop', ['end_turn', null]],
  ['a server that ran out of tokens', { stop_reason: 'END' }, 'length', ['max_tokens', null]],
  ['a server that says nothing', {}, 'stop', ['end_turn', null]],
] as const)('§28: Messages: the sequence at which an answer ended: %s', async (_, more, finish, told) => {
  ends(more, finish)
  const asked = [endOf('m', false), endOf('m', true), endOf('late', false)]
  expect(await Promise.all<unknown>(asked)).toEqual([told, told, told])
})

test('§5: other doors are told nothing of it', async () => {
  ends({ stop_reason: 'END' })
  for (const stream of [false, true]) {
    const body = { model: 'm', messages, stream, stop: ['END'] }
    const text = await (await postJson(`${gateway.url}/v1/chat/completions`, key, body)).text()
    expect(text).toContain('"finish_reason":"stop"')
    expect(text).not.toContain('END')
  }
})
