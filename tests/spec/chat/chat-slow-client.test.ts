import { afterEach, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { readStream } from '../../support/clients/event-stream.ts'
import { connectRawClient, type RawClient } from '../../support/clients/raw-client.ts'
import { startTestGateway, type TestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { nodeChunk, nodeUsage, type ScriptedCall, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture } from '../../support/run/fixture.ts'
import { lasts } from '../../support/run/lasts.ts'

const MiB = 1024 * 1024
/** What the sockets of this machine may hold on both ways, beside the 256 KiB of the gateway. */
const inFlightBytesMax = 24 * MiB
const piece = `data: ${JSON.stringify(nodeChunk({ content: 'x'.repeat(60 * 1024) }))}\n\n`
const finish = nodeChunk({}, 'stop', { usage: nodeUsage })

let client: RawClient | null = null
const gateway = await fixture(startTestGateway())
/** The same database; cuts a client off after one second. */
const impatient = await fixture(startTestGateway({ beside: gateway, env: { SVC_SLOW_CLIENT_TIMEOUT_MS: '1000' } }))
const customer = await gateway.customer()
const node = await fixture(startScriptedNode('m'))
const nodeId = await gateway.node(node.url, { customerId: customer.customerId })
await waitFor('the node on the other gateway', async () => {
  const shown = await impatient.admin<{ state: string }>('GET', `/v1/admin/nodes/${nodeId}`)
  return shown.state === 'ready'
})

afterEach(() => {
  client?.leave()
  client = null
  node.answer(null)
})

const body = { model: 'm', stream: true, messages: [{ role: 'user', content: 'hi' }] }

async function connect(to: TestGateway): Promise<{ readonly client: RawClient; readonly call: ScriptedCall }> {
  const arriving = node.next()
  client = await connectRawClient(to.url, customer.key, body)
  const call = await arriving
  call.open()
  return { client, call }
}

/** A piece that the kernel does not take within this is one that nobody reads, or a busy machine lets wait. */
const heldMs = 1_500

/** Writes until the kernel takes no more; resolves with how much it took. */
async function fill(call: ScriptedCall): Promise<number> {
  let written = 0
  for (;;) {
    const taken = await Promise.race([call.raw(piece).then(() => true), lasts(heldMs).then(() => false)])
    written += piece.length
    if (!taken || written > 10 * inFlightBytesMax) return written
  }
}

test('§6: a client that does not read holds the node back, and gets all once it reads', async () => {
  const { client: reader, call } = await connect(gateway)
  const written = await fill(call)
  expect(written).toBeGreaterThan(MiB)
  expect(written).toBeLessThan(inFlightBytesMax)
  expect(reader.received).toBeLessThan(MiB)
  reader.read()
  await call.event(finish)
  call.end()
  await waitFor('the end', () => reader.tail.includes('data: [DONE]'))
  expect(reader.received).toBeGreaterThan(written * 0.99)
  expect(reader.tail).toContain('"svc":{')
})

test('§6: one slow client does not hold another', async () => {
  const { call } = await connect(gateway)
  await fill(call)
  node.answer(async (other) => {
    other.open()
    for (const chunk of [nodeChunk({ content: 'quick' }), finish]) await other.event(chunk)
    other.end()
  })
  const stream = await readStream(await gateway.chat(customer.key, body))
  expect(stream.content).toBe('quick')
})

test('§6: a client that reads nothing for too long is cut off, never told that the answer is whole', async () => {
  const { client: reader, call } = await connect(impatient)
  await fill(call)
  await call.gone
  reader.read()
  await reader.closed
  expect(reader.tail).not.toContain('[DONE]')
  expect(reader.tail).not.toContain('0\r\n\r\n')
})

test('§6: a client that leaves while it is not reading lets the node go', async () => {
  const { client: reader, call } = await connect(gateway)
  await fill(call)
  reader.leave()
  await call.gone
})

test('§6: a compressed stream that unfolds to 256 MiB waits for the client too', async () => {
  const events = 4_096
  // As much besides as a packed answer needs to unfold that far (§27): comments that cannot be packed.
  const incompressible = () => `: ${randomBytes(1_024).toString('base64')}\n\n`
  const zipped = gzipSync(Buffer.concat(Array.from({ length: events }, () => Buffer.from(piece + incompressible()))))
  expect(zipped.length).toBeLessThan(8 * MiB)
  const arriving = node.next()
  Bun.gc(true)
  const before = process.memoryUsage().rss
  client = await connectRawClient(gateway.url, customer.key, body)
  const reader = client
  const call = await arriving
  call.open({ 'content-encoding': 'gzip' })
  void call.raw(zipped)
  // Another client reads a whole answer meanwhile, many times.
  for (let at = 0; at < 20; at++) {
    node.answer(async (other) => {
      other.open()
      for (let sent = 0; sent < 20; sent++) await other.raw(piece)
      await other.event(finish)
      other.end()
    })
    await (await gateway.chat(customer.key, body)).text()
  }
  Bun.gc(true)
  expect(process.memoryUsage().rss - before).toBeLessThan(96 * MiB)
  reader.read()
  await waitFor('all of it', () => reader.received > events * 60 * 1024)
})
