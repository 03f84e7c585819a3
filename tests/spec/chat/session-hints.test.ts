import { describe, expect, test } from 'bun:test'
import { postJson } from '../../support/clients/post-json.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { type ScriptedCall, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture } from '../../support/run/fixture.ts'

const nodesCount = 4
const model = 'm'
/** What the nodes were sent, and which of them it was. */
let sent: { readonly node: number; readonly call: ScriptedCall }[] = []
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const other = await gateway.customer()
const nodes = await fixture(Array.from({ length: nodesCount }, () => startScriptedNode(model)))
for (const [at, node] of nodes.entries()) {
  await gateway.node(node.url, { customerId: customer.customerId })
  node.answer((call) => {
    sent.push({ node: at, call })
    call.respond(200, {
      choices: [{ index: 0, text: 'x', message: { role: 'assistant', content: 'x' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    })
  })
}

interface Asked {
  readonly path: string
  readonly body: (turn: number) => object
  readonly headers?: Readonly<Record<string, string>>
}
const post = ({ path, body, headers = {} }: Asked, turn: number) =>
  postJson(`${gateway.url}/v1${path}`, customer.key, { model, ...body(turn) }, { headers })
/** The nodes that the turns of one asked go to. */
async function nodesOf(asked: Asked, turns = 8): Promise<ReadonlySet<number>> {
  sent = []
  for (let turn = 0; turn < turns; turn++) {
    const response = await post(asked, turn)
    expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
  }
  return new Set(sent.map(({ node }) => node))
}
/** Different from the first character on, so that no cache holds any of it. */
const words = (turn: number, session: string | number = '') => `${turn}${session} asks something else`
const said = (turn: number, session?: string | number) => [{ role: 'user', content: words(turn, session) }]
const hint = { type: 'ephemeral' }
const long = 'You are a careful assistant. '.repeat(10)

/** Each way to give a hint: `session` names it. */
const ways: readonly (readonly [string, (session: string) => Asked])[] = [
  [
    'X-SVC-Session of a chat',
    (session) => ({
      path: '/chat/completions',
      body: (turn) => ({ messages: said(turn) }),
      headers: { 'x-svc-session': session },
    }),
  ],
  [
    'prompt_cache_key of a chat',
    (session) => ({
      path: '/chat/completions',
      body: (turn) => ({ messages: said(turn), prompt_cache_key: session }),
    }),
  ],
  [
    'prompt_cache_key of a completion',
    (session) => ({ path: '/completions', body: (turn) => ({ prompt: words(turn), prompt_cache_key: session }) }),
  ],
  [
    'prompt_cache_key of a response',
    (session) => ({ path: '/responses', body: (turn) => ({ input: words(turn), prompt_cache_key: session }) }),
  ],
  [
    'X-SVC-Session of a message',
    (session) => ({
      path: '/messages',
      body: (turn) => ({ max_tokens: 5, messages: said(turn) }),
      headers: { 'x-svc-session': session },
    }),
  ],
  [
    'cache_control of a message',
    (session) => ({
      path: '/messages',
      body: (turn) => ({
        max_tokens: 5,
        system: [{ type: 'text', text: long + session, cache_control: hint }],
        messages: [
          {
            role: 'user',
            content: [{ type: 'text', text: words(turn), cache_control: turn % 2 === 0 ? hint : undefined }],
          },
        ],
      }),
    }),
  ],
  [
    'cache_control in a chat',
    (session) => ({
      path: '/chat/completions',
      body: (turn) => ({
        messages: [
          { role: 'system', content: [{ type: 'text', text: long + session, cache_control: hint }] },
          { role: 'user', content: words(turn) },
        ],
        tools: [
          { type: 'function', function: { name: 'f', parameters: {} }, ...(turn < 0 ? { cache_control: hint } : {}) },
        ],
      }),
    }),
  ],
]

describe.each(ways)('§28: %s', (_, way) => {
  test('all requests with one hint go to one node, and not all hints to the same', async () => {
    const seen = new Set<number>()
    for (let session = 0; session < 12; session++) {
      const own = await nodesOf(way(`session-${session}`), 4)
      expect([session, own.size]).toEqual([session, 1])
      for (const node of own) seen.add(node)
    }
    expect(seen.size).toBeGreaterThan(1)
  })

  test('no node ever hears of it', async () => {
    await nodesOf(way('the-secret-name'), 2)
    for (const { call } of sent) {
      const heard = JSON.stringify([call.body, call.headers])
      expect(heard).not.toContain('cache_control')
      expect(heard).not.toContain('prompt_cache_key')
      expect(heard).not.toContain('x-svc-session')
      if (!_.startsWith('cache_control')) expect(heard).not.toContain('the-secret-name')
    }
  })
})

describe('§28: what a hint is not', () => {
  test('without one, requests that share nothing are spread', async () => {
    const nothing: Asked = { path: '/chat/completions', body: (turn) => ({ messages: said(turn) }) }
    expect((await nodesOf(nothing, 24)).size).toBeGreaterThan(1)
  })

  test('a text that only speaks of cache_control reaches the node to the letter', async () => {
    const content = 'What does "cache_control": {"type":"ephemeral"} mean?'
    await nodesOf({ path: '/chat/completions', body: () => ({ messages: [{ role: 'user', content }] }) }, 1)
    expect(sent[0]?.call.body.messages).toEqual([{ role: 'user', content }])
  })

  test('the rest of what carries a hint stays: texts, pictures, tools, calls', async () => {
    const part = { type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=' } }
    const tool = {
      type: 'function',
      function: { name: 'f', parameters: { type: 'object', properties: { cache_control: {} } } },
    }
    const messages = [
      { role: 'user', content: [{ type: 'text', text: 'a', cache_control: hint }, part], cache_control: hint },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'c', content: 'r' },
    ]
    const asked = { messages, tools: [{ ...tool, cache_control: hint }], cache_control: hint, seed: 7 }
    await nodesOf({ path: '/chat/completions', body: () => asked }, 1)
    expect(sent[0]?.call.body).toEqual({
      model,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'a' }, part] }, ...messages.slice(1)],
      tools: [tool],
      seed: 7,
    })
  })

  test('one that is too long is refused', async () => {
    const headers = { 'x-svc-session': 'x'.repeat(257) }
    const response = await post({ path: '/chat/completions', body: (turn) => ({ messages: said(turn) }), headers }, 0)
    expect([response.status, await response.json()]).toMatchObject([
      400,
      { error: { code: 'invalid_parameter', param: 'header.x-svc-session' } },
    ])
  })

  test('another customer’s model is not reached by knowing the hint', async () => {
    const response = await postJson(
      `${gateway.url}/v1/chat/completions`,
      other.key,
      { model, messages: said(1) },
      { headers: { 'x-svc-session': 'session-1' } },
    )
    expect(response.status).toBe(404)
  })
})
