import { afterAll, expect, test } from 'bun:test'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { type ScriptedNode, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Found by reading: `max_tokens` of an operation whose schema does not list it was added to the reservation as it came. A
 * text made the day's quota no number, so that everything fitted from then on; a negative number made what other people's
 * nodes did count as nothing. The other name
 * of `max_tokens` went unchecked for text completions, too. Fix: output is asked for only where an operation generates,
 * by members that its schema lists, and limits take numbers alone.
 */
const nodes: ScriptedNode[] = []
afterAll(async () => {
  for (const node of nodes) node.stop()
})
const gateway = await fixture(startTestGateway())
const owner = await gateway.customer()
for (const model of ['text-embed', 'writer']) {
  const node = startScriptedNode(model)
  const usage = { prompt_tokens: 6, completion_tokens: 0, total_tokens: 6 }
  node.answer((call) =>
    call.respond(200, { data: [{ index: 0, embedding: [1] }], choices: [{ index: 0, text: 'x' }], usage }),
  )
  nodes.push(node)
  await gateway.node(node.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
}

const open = { min_privacy_class: 'public' } as const
/** 20 characters, 6 tokens: twice is more than the day has. */
const input = 'x'.repeat(20)

const asking = (key: string) => async (path: string, body: object) => {
  const response = await postJson(`${gateway.url}/v1/${path}`, key, body)
  const { error } = (await response.json()) as { error?: { code: string; param: string | null } }
  return [response.status, error?.code ?? null]
}
const odd: readonly (readonly [string, object])[] = [
  ['a text', { max_tokens: 'x' }],
  ['a negative number', { max_tokens: -1e9 }],
  ['a list by its other name', { max_completion_tokens: [1e9] }],
]

test.each(odd)('§13: max_tokens of embeddings as %s leaves the day’s quota as it is', async (_, more) => {
  const { key, customerId } = await gateway.customer({ policy: { ...open, daily_token_quota: 10 }, keyPolicy: open })
  const ask = asking(key)
  const body = { model: 'text-embed', input, ...more }
  // An embedding has no such field: the node of another is not sent it, and one's own is.
  expect(await ask('embeddings', body)).toEqual([400, 'invalid_request'])
  await gateway.node(nodes[0]?.url ?? '', { customerId })
  expect(await ask('embeddings', body)).toEqual([200, null])
  expect(await ask('embeddings', { model: 'text-embed', input })).toEqual([429, 'daily_token_quota_exceeded'])
})

test.each([['x'], [-1e9], [false]])('§13: %p is no number of tokens up to which a text is completed', async (most) => {
  const { key } = await gateway.customer({ policy: { ...open, daily_token_quota: 5_000 }, keyPolicy: open })
  const refused = await asking(key)('completions', { model: 'writer', prompt: input, max_completion_tokens: most })
  expect(refused).toEqual([400, 'invalid_request'])
})
