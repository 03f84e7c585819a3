import { expect, test } from 'bun:test'
import { metricSum } from '../support/gateways/metric.ts'
import { fixture } from '../support/run/fixture.ts'
import { chatBytes, speak } from './world/asker.ts'
import { startBytesNode } from './world/bytes-node.ts'
import { patient, startGatewayWithPulse } from './world/hostile-gateway.ts'
import { newMarker } from './world/markers.ts'
import { abroad } from './world/node-lane.ts'
import { keptBytesMetric, restFaults } from './world/rest.ts'
import { newSecret } from './world/secrets.ts'
import { answerFaults } from './world/verdict.ts'

const memoryMb = 128
/** A customer has a quarter of it (§17). */
const shareBytesMax = (memoryMb * 1024 * 1024) / 4
const answers = 6
const answerBytes = 8 * 1024 * 1024
const heapBytesMore = 64 * 1024 * 1024
const descriptorsSlack = 12

const node = await fixture(startBytesNode('large'))
const gateway = await fixture(startGatewayWithPulse({ ...patient, SVC_MEMORY_MB: String(memoryMb) }))

function largeAnswer(marker: string): Buffer {
  const content = marker.repeat(answerBytes / marker.length)
  const body = JSON.stringify({ choices: [{ message: { role: 'assistant', content }, finish_reason: 'stop' }] })
  const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`
  return Buffer.from(head + body, 'latin1')
}

/** The most that the gateway said it keeps, until all have been answered; 0 if it does not tell. */
async function keptMeanwhile(work: Promise<unknown>): Promise<number> {
  let over = false
  const ended = work.finally(() => {
    over = true
  })
  let most = 0
  while (!over) {
    const text = await (await fetch(`${gateway.url}/metrics`, { headers: { connection: 'close' } })).text()
    most = Math.max(most, metricSum(text, keptBytesMetric))
  }
  await ended
  return most
}

test('what the answers of one customer keep stays within its share, and nothing of it is left', async () => {
  const customer = await gateway.customer({ policy: abroad, keyPolicy: abroad })
  await gateway.join({ url: node.url, apiKey: newSecret(), owner: customer.customerId, visibility: 'private' })
  const before = { descriptors: gateway.descriptors(), ...(await gateway.pulse({ collect: true })) }
  const asking = Array.from({ length: answers }, async () => {
    const marker = newMarker()
    node.plan(marker, { early: false, moves: () => [{ do: 'write', bytes: largeAnswer(marker) }] })
    const body = JSON.stringify({ model: 'large', messages: [{ role: 'user', content: marker }] })
    return speak(gateway, { writes: [chatBytes(gateway, customer.key, body)], deafMs: 500 })
  })
  const most = await keptMeanwhile(Promise.all(asking))
  expect(most).toBeLessThanOrEqual(shareBytesMax)
  for (const { answers: heard } of await Promise.all(asking)) {
    expect(heard.flatMap(answerFaults)).toEqual([])
    expect([200, 429, 502, 503]).toContain(heard[0]?.status ?? 0)
  }
  node.closeAll()
  expect(await restFaults(gateway, before.descriptors + descriptorsSlack)).toEqual([])
  const { heapBytes } = await gateway.pulse({ collect: true })
  expect(heapBytes - before.heapBytes).toBeLessThan(heapBytesMore)
})
