import { describe, expect, test } from 'bun:test'
import { postJson } from '../../support/clients/post-json.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { nodeChunk, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture } from '../../support/run/fixture.ts'

type Fields = Readonly<Record<string, unknown>>
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const node = await fixture(startScriptedNode('m'))
await gateway.node(node.url, { customerId: customer.customerId })

const counts = { prompt_tokens: 11, completion_tokens: 5, total_tokens: 16 }
const messages = [{ role: 'user', content: 'hi' }]
const doors = {
  chat: { path: '/v1/chat/completions', body: { messages } },
  completions: { path: '/v1/completions', body: { prompt: 'hi' } },
  responses: { path: '/v1/responses', body: { input: 'hi' } },
  messages: { path: '/v1/messages', body: { messages, max_tokens: 9 } },
} as const
type Door = keyof typeof doors

/** What else an answer says of its usage, beside the counts. */
function answers(members: Fields): void {
  node.answer(async (call) => {
    const text = call.path === '/v1/completions'
    if (call.body.stream !== true) {
      const choice = text ? { text: 'a' } : { message: { role: 'assistant', content: 'a' } }
      return call.respond(200, { choices: [{ index: 0, finish_reason: 'stop', ...choice }], ...members })
    }
    call.open()
    if (text) await call.event({ choices: [{ index: 0, text: 'a', finish_reason: 'stop' }], ...members })
    else {
      await call.event(nodeChunk({ content: 'a' }))
      await call.event(nodeChunk({}, 'stop', members))
    }
    await call.event('[DONE]')
    call.end()
  })
}

/** The last `usage` that a client of this door reads. */
async function usageAt(door: Door, stream: boolean): Promise<Fields> {
  const { path, body } = doors[door]
  const options =
    stream && (door === 'chat' || door === 'completions') ? { stream_options: { include_usage: true } } : {}
  const response = await postJson(gateway.url + path, customer.key, { model: 'm', stream, ...options, ...body })
  expect(response.status).toBe(200)
  const text = await response.text()
  const objects = stream
    ? text
        .split('\n')
        .filter((line) => line.startsWith('data: {'))
        .map((line) => JSON.parse(line.slice('data: '.length)) as Fields)
    : [JSON.parse(text) as Fields]
  const told = objects.flatMap(({ usage, response: whole }) => usage ?? (whole as Fields | undefined)?.usage ?? [])
  return told.at(-1) as Fields
}

const openAi = {
  ...counts,
  prompt_tokens_details: { cached_tokens: 8 },
  completion_tokens_details: { reasoning_tokens: 2 },
}
const reported: readonly (readonly [string, Fields])[] = [
  ['OpenAI’s names', { usage: openAi }],
  [
    'llama.cpp’s timings and SGLang’s reasoning',
    { usage: { ...counts, reasoning_tokens: 2 }, timings: { cache_n: 8 } },
  ],
]
const expected: Readonly<Record<Door, Fields>> = {
  chat: openAi,
  completions: openAi,
  responses: {
    input_tokens: 11,
    input_tokens_details: { cached_tokens: 8 },
    output_tokens: 5,
    output_tokens_details: { reasoning_tokens: 2 },
    total_tokens: 16,
  },
  // Anthropic's `input_tokens` are those beside the cached ones.
  messages: {
    input_tokens: 3,
    cache_read_input_tokens: 8,
    output_tokens: 5,
    output_tokens_details: { thinking_tokens: 2 },
  },
}
const unknown: Readonly<Record<Door, Fields>> = {
  chat: counts,
  completions: counts,
  // OpenAI's types want numbers.
  responses: {
    input_tokens: 11,
    input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    output_tokens: 5,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 16,
  },
  messages: { input_tokens: 11, cache_read_input_tokens: null, output_tokens: 5, output_tokens_details: null },
}

describe.each(Object.keys(doors) as Door[])('§35: usage details: %s', (door) => {
  for (const stream of [false, true]) {
    const how = stream ? 'streamed' : 'whole'
    test.each(reported)(`${how}, as the node reports them: %s`, async (_name, members) => {
      answers(members)
      expect(await usageAt(door, stream)).toMatchObject(expected[door])
    })

    test(`${how}, not reported: absent or null, and zero where the published type wants a number`, async () => {
      answers({ usage: counts })
      const usage = await usageAt(door, stream)
      if (door === 'messages') expect(usage).toMatchObject(unknown[door])
      else expect(usage).toEqual(unknown[door])
    })

    test(`${how}, more than the counts that they are part of: as much as those`, async () => {
      const details = {
        prompt_tokens_details: { cached_tokens: 99 },
        completion_tokens_details: { reasoning_tokens: 99 },
      }
      answers({ usage: { ...counts, ...details } })
      const text = JSON.stringify(await usageAt(door, stream))
      expect(text).not.toContain('99')
      expect(text).toContain(door === 'messages' ? '"input_tokens":0' : '"cached_tokens":11')
    })

    test.each([-1, 1.5, '8', null, {}, 2 ** 40])(`${how}, no number of tokens: %p`, async (odd) => {
      answers({ usage: { ...counts, prompt_tokens_details: { cached_tokens: odd } } })
      expect(await usageAt(door, stream)).toMatchObject(unknown[door])
    })
  }
})
