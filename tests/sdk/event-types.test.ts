import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { nodeChunk, type ScriptedCall, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * The compiler holds every event of many streams, as a literal, against the types that the SDKs publish: a member that is
 * missing, of another type or not theirs is an error. Taken out first are `svc`, which is ours, and what the schema of Open Responses
 * wants and OpenAI's servers answer though the types do not have it: `store`, both penalties, and the null usage of a running response.
 */

const root = resolve(import.meta.dir, '../..')
/** Below the checkout, so that the SDKs are found. */
const folder = mkdtempSync(join(root, 'node_modules', '.event-types-'))
const gateway = await fixture(startTestGateway({ env: { SVC_INTER_CHUNK_TIMEOUT_MS: '6000' } }))
const customer = await gateway.customer()
const node = await fixture(startScriptedNode('m'))
await gateway.node(node.url, { customerId: customer.customerId })

afterAll(() => rmSync(folder, { recursive: true }))

const usage = { prompt_tokens: 11, completion_tokens: 5, total_tokens: 16 }
const call = (index: number, more: object) => ({ tool_calls: [{ index, ...more }] })
const calls = [
  call(0, { id: 'c1', type: 'function', function: { name: 'look', arguments: '' } }),
  call(0, { function: { arguments: '{"a":' } }),
  call(0, { function: { arguments: '1}' } }),
  call(1, { id: 'c2', type: 'function', function: { name: 'n__find', arguments: '{}' } }),
]
interface Scene {
  readonly deltas: readonly object[]
  /** A reason to finish, or how the node fails. */
  readonly end: string | ((scripted: ScriptedCall) => Promise<void> | void)
}
const scenes: Readonly<Record<string, Scene>> = {
  text: { deltas: [{ role: 'assistant', content: '' }, { content: 'a' }, { content: 'b' }], end: 'stop' },
  'thoughts, text and calls': {
    deltas: [{ reasoning_content: 'hm' }, { content: 'I look.' }, ...calls],
    end: 'tool_calls',
  },
  'a text that was cut': { deltas: [{ content: 'a' }], end: 'length' },
  'a refusal': { deltas: [{ refusal: 'no' }], end: 'content_filter' },
  nothing: { deltas: [], end: 'stop' },
  'a reset in a text': { deltas: [{ content: 'a' }], end: (scripted) => scripted.cut('reset') },
  'an end in a call': { deltas: calls.slice(0, 2), end: (scripted) => scripted.end() },
  'an error after thoughts': {
    deltas: [{ reasoning_content: 'hm' }],
    end: (scripted) => scripted.event({ error: { message: 'no', type: 'server_error' } }),
  },
  silence: { deltas: [{ content: 'a' }], end: () => undefined },
}

function play({ deltas, end }: Scene): void {
  node.answer(async (scripted) => {
    scripted.open()
    for (const delta of deltas) await scripted.event(nodeChunk(delta))
    if (typeof end !== 'string') return end(scripted)
    await scripted.event(nodeChunk({}, end, { usage }))
    await scripted.event('[DONE]')
    scripted.end()
  })
}

interface Named {
  readonly event: string
  readonly data: { readonly type: string } & Record<string, unknown>
}
async function eventsOf(path: string, body: object): Promise<readonly Named[]> {
  const response = await postJson(gateway.url + path, customer.key, { model: 'm', stream: true, ...body })
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8'])
  const blocks = (await response.text()).split('\n\n').filter((block) => block !== '' && !block.startsWith(':'))
  return blocks.map((block) => {
    const [, event = '', data = ''] = /^event: (\S+)\ndata: (.*)$/.exec(block) ?? []
    return { event, data: JSON.parse(data) as Named['data'] }
  })
}

const parameters = { type: 'object', properties: { a: { type: 'integer' } } }
const tools = [
  { type: 'function', name: 'look', parameters, strict: true },
  {
    type: 'namespace',
    name: 'n',
    description: 'Of n.',
    tools: [{ type: 'function', name: 'find', parameters, strict: false }],
  },
]
const dialects = [
  {
    name: 'Responses',
    path: '/v1/responses',
    body: { input: 'hi', tools, instructions: 'Be brief.', metadata: { a: 'b' }, reasoning: { effort: 'low' } },
    typeOf: () => 'import("openai/resources/responses/responses").ResponseStreamEvent',
    failed: 'response.failed',
    ends: ['response.completed', 'response.incomplete'],
  },
  {
    name: 'Messages',
    path: '/v1/messages',
    body: {
      max_tokens: 100,
      messages: [{ role: 'user', content: 'hi' }],
      tools: ['look', 'n__find'].map((tool) => ({ name: tool, input_schema: parameters })),
    },
    // The types have no name for pings, which the SDK drops, and errors are in their own.
    typeOf: ({ type }: { readonly type: string }) =>
      type === 'ping'
        ? '{ type: "ping" }'
        : type === 'error'
          ? 'import("@anthropic-ai/sdk/resources/shared").ErrorResponse'
          : 'import("@anthropic-ai/sdk").Anthropic.RawMessageStreamEvent',
    failed: 'error',
    ends: ['message_stop'],
  },
] as const

const beyondTypes: ReadonlySet<string> = new Set(['svc', 'store', 'presence_penalty', 'frequency_penalty'])
const literal = (data: unknown) =>
  JSON.stringify(data, (name, value: unknown) => {
    if (beyondTypes.has(name) || (name === 'usage' && value === null)) return undefined
    const isResponse = (value as { object?: string } | null)?.object === 'response'
    // The SDK itself adds the member, and its types say that it is there.
    return isResponse ? { output_text: '', ...(value as object) } : value
  })

describe.each(dialects.map((dialect) => [dialect.name, dialect] as const))('§28: events of %s', (name, dialect) => {
  test('are those of the published types, one by one, also where a node fails', async () => {
    const lines: string[] = []
    for (const [title, scene] of Object.entries(scenes)) {
      play(scene)
      const events = await eventsOf(dialect.path, dialect.body)
      expect(events.map(({ event }) => event)).toEqual(events.map(({ data }) => data.type))
      const ends = typeof scene.end === 'string' ? dialect.ends : [dialect.failed]
      expect(ends).toContain(events.at(-1)?.event as never)
      lines.push(`// ${title}`)
      for (const { data } of events)
        lines.push(`export const e${lines.length}: ${dialect.typeOf(data)} = ${literal(data)}`)
    }
    expect(await complaints(name, lines)).toBe('')
  })
})

test('the compiler does find an event that is not of the types', async () => {
  const event = '{"type":"message_stop","more":1}'
  const found = await complaints('wrong', [`export const e: ${dialects[1].typeOf({ type: '' })} = ${event}`])
  expect(found).toContain('"more"')
})

/** What the compiler says of a file with these lines; empty: nothing. */
async function complaints(name: string, lines: readonly string[]): Promise<string> {
  const file = join(folder, `${name}.ts`)
  await Bun.write(file, `${lines.join('\n')}\n`)
  const options = [
    '--noEmit',
    '--strict',
    '--skipLibCheck',
    '--module',
    'preserve',
    '--target',
    'esnext',
    '--ignoreConfig',
  ]
  const compiler = join(root, 'node_modules/typescript/bin/tsc')
  const child = Bun.spawn([process.execPath, compiler, ...options, file], { cwd: folder, stderr: 'ignore' })
  const [said] = await Promise.all([new Response(child.stdout).text(), child.exited])
  return said
}
