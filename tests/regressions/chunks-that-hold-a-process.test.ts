import { expect, test } from 'bun:test'
import { aims } from '../hostile/world/aimed-answers.ts'
import { ask, type Dialect, dialects, endOf } from '../hostile/world/dialect-calls.ts'
import { patient, startGatewayWithPulse } from '../hostile/world/hostile-gateway.ts'
import { startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'
import { lasts } from '../support/run/lasts.ts'

/**
 * Symptom: one chunk of 5 MB with 60,000 tool calls held a process for 550 ms through Responses; with four such calls another
 * customer's median went from 20 ms to 15.8 s. 60,000 changes between content and reasoning made it write 97 MB for 5 MB.
 * Cause: an answer's calls and blocks had no bound, each of them is repeated in several events, and all bytes of a read
 * were worked on in one turn of the event loop.
 * Fix: bounds for what one answer holds and for what is written of it, and 8 ms of each turn for bytes of nodes.
 */
const answerBytes = 5_000_000
const MiB = 1024 * 1024
/** That arrive while aimed answers are under way. */
const goodRequests = 8
const aimedAtOnce = 4

const gateway = await fixture(startGatewayWithPulse(patient))
const [hostile, other] = await Promise.all([gateway.customer(), gateway.customer()])
const aimed = await fixture(startScriptedNode('aimed'))
const good = await fixture(startScriptedNode('good'))
await gateway.node(aimed.url, { customerId: hostile.customerId })
await gateway.node(good.url, { customerId: other.customerId })
const message = { role: 'assistant', content: 'well said' }
good.answer((call) => call.respond(200, { choices: [{ index: 0, message, finish_reason: 'stop' }] }))

const bodyOf = (name: string) => Buffer.from(aims.find((aim) => aim.name === name)?.stream?.(answerBytes) ?? '')

/** Streams of the aimed node, one after the other until nobody wants more; how much each wrote. */
async function attack(dialect: Dialect, wanted: () => boolean): Promise<readonly number[]> {
  const written: number[] = []
  while (wanted()) {
    const answer = await ask(gateway, hostile.key, dialect, 'aimed', true)
    if (answer.status === 503) await lasts(20)
    else {
      expect(endOf(dialect, answer, true)).not.toBe('broken')
      written.push(answer.bytes)
    }
  }
  return written
}

const aimedAt = [
  'tool calls in one chunk',
  'content and reasoning in turn',
  'small chunks',
  'one chunk of Chinese',
] as const
const cases = ['responses', 'messages'].flatMap((name) => aimedAt.map((aim) => [name, aim] as const))

test.each(cases)('%s, %s: others are answered meanwhile, and little is written', async (name, aim) => {
  const dialect = dialects.find((one) => one.name === name) as Dialect
  const body = bodyOf(aim)
  aimed.answer((call) => {
    call.open()
    void call.raw(body).then(() => call.end())
  })
  const stalls = gateway.stalls.length
  let answered = 0
  const attacks = Array.from({ length: aimedAtOnce }, () => attack(dialect, () => answered < goodRequests))
  for (; answered < goodRequests; answered++) {
    const response = await gateway.chat(other.key, { model: 'good', messages: [{ role: 'user', content: 'hi' }] })
    expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('well said')])
  }
  const written = (await Promise.all(attacks)).flat()
  expect(written.length).toBeGreaterThan(0)
  expect(Math.max(...written)).toBeLessThanOrEqual(8 * body.length + 4 * MiB)
  await gateway.pulse()
  expect(gateway.stalls.slice(stalls)).toEqual([])
})
