import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createAnthropic } from '@ai-sdk/anthropic'
import { asSchema, type FlexibleSchema } from '@ai-sdk/provider-utils'
import Anthropic from '@anthropic-ai/sdk'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture } from '../../support/run/fixture.ts'

let sent: Record<string, unknown> = {}
/** Tools that Anthropic defines and its clients run, at a node whose model does not know them (§35). */
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const node = await fixture(startScriptedNode('m'))
await gateway.node(node.url, { customerId: customer.customerId })
const client = new Anthropic({ baseURL: gateway.url, apiKey: customer.key, maxRetries: 0 })

const tools = [
  { type: 'bash_20250124', name: 'bash' },
  { type: 'text_editor_20250728', name: 'str_replace_based_edit_tool', max_characters: 900 },
  { type: 'memory_20250818', name: 'memory' },
] as const
const input = { command: 'ls -l' }
const called = { id: 'call_1', type: 'function', function: { name: 'bash', arguments: JSON.stringify(input) } }
const asked: Anthropic.MessageParam = { role: 'user', content: 'Which files are there?' }

function answers(message: object, finish: string): void {
  node.answer((call) => {
    sent = call.body
    call.respond(200, { choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: finish }] })
  })
}

interface FunctionTool {
  readonly type: 'function'
  readonly function: {
    readonly name: string
    readonly description: string
    readonly parameters: { readonly properties: Readonly<Record<string, { readonly enum?: readonly string[] }>> }
  }
}
const functions = () => sent.tools as readonly FunctionTool[]

test('§35: bash, the text editor and the memory reach a node as functions, and calls of them come back by their names', async () => {
  answers({ content: null, tool_calls: [called] }, 'tool_calls')
  const body = { model: 'm', max_tokens: 9, tools: tools as unknown as Anthropic.ToolUnion[] }
  const first = await client.messages.create({
    ...body,
    messages: [asked],
    tool_choice: { type: 'tool', name: 'bash' },
  })
  expect(functions().map(({ type, function: { name } }) => [type, name])).toEqual(
    tools.map(({ name }) => ['function', name]),
  )
  expect(sent.tool_choice).toEqual({ type: 'function', function: { name: 'bash' } })
  expect(functions()[1]?.function.description).toContain('900 characters')
  expect(first).toMatchObject({
    stop_reason: 'tool_use',
    content: [{ type: 'tool_use', id: 'call_1', name: 'bash', input }],
  })
  answers({ content: 'None.' }, 'stop')
  const result = { type: 'tool_result', tool_use_id: 'call_1', content: 'total 0' } as const
  const last = await client.messages.create({
    ...body,
    messages: [asked, { role: 'assistant', content: first.content }, { role: 'user', content: [result] }],
  })
  expect(last).toMatchObject({ stop_reason: 'end_turn', content: [{ type: 'text', text: 'None.' }] })
  expect((sent.messages as readonly object[]).slice(1)).toMatchObject([
    { role: 'assistant', tool_calls: [called] },
    { role: 'tool', tool_call_id: 'call_1', content: 'total 0' },
  ])
})

interface PublishedInputs {
  readonly properties?: Readonly<Record<string, { readonly enum?: readonly string[]; readonly const?: string }>>
  readonly anyOf?: readonly PublishedInputs[]
  readonly oneOf?: readonly PublishedInputs[]
}
const { tools: published } = createAnthropic({ apiKey: 'none' })
const types = {
  bash_20241022: published.bash_20241022({}),
  bash_20250124: published.bash_20250124({}),
  text_editor_20241022: published.textEditor_20241022({}),
  text_editor_20250124: published.textEditor_20250124({}),
  text_editor_20250429: published.textEditor_20250429({}),
  text_editor_20250728: published.textEditor_20250728({}),
  memory_20250818: published.memory_20250818({}),
}

test.each(Object.entries(types))('§35: %s has the inputs that its clients publish', async (type, { inputSchema }) => {
  answers({ content: 'fine' }, 'stop')
  const tool = { type, name: 't' } as unknown as Anthropic.ToolUnion
  await client.messages.create({ model: 'm', max_tokens: 9, tools: [tool], messages: [asked] })
  const told = functions()[0]?.function.parameters.properties ?? {}
  const wanted = (await asSchema(inputSchema as FlexibleSchema).jsonSchema) as PublishedInputs
  const kinds = wanted.anyOf ?? wanted.oneOf ?? [wanted]
  const names = kinds.flatMap(({ properties = {} }) => Object.keys(properties))
  expect(Object.keys(told).toSorted()).toEqual([...new Set(names)].toSorted())
  const commands = kinds.flatMap(({ properties = {} }) => properties.command?.enum ?? properties.command?.const ?? [])
  expect([...(told.command?.enum ?? [])].toSorted()).toEqual([...commands].toSorted())
})

test('§35: every version of them that Anthropic’s client knows', () => {
  const file = 'node_modules/@anthropic-ai/sdk/resources/beta/messages/messages.d.ts'
  const declared = readFileSync(join(import.meta.dir, '../../..', file), 'utf8')
  const known = [...declared.matchAll(/type: '((?:bash|text_editor|memory)_\d{8})'/g)].map(([, type]) => type)
  expect([...new Set(known)].toSorted()).toEqual(Object.keys(types).toSorted())
})

test.each(['web_search_20250305', 'code_execution_20250825', 'computer_20250124', 'bash_20990101'])(
  '§35: %s is refused by name: nobody runs it, or nothing says what it takes',
  async (type) => {
    const before = node.calls
    const tool = { type, name: 't' } as unknown as Anthropic.ToolUnion
    const failure = client.messages.create({ model: 'm', max_tokens: 9, tools: [tool], messages: [asked] })
    const { status, message } = (await failure.catch((error: unknown) => error)) as InstanceType<
      typeof Anthropic.APIError
    >
    expect([status, node.calls]).toEqual([400, before])
    expect(message).toContain('tools[0]')
  },
)

test('§35: whether the inputs of a client’s own tool must fit its schema exactly reaches the node', async () => {
  answers({ content: 'fine' }, 'stop')
  const input_schema = { type: 'object', properties: {} } as const
  const own = [true, false, null, undefined].map((strict, at) => ({ name: `t${at}`, input_schema, strict }))
  await client.messages.create({ model: 'm', max_tokens: 9, tools: own as Anthropic.Tool[], messages: [asked] })
  expect(functions().map(({ function: told }) => told)).toEqual([
    { name: 't0', parameters: input_schema, strict: true },
    { name: 't1', parameters: input_schema, strict: false },
    { name: 't2', parameters: input_schema },
    { name: 't3', parameters: input_schema },
  ] as never)
})
