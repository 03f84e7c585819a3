import { expect, test } from 'bun:test'
import OpenAI from 'openai'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { nodeChunk, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture } from '../../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const node = await fixture(startScriptedNode('m'))
await gateway.node(node.url, { customerId: customer.customerId })
const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: customer.key, maxRetries: 0 })

const parameters = { type: 'object', properties: {} }
const tools: OpenAI.Responses.Tool[] = [
  { type: 'function', name: 'look', parameters, strict: false },
  {
    type: 'namespace',
    name: 'crm',
    description: 'Of customers.',
    tools: [{ type: 'function', name: 'find', description: 'By name.', parameters, strict: false }],
  },
]
const call = (index: number, name: string) => ({
  index,
  id: `c${index}`,
  type: 'function',
  function: { name, arguments: '{}' },
})

test('§28: functions of a namespace reach the node under one name, and are called by theirs', async () => {
  let sent: Record<string, unknown> = {}
  node.answer((asked) => {
    sent = asked.body
    const message = { role: 'assistant', content: null, tool_calls: [call(0, 'crm__find'), call(1, 'look')] }
    asked.respond(200, { choices: [{ index: 0, message, finish_reason: 'tool_calls' }] })
  })
  const before = {
    type: 'function_call',
    call_id: 'c',
    namespace: 'crm',
    name: 'find',
    arguments: '{"a":1}',
  } as const
  const input: OpenAI.Responses.ResponseInput = [
    { role: 'user', content: 'hi' },
    before,
    { type: 'function_call_output', call_id: 'c', output: 'none' },
  ]
  const { output } = await client.responses.create({ model: 'm', input, tools })
  expect(output).toMatchObject([
    { type: 'function_call', call_id: 'c0', namespace: 'crm', name: 'find' },
    { type: 'function_call', call_id: 'c1', name: 'look' },
  ])
  expect(output[1]).not.toHaveProperty('namespace')
  expect(sent.tools).toEqual([
    { type: 'function', function: { name: 'look', parameters, strict: false } },
    {
      type: 'function',
      function: { name: 'crm__find', description: 'Of customers.\nBy name.', parameters, strict: false },
    },
  ])
  expect(sent.messages).toMatchObject([
    { role: 'user' },
    { role: 'assistant', tool_calls: [{ function: { name: 'crm__find', arguments: '{"a":1}' } }] },
    { role: 'tool', tool_call_id: 'c' },
  ])
})

test('§28: a stream calls them so, too', async () => {
  node.answer(async (asked) => {
    asked.open()
    await asked.event(nodeChunk({ tool_calls: [call(0, 'crm__find')] }))
    await asked.event(nodeChunk({}, 'tool_calls'))
    await asked.event('[DONE]')
    asked.end()
  })
  const events: OpenAI.Responses.ResponseStreamEvent[] = []
  for await (const event of await client.responses.create({ model: 'm', input: 'hi', tools, stream: true }))
    events.push(event)
  const called = { type: 'function_call', namespace: 'crm', name: 'find' }
  expect(events.find(({ type }) => type === 'response.output_item.added')).toMatchObject({ item: called })
  expect(events.at(-1)).toMatchObject({ type: 'response.completed', response: { output: [called] } } as object)
})

test('§28: a function of the same name as a joined one stays itself', async () => {
  node.answer((asked) => {
    const message = { role: 'assistant', content: null, tool_calls: [call(0, 'crm__find')] }
    asked.respond(200, { choices: [{ index: 0, message, finish_reason: 'tool_calls' }] })
  })
  const own: OpenAI.Responses.Tool = { type: 'function', name: 'crm__find', parameters, strict: false }
  const { output } = await client.responses.create({ model: 'm', input: 'hi', tools: [own] })
  expect(output).toMatchObject([{ name: 'crm__find' }])
  expect(output[0]).not.toHaveProperty('namespace')
})

test.each([
  [
    'tools[0].tools[0].type',
    [{ type: 'namespace', name: 'n', description: '', tools: [{ type: 'custom', name: 'x' }] }],
  ],
  ['tools[0].tools', [{ type: 'namespace', name: 'n', description: '' }]],
  ['tools[0].name', [{ type: 'namespace', description: '', tools: [] }]],
])('§28: what a namespace cannot have is refused by name: %s', async (param, wrong) => {
  const failure = await client.responses
    .create({ model: 'm', input: 'hi', tools: wrong as never })
    .catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(OpenAI.BadRequestError)
  expect(failure).toMatchObject({ param })
})
