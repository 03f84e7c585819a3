import { expect, test } from 'bun:test'
import { EventStreamReader, readStream } from '../support/clients/event-stream.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { nodeChunk, nodeUsage, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture, scoped } from '../support/run/fixture.ts'

const gateway = await fixture(
  startTestGateway({
    env: { SVC_HEADER_COMMIT_MS: '200', SVC_KEEP_ALIVE_MS: '30000', SVC_METRICS_PUBLIC: 'true' },
  }),
)
const customer = await gateway.customer()
const first = await fixture(startScriptedNode('m'))
const second = await fixture(startScriptedNode('m'))
for (const { url } of [first, second]) await gateway.node(url, { customerId: customer.customerId })

const ask = () => gateway.chat(customer.key, { model: 'm', stream: true, messages: [{ role: 'user', content: 'hi' }] })
const good = [nodeChunk({ content: 'good' }), nodeChunk({}, 'stop', { usage: nodeUsage })]

/**
 * Symptom: a client got text of a node whose answer had been given up, and its end as a whole answer without receipt.
 * Cause: after an error event before the first chunk, the events behind it in the same read were still relayed.
 * Fix: events are heard only while their attempt stands.
 */
test('§5: what a node sends behind its own error event is not relayed', async () => {
  let asked = 0
  for (const node of [first, second]) {
    node.answer(async (call) => {
      call.open()
      if (++asked === 1) {
        const behind = [{ error: { message: 'x' } }, nodeChunk({ content: 'bad' }), nodeChunk({}, 'stop')]
        await call.raw(`${behind.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')}data: [DONE]\n\n`)
      } else for (const chunk of good) await call.event(chunk)
      call.end()
    })
  }
  const { content, last } = await readStream(await ask())
  expect([content, asked, last.usage]).toEqual(['good', 2, nodeUsage])
})

/**
 * Symptom: the status that was committed after 8 s reached the client with the first keep-alive, 10 s later.
 * Cause: Bun sends the end of the headers with the first bytes of the body.
 * Fix: the commit writes the first comment itself.
 */
test('§6: a committed status is on the wire', async () => {
  for (const node of [first, second]) node.answer(null)
  // One whose status was committed before has not got its first keep-alive when the next one has its status.
  const earlier = Promise.race([first.next(), second.next()])
  const before = new EventStreamReader(await ask())
  expect(await before.block()).toBe(': svc processing')
  let keptAlive = false
  const more = before.block().then(() => {
    keptAlive = true
  })
  const held = await earlier
  const arriving = Promise.race([first.next(), second.next()])
  const response = await ask()
  expect(keptAlive).toBe(false)
  held.open()
  for (const chunk of good) await held.event(chunk)
  held.end()
  await more
  const call = await arriving
  call.open()
  const reader = new EventStreamReader(response)
  expect(await reader.block()).toBe(': svc processing')
  for (const chunk of good) await call.event(chunk)
  call.end()
  expect((await reader.rest()).at(-1)).toBe('data: [DONE]')
})

/**
 * Symptom: a call that failed with its status after the commit stood twice in `svc_upstream_failures_total`.
 * Cause: the stream still held the failed try when it told its client, and counted it again.
 * Fix: a stream lets go of a try that has failed.
 */
test('§5: a call that fails after the commit is counted once', async () => {
  await using lone = await scoped(startScriptedNode('lone'))
  await gateway.node(lone.url, { customerId: customer.customerId })
  const failures = async () => {
    const text = await (await fetch(`${gateway.url}/metrics`)).text()
    return Number(/^svc_upstream_failures_total\{code="upstream_error"\} (\d+)$/m.exec(text)?.[1] ?? 0)
  }
  const before = await failures()
  const asking = gateway.chat(customer.key, {
    model: 'lone',
    stream: true,
    messages: [{ role: 'user', content: 'hi' }],
  })
  const call = await lone.next()
  const reader = new EventStreamReader(await asking)
  expect(await reader.block()).toBe(': svc processing')
  call.respond(500, { error: { message: 'x' } })
  expect((await reader.rest()).join()).toContain('upstream_error')
  expect(await failures()).toBe(before + 1)
})
