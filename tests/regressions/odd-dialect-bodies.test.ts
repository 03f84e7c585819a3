import { expect, test } from 'bun:test'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Found by reading: a null in a tool's result was answered 500; a picture in an assistant's message was left out in silence;
 * a role that is the name of a member of every object (`constructor`) was passed on as nothing. Fix: each is refused by name.
 */
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const key = customer.key
const node = await fixture(startScriptedNode('m'))
await gateway.node(node.url, { customerId: customer.customerId })

async function refused(path: string, body: object): Promise<readonly [number, string]> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const response = await fetch(`${gateway.url}/v1/${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  return [response.status, await response.text()]
}

const says = (role: string, content: unknown) => ({ model: 'm', max_tokens: 1, messages: [{ role, content }] })
const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA' } }
const result = (content: unknown) => says('user', [{ type: 'tool_result', tool_use_id: 'a', content }])
const odd: readonly (readonly [string, string, object, string])[] = [
  ['a null in a tool result', 'messages', result([null]), 'messages[0].content[0].content[0]'],
  ['a number in a tool result', 'messages', result([3]), 'messages[0].content[0].content[0]'],
  ['a picture by the assistant', 'messages', says('assistant', [image]), 'messages[0].content[0]'],
  [
    'a role of every object',
    'responses',
    { model: 'm', input: [{ role: 'constructor', content: 'x' }] },
    'input[0].role',
  ],
  [
    'its prototype as a role',
    'responses',
    { model: 'm', input: [{ role: '__proto__', content: 'x' }] },
    'input[0].role',
  ],
  [
    'an include that is no list',
    'responses',
    { model: 'm', input: 'x', include: 'file_search_call.results' },
    'include',
  ],
  [
    'a format of JSON without its schema',
    'responses',
    { model: 'm', input: 'x', text: { format: { type: 'json_schema', name: 'town' } } },
    'text.format.schema',
  ],
]

test.each(odd)('§28: %s is refused by name, and no node hears of it', async (_, path, body, param) => {
  const [status, text] = await refused(path, body)
  expect([status, text]).toEqual([400, expect.stringContaining(param)])
  expect(node.calls).toBe(0)
})
