import { expect, test } from 'bun:test'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { rawNode } from '../support/nodes/raw-node.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/*
 * What a node says in place of sound was looked at chunk by chunk as it came: a key in two chunks, or in one behind that with the word
 * error, reached the client, and so did one in an error whose first chunk was a brace alone, or in a comment.
 */

const secret = 'sk-node/7QxR-92aa'
const told = `no: Bearer ${secret}`
const error = (message: string) => JSON.stringify({ error: { message, type: 'x', code: 400 } })
const event = (text: string) => `data: ${text}\n\n`
const delta = event('{"type":"transcript.text.delta","delta":"la"}')
const cut = error(told).indexOf(secret) + 6
const [half, rest] = [error(told).slice(0, cut), error(told).slice(cut)]

const json = 'application/json'
const events = 'text/event-stream'
const answers: Readonly<Record<string, { readonly type: string; readonly pieces: readonly string[] }>> = {
  'an error that begins with a brace': { type: json, pieces: ['{', error(told).slice(1)] },
  'an error cut in its key': { type: json, pieces: [half, rest] },
  'an error that says so at its end': { type: json, pieces: [`{"message":"${told}"`, ',"object":"error"}'] },
  'an error event cut in its key': { type: events, pieces: [`data: ${half}`, `${rest}\n\n`] },
  'an error event behind text, cut in its key': { type: events, pieces: [delta, `data: ${half}`, `${rest}\n\n`] },
  'an event called error, line by line': {
    type: events,
    pieces: [delta, 'event: error\n', `data: {"message":"${told}"}\n`, '\n'],
  },
  'an event cut behind the word error': {
    type: events,
    pieces: [delta, 'data: {"error"', `:{"message":"${told}"}}\n\n`],
  },
  'an event without an end': { type: events, pieces: [delta, `data: ${half}`, rest] },
  'a comment in two pieces': {
    type: events,
    pieces: [delta, `: ${told.slice(0, -10)}`, `${told.slice(-10)}\n\n`, delta],
  },
  'the name of an event': { type: events, pieces: [delta, `event: ${told}\nid: ${secret}\n${delta}`] },
}

const gateway = await fixture(startTestGateway({ env: { SVC_EJECTION_CALLS: '1000000', SVC_QUEUE_WAIT_MS: '50' } }))
const node = await fixture(rawNode('whisper-1'))
const customer = await gateway.customer()
const key = customer.key
const { node_id: nodeId } = await gateway.admin<{ node_id: string }>('POST', '/v1/admin/nodes', {
  customer_id: customer.customerId,
  url: node.url,
  api_key: secret,
  visibility: 'private',
  privacy_class: 'private',
  node_class: 'gpu',
})
await waitUntil('the node', async () => {
  return (await gateway.admin<{ state: string }>('GET', `/v1/admin/nodes/${nodeId}`)).state === 'ready'
})

async function transcribed(name: string): Promise<string> {
  const { type, pieces } = answers[name] ?? { type: json, pieces: [] }
  node.says({ type, pieces })
  const form = new FormData()
  form.set('model', 'whisper-1')
  form.set('file', new File(['sound'], 'a.wav'))
  const headers = { authorization: `Bearer ${key}` }
  const response = await fetch(`${gateway.url}/v1/audio/transcriptions`, { method: 'POST', headers, body: form })
  return response.text()
}

test.each(Object.keys(answers))('§5: the key is struck from %s', async (name) => {
  const text = await transcribed(name)
  expect(text).not.toContain('7QxR')
  const { type, pieces } = answers[name] ?? { type: '', pieces: [] }
  if (type === events && pieces[0] === delta) expect(text).toContain(delta)
})

test('§28: what has no key in it passes byte for byte, in whatever pieces it comes', async () => {
  const text = `${delta}: comment\n\nevent: x\r\ndata: 1\r\n\r\n${event('{"error":null,"a":"é"}')}data: end`
  for (const at of [1, 5, delta.length - 1, delta.length, delta.length + 1, text.length - 2]) {
    node.says({ type: events, pieces: [text.slice(0, at), text.slice(at)] })
    const form = new FormData()
    form.set('model', 'whisper-1')
    form.set('file', new File(['sound'], 'a.wav'))
    const headers = { authorization: `Bearer ${key}` }
    const response = await fetch(`${gateway.url}/v1/audio/transcriptions`, { method: 'POST', headers, body: form })
    expect(await response.text()).toBe(text)
  }
})
