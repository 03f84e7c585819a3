import { expect, test } from 'bun:test'
import { gzipSync } from 'node:zlib'
import { patient, startGatewayWithPulse } from '../hostile/world/hostile-gateway.ts'
import { startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: a node's answer of 24 kB, which unfolds to 24 MiB, held up the gateway's event loop for 300 ms and more.
 * Cause: what was no answer was looked over, parsed and searched a second time as the node's reason, whatever its length;
 * the items of all lists together had no bound; and a whole answer might have 32 MiB.
 * Fix: a reason has at most 64 KiB, all lists together 1,000,000 commas, and an answer 16 MiB.
 */
const MiB = 1024 * 1024
const below = 16 * MiB - 200

const gateway = await fixture(startGatewayWithPulse(patient))
const customer = await gateway.customer()
const node = await fixture(startScriptedNode('m'))
await gateway.node(node.url, { customerId: customer.customerId })

const saying = (content: string, more = '') =>
  `{"choices":[{"index":0,"message":{"role":"assistant","content":"${content}"${more}},"finish_reason":"stop"}]}`
const filled = (one: string, bytes: number) => one.repeat(Math.floor(bytes / one.length))
const wrong = (bytes: number) => `{"error":{"message":"${filled('no ', bytes - 30)}"}}`
/** Arrays of as many items as one may have, up to so many bytes. */
function lists(item: string, bytes: number): string {
  const one = `[${Array(99_999).fill(item).join(',')}]`
  return saying('x', `,"a":[${filled(`${one},`, bytes - MiB)}0]`)
}

test.each([
  ['31 MiB of blanks', ' '.repeat(31 * MiB), 502],
  ['31 MiB of an error', wrong(31 * MiB), 502],
  ['31 MiB of empty texts in lists', lists('""', 31 * MiB), 502],
  ['almost 16 MiB of blanks', ' '.repeat(below), 502],
  ['almost 16 MiB of an error', wrong(below), 502],
  ['almost 16 MiB of empty texts in lists', lists('""', below), 502],
  ['almost 16 MiB of digits in lists', lists('1', below), 502],
  ['almost 16 MiB of text', saying('a'.repeat(below)), 200],
  ['almost 16 MiB of line ends', saying(filled('\\n', below)), 200],
  ['almost 16 MiB of escapes', saying(filled('\\u0001', below)), 200],
] as const)('%s: an answer or an error, and nobody else waits for it', async (_name, text, status) => {
  // What is an answer unfolds to no more than a packed answer may (§27), and so comes as it is.
  const coding = status === 200 ? {} : { 'content-encoding': 'gzip' }
  const sent = status === 200 ? Buffer.from(text) : gzipSync(text)
  node.answer((call) => {
    call.open({ 'content-type': 'application/json', ...coding })
    void call.raw(sent).then(() => call.end())
  })
  const before = gateway.stalls.length
  const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }] }
  const response = await gateway.chat(customer.key, body)
  await response.arrayBuffer()
  await gateway.pulse()
  expect([response.status, gateway.stalls.slice(before)]).toEqual([status, []])
})
