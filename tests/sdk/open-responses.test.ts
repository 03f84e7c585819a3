import { describe, expect, test } from 'bun:test'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { postJson } from '../support/clients/post-json.ts'
import { eventFaults, eventsOf, type StreamedEvent } from '../support/open-responses/events.ts'
import { faultsOf, ResponseResource } from '../support/open-responses/response.ts'
import { templates, ways } from '../support/open-responses/templates.ts'
import { startMixturePool } from '../support/pools/mixture-pool.ts'
import { fixture } from '../support/run/fixture.ts'

interface Answer {
  readonly status: string
  readonly output: readonly { readonly type: string; readonly name?: string; readonly arguments?: string }[]
  readonly [key: string]: unknown
}

const thinking = await fixture(startFakeNode({ models: ['thinks'], answer: { reasoning: 'a thought' } }))
const cut = await fixture(startFakeNode({ models: ['cut'], faults: [{ kind: 'dropMidStream', afterChunks: 2 }] }))
const pool = await fixture(startMixturePool())
for (const { url } of [thinking, cut]) await pool.gateway.node(url, { customerId: pool.customer.customerId })

async function ask(body: object): Promise<{ answer: Answer; events: readonly StreamedEvent[] }> {
  const response = await postJson(`${pool.gateway.url}/v1/responses`, pool.customer.key, body)
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status}: ${text}`)
  if (!('stream' in body && body.stream === true)) return { answer: JSON.parse(text), events: [] }
  const events = eventsOf(text)
  return { answer: events.at(-1)?.response as Answer, events }
}

describe.each(ways)('§35: Open Responses %s', (_way, route) => {
  test.each(templates)('$id', async ({ id, body }) => {
    const { answer, events } = await ask({ ...body, ...route })
    expect(faultsOf(ResponseResource, answer)).toEqual([])
    expect(answer.status).toBe('completed')
    expect(answer.output.map(({ type }) => type)).toEqual([id.startsWith('tool') ? 'function_call' : 'message'])
    expect(events.length > 0).toBe('stream' in body)
    expect(eventFaults(events)).toEqual([])
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual([...events.keys()])
    if (id !== 'tool-calling-streaming') return
    const of = (event: StreamedEvent) => (event.item === undefined ? event.type : `${event.type} ${event.item.type}`)
    expect([...new Set(events.map(of))]).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added function_call',
      'response.function_call_arguments.delta',
      'response.function_call_arguments.done',
      'response.output_item.done function_call',
      'response.completed',
    ])
  })
})

describe('§35: the schema of Open Responses', () => {
  const input = 'hello there'

  test('a response repeats the values of its request, and has OpenAI’s defaults for the others', async () => {
    const asked = {
      temperature: 0.25,
      top_p: 0.5,
      presence_penalty: -1,
      frequency_penalty: 1.5,
      max_output_tokens: 64,
      safety_identifier: 'somebody',
      prompt_cache_key: 'a-key',
      instructions: 'Be brief.',
      metadata: { a: 'b' },
    }
    const { answer } = await ask({ model: 'a', input, ...asked })
    expect(answer).toMatchObject({ ...asked, service_tier: 'default', max_tool_calls: null })
    const { answer: plain } = await ask({ model: 'a', input })
    expect(plain).toMatchObject({
      ...{ temperature: 1, top_p: 1, presence_penalty: 0, frequency_penalty: 0, top_logprobs: 0 },
      ...{ safety_identifier: null, prompt_cache_key: null, max_output_tokens: null, metadata: {} },
    })
    expect(faultsOf(ResponseResource, plain)).toEqual([])
    expect(Number(plain.completed_at)).toBeGreaterThanOrEqual(Number(plain.created_at))
  })

  test('a function and a format have every key, also those that the client left out', async () => {
    const format = { type: 'json_schema', name: 'town', schema: { type: 'object' } }
    const { answer } = await ask({
      ...{ model: 'a', input, text: { format }, tool_choice: { type: 'function', name: 'look' } },
      tools: [{ type: 'function', name: 'look' }],
    })
    expect(faultsOf(ResponseResource, answer)).toEqual([])
    expect(answer).toMatchObject({
      tools: [{ type: 'function', name: 'look', description: null, parameters: null, strict: null }],
      text: { format: { ...format, description: null, strict: false } },
    })
  })

  test.each([[false], [true]])('a response that reached its limit: stream %p', async (stream) => {
    pool.nodes.a.setAnswer({ finishReason: 'length' })
    const { answer, events } = await ask({ model: 'a', input, stream })
    pool.reset()
    expect(answer).toMatchObject({ status: 'incomplete', completed_at: null })
    expect(faultsOf(ResponseResource, answer)).toEqual([])
    expect(eventFaults(events)).toEqual([])
  })

  test('a stream that is lost', async () => {
    const { answer, events } = await ask({ model: 'cut', input, stream: true })
    expect(eventFaults(events)).toEqual([])
    expect(answer).toMatchObject({ status: 'failed', completed_at: null, usage: null, error: { code: 'server_error' } })
  })

  test('thoughts alone have the events of OpenAI, which the schema calls otherwise', async () => {
    const { answer, events } = await ask({ model: 'thinks', input, stream: true })
    expect(faultsOf(ResponseResource, answer)).toEqual([])
    expect([...new Set(eventFaults(events))]).toEqual([
      'response.reasoning_text.delta: no such event',
      'response.reasoning_text.done: no such event',
    ])
  })
})
