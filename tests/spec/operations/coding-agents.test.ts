import { describe, expect, test } from 'bun:test'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { type AgentSession, claudeCode, codex, type Json } from '../../support/clients/coding-agents.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

const turns = 20
const gateway = await fixture(startTestGateway())
const node = await fixture(startFakeNode({ models: ['coder'], contextLength: 262_144 }))
node.setAnswer({ reasoning: 'hm' })
const customer = await gateway.customer()
await gateway.node(node.url, { customerId: customer.customerId })

async function send(session: AgentSession): Promise<readonly Json[]> {
  const { path, headers, body } = session.request()
  const response = await fetch(gateway.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  const text = await response.text()
  expect([response.status, response.status === 200 ? '' : text]).toEqual([200, ''])
  const data = text.split('\n').filter((line) => line.startsWith('data: '))
  return data.map((line) => JSON.parse(line.slice('data: '.length)) as Json)
}

const agents = [
  ['Claude Code', claudeCode, 'message_stop'],
  ['Codex', codex, 'response.completed'],
] as const

describe.each(agents)('§28: what %s sends', (_, agent, end) => {
  test('20 turns, each with a call of a tool, end well, and the node is sent chats that every template takes', async () => {
    const session = agent('coder', customer.key)
    const before = node.requests.length
    for (let turn = 0; turn < turns; turn++) {
      session.asks(`Do ${turn}.`)
      const called = await send(session)
      expect([called.at(-1)?.type, session.hears(called).calls]).toEqual([end, 1])
      const answered = await send(session)
      expect([answered.at(-1)?.type, session.hears(answered)]).toEqual([
        end,
        { calls: 0, text: 'fake-0 fake-1 fake-2 fake-3 fake-4 ' },
      ])
    }
    const sent = node.requests.slice(before).map(({ body }) => (body as { messages: Json[] }).messages)
    expect(sent).toHaveLength(turns * 2)
    for (const messages of sent) {
      const roles = messages.map(({ role }) => role)
      expect([roles[0], roles.lastIndexOf('system')]).toEqual(['system', 0])
    }
    const last = sent.at(-1) ?? []
    const oneTurn = ['user', 'assistant', 'tool', 'assistant']
    const heads = last.length - (turns * oneTurn.length - 1)
    expect(last.slice(heads).map(({ role }) => role)).toEqual(Array(turns).fill(oneTurn).flat().slice(0, -1))
    expect(JSON.stringify(last)).not.toContain('hm"')
  })
})

test('§28: what Claude Code asks besides: whether anybody is there, and how long a prompt is', async () => {
  expect((await fetch(gateway.url, { method: 'HEAD' })).status).toBe(200)
  const session = claudeCode('coder', customer.key)
  session.asks('How long is this?')
  const { headers, body } = session.request()
  const { max_tokens: _, stream: _s, ...counted } = body
  const response = await fetch(`${gateway.url}/v1/messages/count_tokens?beta=true`, {
    method: 'POST',
    headers,
    body: JSON.stringify(counted),
  })
  expect(((await response.json()) as { input_tokens: number }).input_tokens).toBeGreaterThan(1_000)
})

test('§28: a search that only OpenAI’s servers run is refused by name, as Codex’s guide says', async () => {
  const { headers, body, path } = codex('coder', customer.key).request()
  const tools = [...(body.tools as readonly Json[]), { type: 'web_search', external_web_access: false }]
  const response = await fetch(gateway.url + path, {
    method: 'POST',
    headers,
    body: JSON.stringify({ ...body, tools }),
  })
  expect(await response.json()).toMatchObject({ error: { code: 'tool_not_supported', param: 'tools[3].type' } })
})
