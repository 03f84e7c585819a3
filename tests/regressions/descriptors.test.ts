import { afterAll, beforeAll, expect, test } from 'bun:test'
import { headers } from '../../src/brand.ts'
import { newToken } from '../../src/secrets.ts'
import { waitFor } from '../support/gateways/gateway.ts'
import { type LimitedGateway, SilentClients, startLimitedGateway } from '../support/gateways/limited-gateway.ts'
import { nodeChunk, nodeUsage, type ScriptedNode, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { lasts } from '../support/run/lasts.ts'
import { testLimitMs } from '../support/run/limits.ts'
import { stopwatch } from '../support/run/stopwatch.ts'

/*
 * With 256 descriptors, clients that connected and said nothing stopped the gateway: nothing bounded them, and of a socket
 * that cannot be made Bun says "refused", so that every node and the database looked lost.
 */

const descriptorsMax = 256
let gateway: LimitedGateway
let node: ScriptedNode
let silent: SilentClients
beforeAll(async () => {
  // Fewer polls than a kept connection to a node lives long: each connects anew.
  // The stream that goes on is silent for as long as the scarce moments need to come.
  gateway = await startLimitedGateway(descriptorsMax, {
    SVC_POLL_INTERVAL_MS: '4500',
    SVC_INTER_CHUNK_TIMEOUT_MS: String(testLimitMs),
  })
  silent = new SilentClients(gateway.url)
  node = startScriptedNode('m')
  const { customer_id, admin_token } = gateway.credentials
  const made = await fetch(`${gateway.url}/v1/admin/nodes`, {
    method: 'POST',
    headers: { [headers.adminToken]: admin_token, 'content-type': 'application/json' },
    body: JSON.stringify({
      customer_id,
      url: node.url,
      visibility: 'private',
      privacy_class: 'private',
      node_class: 'g',
    }),
  })
  expect(made.status).toBe(201)
  await waitFor('the node', async () => (await nodeState()) === 'ready')
})
afterAll(async () => {
  silent.leave()
  node.stop()
  await gateway.stop()
})

const ask = (path: string, init: RequestInit = {}) => fetch(gateway.url + path, { keepalive: false, ...init })
const chat = (key: string, stream = false) =>
  ask('/v1/api/chat/completions', {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', stream, messages: [{ role: 'user', content: 'hi' }] }),
  })
const asAdmin = (token = gateway.credentials.admin_token) =>
  ask('/v1/admin/nodes', { headers: { [headers.adminToken]: token } })
async function nodeState(): Promise<unknown> {
  const { nodes } = (await (await asAdmin()).json()) as { readonly nodes: readonly { readonly state: string }[] }
  return nodes[0]?.state
}
const readiness = async () => {
  const response = await ask('/readyz')
  return [
    response.status,
    ((await response.json()) as { readonly status: string }).status,
    response.headers.get('connection'),
  ]
}
const events = () => gateway.logged().map(({ event }) => event)
const message = { role: 'assistant', content: 'hi' }
const whole = { ...nodeChunk({}), usage: nodeUsage, choices: [{ index: 0, message, finish_reason: 'stop' }] }

/** A stream that the test keeps going: `next` has the node send a piece and waits until the client has it. */
async function openStream(key: string): Promise<{ next(): Promise<void>; end(): Promise<string> }> {
  const answer = chat(key, true)
  const call = await node.next()
  call.open()
  await call.event(nodeChunk({ role: 'assistant', content: 'piece0' }))
  const reader = (await answer).body?.getReader()
  const decoder = new TextDecoder()
  let text = ''
  const until = async (wanted: string) => {
    while (!text.includes(wanted)) {
      const { value, done } = (await reader?.read()) ?? { value: undefined, done: true }
      if (done) throw new Error(`the stream ended without ${wanted}: ${text}`)
      text += decoder.decode(value, { stream: true })
    }
  }
  await until('piece0')
  let sent = 0
  return {
    next: async () => {
      sent++
      await call.event(nodeChunk({ content: `piece${sent}` }))
      await until(`piece${sent}`)
    },
    end: async () => {
      await call.event(nodeChunk({}, 'stop', { usage: nodeUsage }))
      await call.event('[DONE]')
      call.end()
      await until('[DONE]')
      return text
    },
  }
}

/**
 * Keeps so many silent clients that the limit's last tenth has begun, and others are still accepted: those that are closed for their
 * silence are followed by others. Returns its end.
 */
async function keepScarce(): Promise<() => Promise<void>> {
  const wanted = Math.floor(descriptorsMax * 0.9) + Math.floor(descriptorsMax * 0.05) + 4 - gateway.descriptors()
  let over = false
  const keep = async () => {
    while (!over) {
      // Not by what the gateway has: one that is slow to accept them would get ever more, until none is left for its nodes.
      const lacking = wanted - silent.open
      if (lacking > 0) await silent.add(lacking)
      await lasts(250)
    }
  }
  const kept = keep()
  await waitFor('the log to say so', () => events().includes('descriptors_low'))
  return () => {
    over = true
    return kept
  }
}

/**
 * An answer of a moment when descriptors were scarce, before it and behind it: silent clients that came together are closed together,
 * and the next ones take a while on a busy machine.
 */
async function whileScarce<T>(call: () => Promise<T>): Promise<T> {
  const isScarce = async () => (await readiness())[0] === 503
  for (;;) {
    if (await isScarce()) {
      const answer = await call()
      if (await isScarce()) return answer
    }
    await lasts(50)
  }
}

test('silent clients with all descriptors: what is known is served, what runs goes on, database and nodes stay', async () => {
  const { gateway_key: key } = gateway.credentials
  expect((await readiness()).slice(0, 2)).toEqual([200, 'ready'])
  node.answer((call) => call.respond(200, whole))
  expect((await chat(key)).status).toBe(200)
  node.answer(null)
  const stream = await openStream(key)
  await stream.next()
  node.answer((call) => call.respond(200, whole))

  const sinceMs = stopwatch()
  const leave = await keepScarce()
  expect(await whileScarce(readiness)).toEqual([503, 'descriptors_low', 'close'])
  const known = await whileScarce(() => chat(key))
  expect([known.status, known.headers.get('connection'), await known.clone().text()]).toEqual([
    200,
    'close',
    expect.stringContaining('"hi"'),
  ])
  expect((await asAdmin()).status).toBe(200)
  const strangers = [() => chat(newToken('gateway')), () => chat(''), () => asAdmin(newToken('admin'))]
  for (const stranger of strangers) {
    const refused = await whileScarce(stranger)
    expect([refused.status, refused.headers.get('connection')]).toEqual([503, 'close'])
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  }
  expect((await whileScarce(() => ask('/v1/api'))).status).toBe(503)
  await stream.next()

  // More than there is room for: the rest waits to be accepted.
  await leave()
  await silent.add(descriptorsMax)
  await waitFor('the last descriptor to be taken', () => gateway.descriptors() >= descriptorsMax - 1)
  const late = chat(key)
  // Through a poll of the node, and all else that comes by itself.
  const lateMs = stopwatch()
  while (lateMs() < 5_500) {
    await stream.next()
    await lasts(200)
  }
  expect((await late).status).toBe(200)
  expect(await stream.end()).not.toContain('"error"')
  silent.leave()
  await waitFor('room', async () => (await readiness())[0] === 200)
  expect(await nodeState()).toBe('ready')

  const told = events()
  for (const event of ['database_away', 'embedded_database_lost', 'route_ejected', 'unhandled']) {
    expect([event, told.includes(event)]).toEqual([event, false])
  }
  // Once a minute.
  const warned = told.filter((event) => event === 'descriptors_low').length
  expect(warned).toBeGreaterThan(0)
  expect(warned).toBeLessThanOrEqual(1 + Math.floor(sinceMs() / 60_000))
})
