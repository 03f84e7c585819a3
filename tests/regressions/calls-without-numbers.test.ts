import { expect, test } from 'bun:test'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { nodeChunk, nodeUsage, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: of a server that leaves `index` out of the calls in its stream, or writes 0 for each, several calls reached the client as
 * one, with the arguments of all behind each other.
 * Cause: each dialect took the position in the list of one chunk for a missing index, and believed every index that was there.
 * Fix: one reader tells the calls of a stream apart by index, id and name, and gives each its index before any dialect sees it.
 */
const gateway = await fixture(startTestGateway({ env: { SVC_OLLAMA_LISTEN: '127.0.0.1:0' } }))
const { key, customerId } = await gateway.customer()
const node = await fixture(startScriptedNode('m'))
const late = await fixture(startScriptedNode('late', 'llama.cpp'))
for (const { url } of [node, late]) await gateway.node(url, { customerId })

type Part = Readonly<Record<string, unknown>>
const begun = (more: Part, name: string, input = '') => ({
  ...more,
  type: 'function',
  function: { name, arguments: input },
})
const grown = (more: Part, input: string) => ({ ...more, function: { arguments: input } })

/** The parts of the calls `left` of `{"a":1}` and `right` of `{"b":2}`, chunk by chunk. */
const forms: Readonly<Record<string, readonly (readonly Part[])[]>> = {
  'without an index, whole': [[begun({ id: 'x' }, 'left', '{"a":1}')], [begun({ id: 'y' }, 'right', '{"b":2}')]],
  'without an index, in parts': [
    [begun({ id: 'x' }, 'left')],
    [grown({}, '{"a"')],
    [grown({}, ':1}')],
    [begun({ id: 'y' }, 'right')],
    [grown({ id: null, index: null }, '{"b":')],
    [grown({ id: '' }, '2}')],
  ],
  'without an index and an id': [[begun({}, 'left', '{"a":1}')], [begun({}, 'right', '{"b":2}')]],
  'without an index, with the name in each part': [
    [begun({}, 'left', '{"a')],
    [begun({}, 'left', '":')],
    [begun({}, 'left', '1}')],
    [begun({}, 'right', '{"b":2}')],
  ],
  'without an index, with the name and an id of its own in each part': [
    [begun({ id: 'x1' }, 'left', '{"a')],
    [begun({ id: 'x2' }, 'left', '":1}')],
    [begun({ id: 'y1' }, 'right', '{"b":')],
    [begun({ id: 'y2' }, 'right', '2}')],
  ],
  'all with index 0, whole': [
    [begun({ index: 0, id: 'x' }, 'left', '{"a":1}')],
    [begun({ index: 0, id: 'y' }, 'right', '{"b":2}')],
  ],
  'all with index 0, in one chunk': [
    [begun({ index: 0, id: 'x' }, 'left', '{"a":1}'), begun({ index: 0, id: 'y' }, 'right', '{"b":2}')],
  ],
  'all with index 0, in parts that repeat the id': [
    [begun({ index: 0, id: 'x' }, 'left')],
    [grown({ index: 0, id: 'x' }, '{"a":1}')],
    [begun({ index: 0, id: 'y' }, 'right')],
    [grown({ index: 0 }, '{"b":')],
    [grown({ index: 0, id: 'y' }, '2}')],
  ],
  'numbered, with one id for both': [
    [begun({ index: 0, id: 'x' }, 'left', '{"a":1}')],
    [begun({ index: 1, id: 'x' }, 'right', '{"b":2}')],
  ],
  'as they should be': [
    [begun({ index: 0, id: 'x' }, 'left')],
    [grown({ index: 0 }, '{"a":1}')],
    [begun({ index: 1, id: 'y' }, 'right', '{"b":')],
    [grown({ index: 1 }, '2}')],
  ],
}

function says(chunks: readonly (readonly Part[])[]): void {
  for (const scripted of [node, late]) {
    scripted.answer(async ({ open, event, end }) => {
      open()
      for (const calls of chunks) await event(nodeChunk({ tool_calls: calls }))
      await event(nodeChunk({}, 'tool_calls', { usage: nodeUsage }))
      await event('[DONE]')
      end()
    })
  }
}

type Json = Readonly<Record<string, unknown>>
const messages = [{ role: 'user', content: 'look' }]
const events = (text: string): readonly Json[] =>
  text.split('\n').flatMap((line) => (line.startsWith('data: {') ? [JSON.parse(line.slice(6))] : []))

async function asked(path: string, body: object): Promise<string> {
  const base = path.startsWith('/api') ? gateway.ollamaUrl : gateway.url
  const response = await postJson(base + path, key, { model: 'm', ...body })
  const text = await response.text()
  expect([response.status, text.includes('"error":{')]).toEqual([200, false])
  return text
}

/** Name and arguments of each call, as a client of each door puts them together. */
const doors: Readonly<Record<string, () => Promise<readonly unknown[]>>> = {
  async chat() {
    const text = await asked('/v1/chat/completions', { messages, stream: true })
    const calls: { name: string; input: string }[] = []
    for (const { choices } of events(text) as readonly { choices: readonly { delta: { tool_calls?: Part[] } }[] }[]) {
      for (const { index, function: called } of choices[0]?.delta.tool_calls ?? []) {
        const { name = '', arguments: input } = called as { name?: string; arguments: string }
        const call = calls[index as number] ?? { name: '', input: '' }
        calls[index as number] = call
        call.name += name
        call.input += input
      }
    }
    return calls.map(({ name, input }) => [name, JSON.parse(input)])
  },
  async 'a chat gathered from a stream'() {
    const text = await asked('/v1/chat/completions', { model: 'late', messages })
    const { tool_calls: calls } = JSON.parse(text).choices[0].message
    return calls.map(({ function: { name, arguments: input } }: { function: Part }) => [
      name,
      JSON.parse(String(input)),
    ])
  },
  async messages() {
    const said = events(await asked('/v1/messages', { messages, max_tokens: 99, stream: true }))
    const names = said.flatMap(({ content_block: block }) => (block as Part | undefined)?.name ?? [])
    const inputs = names.map((_, at) =>
      said
        .flatMap(({ index, delta }) => (index === at ? [(delta as Part | undefined)?.partial_json ?? ''] : []))
        .join(''),
    )
    return names.map((name, at) => [name, JSON.parse(inputs[at] ?? '')])
  },
  async responses() {
    const said = events(await asked('/v1/responses', { input: 'look', stream: true }))
    const { output } = (said.at(-1) as unknown as { response: { output: Part[] } }).response
    return output.map(({ name, arguments: input }) => [name, JSON.parse(String(input))])
  },
  async ollama() {
    const lines = (await asked('/api/chat', { messages })).trim().split('\n')
    const calls = lines.flatMap((line) => JSON.parse(line).message?.tool_calls ?? [])
    return calls.map(({ function: { name, arguments: input } }) => [name, input])
  },
}

const cases = Object.keys(doors).flatMap((door) => Object.keys(forms).map((form) => [door, form] as const))
test.each(cases)('§6: calls of a stream stay apart: %s, %s', async (door, form) => {
  says(forms[form] ?? [])
  expect(await doors[door]?.()).toEqual([
    ['left', { a: 1 }],
    ['right', { b: 2 }],
  ])
})

test('§27: calls that are told apart by their ids are bounded as others are', async () => {
  const calls = (count: number) =>
    Array.from({ length: count }, (_, at) => [begun({ index: 0, id: `c${at}` }, 'f', '{}')])
  const ended = async (count: number) => {
    says(calls(count))
    const response = await postJson(`${gateway.url}/v1/responses`, key, { model: 'm', input: 'look', stream: true })
    return events(await response.text()).at(-1)?.type as unknown
  }
  expect(await ended(256)).toBe('response.completed')
  expect(await ended(257)).toBe('response.failed')
})
