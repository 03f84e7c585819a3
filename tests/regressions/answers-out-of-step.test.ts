import { expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { createDirectTransport } from '../../src/transport/http1/direct.ts'
import type { NodeResponse } from '../../src/transport/transport.ts'
import { startTestGateway, type TestCustomer } from '../support/gateways/gateway.ts'
import { echoAnswer, markerPattern, startEchoNode } from '../support/nodes/echo-node.ts'
import { fixture, scoped } from '../support/run/fixture.ts'
import { lasts } from '../support/run/lasts.ts'
import { waitLimitMs } from '../support/run/limits.ts'

const gateway = await fixture(startTestGateway({ env: { SVC_FAILOVER_ROUTES_MAX: '0' } }))
const owner = await gateway.customer()
const open = { policy: { min_privacy_class: 'public' }, keyPolicy: { min_privacy_class: 'public' } }
const customers: TestCustomer[] = [await gateway.customer(open), await gateway.customer(open)]

const newMarker = () => `marker-${crypto.randomUUID()}`

/** Every customer asks at the same moment, `rounds` times: how many heard their own words, and how many another one's. */
async function askAtOnce(rounds: number): Promise<{ readonly own: number; readonly foreign: number }> {
  const askerOf = new Map<string, string>()
  let own = 0
  let foreign = 0
  for (let round = 0; round < rounds; round++) {
    const asked = customers.map(async ({ key, customerId }) => {
      const marker = newMarker()
      askerOf.set(marker, customerId)
      const response = await gateway.chat(key, { model: 'm', messages: [{ role: 'user', content: marker }] })
      const seen = markerPattern.exec(await response.text())?.[0]
      if (seen === marker) own++
      else if (seen !== undefined && askerOf.get(seen) !== customerId) foreign++
    })
    await Promise.all(asked)
  }
  return { own, foreign }
}

type Chat = (socket: Socket, marker: string, before: number) => void
const twice: Chat = (socket, marker) => socket.write(echoAnswer(marker) + echoAnswer(marker))
const soonAfter: Chat = (socket, marker) => {
  socket.write(echoAnswer(marker))
  setImmediate(() => socket.write(echoAnswer(marker)))
}
const later: Chat = (socket, marker) => {
  socket.write(echoAnswer(marker))
  void lasts(5).then(() => socket.write(echoAnswer(marker)))
}
/** Says to each request what the one before it should have heard: nothing tells it from an answer but whose it is. */
const lagging = (): Chat => {
  const last = new Map<Socket, string>()
  return (socket, marker) => {
    socket.write(echoAnswer(last.get(socket) ?? marker))
    last.set(socket, marker)
  }
}

/**
 * Symptom: a node that wrote two complete responses for one request gave a customer another one's answer, 8 of 8 rounds.
 * Cause: the parser read on behind the answer and told a second end, which put the connection into the idle pool twice,
 * so that two requests shared it.
 * Fix: nothing behind an answer is read as one; such a connection is closed. What the bytes cannot tell (a late second
 * response looks like the answer to the next request) is kept among one customer: connections are not shared by two.
 */
test.each([
  ['in one write', () => twice],
  ['right behind the first', () => soonAfter],
  ['5 ms later', () => later],
  ['in place of the next', lagging],
] as const)('§27 one answer per request: a second response %s reaches no other customer', async (_name, chat) => {
  const node = await startEchoNode(chat())
  const publicly = { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' } as const
  const id = await gateway.node(node.url, publicly)
  try {
    const { own, foreign } = await askAtOnce(16)
    expect(foreign).toBe(0)
    expect(own).toBeGreaterThan(0)
  } finally {
    await gateway.admin('POST', `/v1/admin/nodes/${id}/revoke`, {})
    await gateway.admin('DELETE', `/v1/admin/nodes/${id}`).catch(() => {})
    node.stop()
  }
})

async function answeredBy(chat: Chat, calls: number, isolationKey: (at: number) => string) {
  await using node = await scoped(startEchoNode(chat))
  await using transport = await scoped(
    createDirectTransport({ url: node.url, apiKey: null, connectTimeoutMs: waitLimitMs }),
  )
  const outcomes: string[] = []
  for (let at = 0; at < calls; at++) {
    const marker = newMarker()
    const init = {
      method: 'POST',
      body: marker,
      signal: AbortSignal.timeout(waitLimitMs),
      isolationKey: isolationKey(at),
    } as const
    const text = await transport.fetch('/v1/chat/completions', init).then(
      (response) => response.text(10_000),
      (error: unknown) => String(error),
    )
    outcomes.push(text.includes(marker) ? 'own' : text)
  }
  return { outcomes, connections: node.connections }
}

test('§27: a connection with bytes behind an answer is not used again, nor is any kept to that node', async () => {
  const sane: Chat = (socket, marker) => socket.write(echoAnswer(marker))
  const four = Array<string>(4).fill('own')
  expect(await answeredBy(sane, 4, () => 'a')).toEqual({ outcomes: four, connections: 1 })
  expect(await answeredBy(twice, 4, () => 'a')).toEqual({ outcomes: four, connections: 4 })
  const onceTwice: Chat = (socket, marker, before) => (before === 1 ? twice : sane)(socket, marker, before)
  expect(await answeredBy(onceTwice, 4, () => 'a')).toEqual({ outcomes: four, connections: 3 })
})

test('§27: a kept connection carries the requests of one customer alone', async () => {
  const sane: Chat = (socket, marker) => socket.write(echoAnswer(marker))
  const { connections } = await answeredBy(sane, 6, (at) => `customer ${at % 2}`)
  expect(connections).toBe(2)
})

/**
 * Symptom: a request failed, without a fault of its node, when another one's answer was given up at the same moment.
 * Cause: giving up an answer closed its connection, also after the answer had ended and the connection carried the next.
 * Fix: an answer that has ended has no connection any more.
 */
test('§27: giving up an answer that has ended does not end the next one on its connection', async () => {
  await using node = await scoped(startEchoNode((socket, marker) => socket.write(echoAnswer(marker))))
  await using transport = await scoped(
    createDirectTransport({ url: node.url, apiKey: null, connectTimeoutMs: waitLimitMs }),
  )
  const marker = newMarker()
  const call = () =>
    transport.fetch('/v1/chat/completions', { method: 'POST', body: marker, signal: AbortSignal.timeout(waitLimitMs) })
  const first = await call()
  const ended = new Promise<NodeResponse>((resolve, reject) =>
    first.read({ bytes: () => {}, ended: () => resolve(call()), failed: reject }),
  )
  const next = ended.then((response) => response.text(10_000))
  setImmediate(() => first.discard())
  expect(await next).toContain(marker)
  expect(node.connections).toBe(1)
})

const large = 'x'.repeat(8 * 1024 * 1024)

/** A server that answers at the head of a request, as one does that refuses its size. */
async function answeredEarly(status: string): Promise<string> {
  const server = Bun.listen({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      data: (socket) => {
        socket.pause()
        socket.write(`HTTP/1.1 ${status}\r\ncontent-length: 2\r\n\r\nno`)
      },
    },
  })
  const transport = createDirectTransport({
    url: `http://127.0.0.1:${server.port}`,
    apiKey: null,
    connectTimeoutMs: waitLimitMs,
  })
  try {
    const init = { method: 'POST', body: large, signal: AbortSignal.timeout(waitLimitMs) } as const
    const response = await transport.fetch('/v1/chat/completions', init)
    return `${response.status} ${await response.text(1_000)}`
  } catch (error) {
    return String(error)
  } finally {
    transport.close()
    server.stop(true)
  }
}

test('§27: no answer to half a request is taken, but a refusal', async () => {
  expect(await answeredEarly('413 Content Too Large')).toBe('413 no')
  expect(await answeredEarly('200 OK')).toContain('malformed')
})
