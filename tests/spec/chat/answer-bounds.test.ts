import { afterAll, describe, expect, test } from 'bun:test'
import { ask, type Dialect, type DialectAnswer, dialects, endOf } from '../../hostile/world/dialect-calls.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { type ScriptedNode, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture } from '../../support/run/fixture.ts'
import { lasts } from '../../support/run/lasts.ts'

const MiB = 1024 * 1024
const callsMax = 256
const changesMax = 4_096

afterAll(async () => {
  for (const node of Object.values(nodes)) node.stop()
})
// A node that failed is asked again at once.
const env = { SVC_OLLAMA_LISTEN: '127.0.0.1:0', SVC_PROCESSES: '1', SVC_HOLD_DOWN_MS: '100', SVC_EJECTION_MS: '100' }
const gateway = await fixture(startTestGateway({ env }))
const customer = await gateway.customer()
/** `late`: a whole answer is put together from its stream. */
const nodes: Readonly<Record<'direct' | 'late', ScriptedNode>> = {
  direct: startScriptedNode('direct'),
  late: startScriptedNode('late', 'llama.cpp'),
}
for (const { url } of Object.values(nodes)) await gateway.node(url, { customerId: customer.customerId })

const usage = { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 }
const frame = (delta: object) => `data: ${JSON.stringify({ choices: [{ index: 0, delta, text: 'a' }] })}\n\n`
const finish = { choices: [{ index: 0, delta: {}, text: '', finish_reason: 'stop' }], usage }
const end = `data: ${JSON.stringify(finish)}\n\ndata: [DONE]\n\n`
const call = (index: number) => ({ index, id: `c${index}`, type: 'function', function: { name: 'f', arguments: '{}' } })
const calls = (count: number) => Array.from({ length: count }, (_, at) => call(at))
/** Begins with text, and changes so often. */
const changing = (changes: number) =>
  Array.from({ length: changes + 1 }, (_, at) => frame(at % 2 === 0 ? { content: 'a' } : { reasoning_content: 'b' }))
const whole = (message: object) =>
  JSON.stringify({ choices: [{ index: 0, message: { role: 'assistant', ...message }, text: 'a' }], usage })

interface Asked {
  readonly answer: DialectAnswer
  readonly end: ReturnType<typeof endOf>
}

/** Asks until the node is no longer let be for what it sent before. */
async function asked(dialect: Dialect, model: keyof typeof nodes, stream: boolean, body: string): Promise<Asked> {
  // A byte for each unit: what is beyond ASCII is then no UTF-8.
  const bytes = Buffer.from(body, 'latin1')
  nodes[model].answer((one) => {
    one.open(one.body.stream === true ? {} : { 'content-type': 'application/json' })
    void one.raw(bytes).then(() => one.end())
  })
  for (;;) {
    const answer = await ask(gateway, customer.key, dialect, model, stream)
    if (answer.status !== 503) return { answer, end: endOf(dialect, answer, stream) }
    await lasts(20)
  }
}

const withCalls = dialects.filter(({ name }) => name !== 'completions')

describe('§27: an answer has a bounded number of tool calls and of changes between what it says', () => {
  test.each(withCalls.map((dialect) => [dialect.name, dialect] as const))('%s', async (_, dialect) => {
    const ends = async (stream: string, message: object | null) => [
      (await asked(dialect, 'direct', true, stream + end)).end,
      (await asked(dialect, 'late', false, stream + end)).end,
      ...(message === null ? [] : [(await asked(dialect, 'direct', false, whole(message))).end]),
    ]
    const most = calls(callsMax)
    expect(await ends(frame({ tool_calls: most }), { tool_calls: most })).toEqual(['served', 'served', 'served'])
    expect(await ends(most.map((one) => frame({ tool_calls: [one] })).join(''), null)).toEqual(['served', 'served'])
    const more = calls(callsMax + 1)
    expect(await ends(frame({ tool_calls: more }), { tool_calls: more })).toEqual(['failed', 'failed', 'failed'])
    expect(await ends(more.map((one) => frame({ tool_calls: [one] })).join(''), null)).toEqual(['failed', 'failed'])
    expect(await ends(changing(changesMax + 1).join(''), null)).toEqual(['failed', 'failed'])
    expect(await ends(changing(changesMax / 2).join(''), null)).toEqual(['served', 'served'])
  })

  test('a chat may change as often as that, also where its chunks are passed on unread', async () => {
    const { answer, end: ended } = await asked(
      dialects[0] as Dialect,
      'direct',
      true,
      changing(changesMax).join('') + end,
    )
    expect(ended).toBe('served')
    expect(answer.text.split('"reasoning_content":"b"').length - 1).toBe(changesMax / 2)
  })

  test('the error says that the node failed, in the stream and before it', async () => {
    const [chat] = dialects as [Dialect]
    const before = await asked(chat, 'direct', true, frame({ tool_calls: calls(callsMax + 1) }) + end)
    expect([before.answer.status, JSON.parse(before.answer.text).error.code]).toEqual([502, 'upstream_error'])
    const within = await asked(
      chat,
      'direct',
      true,
      frame({ content: 'a' }) + frame({ tool_calls: calls(callsMax + 1) }) + end,
    )
    expect(within.answer.status).toBe(200)
    expect(within.answer.text).toContain('"code":"upstream_error"')
    expect(within.answer.text).not.toContain('[DONE]')
  })
})

/** Of small frames, some of which dialects write out longer than they came. */
const growing: Readonly<Record<string, (bytes: number) => string>> = {
  'text and reasoning in turn': (bytes) =>
    (frame({ content: 'a' }) + frame({ reasoning_content: 'b' })).repeat(bytes / 110),
  'many choices': (bytes) => `data: {"choices":[${Array(100).fill('{}').join(',')}]}\n\n`.repeat(bytes / 320),
  'empty deltas': (bytes) => 'data: {"choices":[{}]}\n\n'.repeat(bytes / 25),
  'bytes that are no UTF-8': (bytes) => `data: {"choices":[{"delta":{"content":"${'\xff'.repeat(3 * bytes)}"}}]}\n\n`,
}

describe('§27: what is written to the client is at most eight times what the node sent, and 4 MiB', () => {
  test.each(dialects.map((dialect) => [dialect.name, dialect] as const))('%s', async (_, dialect) => {
    for (const [name, make] of Object.entries(growing)) {
      const body = make(400_000) + end
      const { answer, end: ended } = await asked(dialect, 'direct', true, body)
      expect([name, ended]).not.toEqual([name, 'broken'])
      expect(answer.bytes).toBeLessThanOrEqual(8 * body.length + 4 * MiB)
    }
  })

  test('an answer that would be more ends with an error', async () => {
    const choices = `data: {"choices":[${Array(100).fill('{}').join(',')}]}\n\n`
    const { answer, end: ended } = await asked(dialects[0] as Dialect, 'direct', true, choices.repeat(10_000) + end)
    expect(ended).toBe('failed')
    expect(answer.text).toContain('"code":"upstream_error"')
    const few = await asked(dialects[0] as Dialect, 'direct', true, choices.repeat(100) + end)
    expect(few.end).toBe('served')
  })

  test('what a response repeats of its own request counts as nothing that the node made', async () => {
    const responses = dialects.find(({ name }) => name === 'responses') as Dialect
    const long = { ...responses, body: { ...responses.body, instructions: 'Be brief. '.repeat(200_000) } }
    const { answer, end: ended } = await asked(long, 'direct', true, frame({ content: 'Yes.' }) + end)
    expect(ended).toBe('served')
    expect(answer.bytes).toBeGreaterThan(4 * MiB)
  })
})

describe('§27: chunks that a node makes too rich or too poor end its stream', () => {
  const names = Array.from({ length: 70_000 }, (_, at) => ({ [`k${at}`]: 0 }))
  test.each([
    ['a chunk of 70,000 members', frame({ content: 'a', extra: names })],
    ['129 choices', `data: {"choices":[${Array(129).fill('{}').join(',')}]}\n\n`],
    ['1,025 lines that are no JSON', 'data: [\n\n'.repeat(1_025)],
    ['an event of 10,001 lines', `${'data: \n'.repeat(10_001)}\n`],
  ])('%s', async (_, chunk) => {
    for (const dialect of dialects) {
      const { end: ended } = await asked(dialect, 'direct', true, frame({ content: 'a' }) + chunk + end)
      expect([dialect.name, ended]).toEqual([dialect.name, 'failed'])
    }
  })
})
