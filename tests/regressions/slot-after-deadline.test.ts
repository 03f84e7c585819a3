import { afterEach, describe, expect, test } from 'bun:test'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { EventStreamReader } from '../support/clients/event-stream.ts'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { fixture, scoped } from '../support/run/fixture.ts'
import { lasts } from '../support/run/lasts.ts'
import { lockWaits } from '../support/run/lock-waits.ts'

/**
 * Symptom: a node was called for a request that had ended while it waited for a slot, for its money or for its tokens: its
 * deadline had passed, its stream had told the client of an error, or the gateway was stopping.
 * Cause: only the client's leaving ended a wait, and nobody looked again before the call.
 * Fix: one question before every call, and one signal that ends the waits.
 */
/** Long enough that a busy machine brings each request to where it waits, and that a whole one outlives a stream that came after it. */
const streamMsMax = 2_500
const wholeMsMax = 6_000
const queueWaitMs = 30_000
const env = {
  SVC_ADMIN_RPM_PER_TOKEN: '1000000',
  SVC_METRICS_PUBLIC: 'true',
  SVC_TTFT_TIMEOUT_MS: String(streamMsMax),
  SVC_TOTAL_TIMEOUT_MS: String(wholeMsMax),
  SVC_QUEUE_WAIT_MS: String(queueWaitMs),
  SVC_HEADER_COMMIT_MS: '100',
  SVC_SHUTDOWN_GRACE_MS: '100',
}
const kinds = [
  ['a stream', true, streamMsMax],
  ['a whole answer', false, wholeMsMax],
] as const
const abroad = { min_privacy_class: 'public' as const }
const messages = [{ role: 'user', content: 'hi' }]

const gateway = await fixture(startTestGateway({ env }))
const owner = await gateway.customer()
const payer = await gateway.customer({ policy: abroad, keyPolicy: abroad })
const node = await fixture(startFakeNode({ models: ['m'], speaks: 'llama.cpp', slots: 1 }))
await gateway.node(node.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
const prices = { prompt_token_price_wei: '10', completion_token_price_wei: '10' }
await gateway.admin('PUT', '/v1/admin/models', { id: 'm', ...prices })
await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '10000000' })

afterEach(() => node.clearFaults())

const ask = (key: string, stream: boolean, init: RequestInit = {}) =>
  gateway.chat(key, { model: 'm', stream, messages, max_tokens: 20 }, init)
async function metric(name: string): Promise<number> {
  const text = await (await fetch(`${gateway.url}/metrics`)).text()
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1])
}
const code = async (response: Response) => /"code":"(\w+)"/.exec(await response.text())?.[1]

describe('§5: who waits for a slot', () => {
  test('a stream ends with the deadline of its first chunk, gives its place back and calls no node', async () => {
    // The first has its first chunk, and so the time of a whole request.
    node.setFaults({ kind: 'stall', afterChunks: 1, times: 1 })
    const holder = await ask(owner.key, true)
    const reader = new EventStreamReader(holder)
    await reader.chunk()
    const before = node.stats().requests
    expect(await code(await ask(owner.key, true))).toBe('capacity_exhausted')
    expect(await metric('svc_requests_queued')).toBe(0)
    await reader.rest()
    // Whoever still waited would be served before this one.
    expect((await ask(owner.key, false)).status).toBe(200)
    expect(node.stats().requests).toBe(before + 1)
  })

  test.each(kinds)('%s is told when the gateway stops, and calls no node', async (_, stream) => {
    const stopping = await startTestGateway({
      env: { ...env, SVC_TTFT_TIMEOUT_MS: '60000', SVC_TOTAL_TIMEOUT_MS: '60000' },
    })
    const { customerId, key } = await stopping.customer()
    await using alone = await scoped(startFakeNode({ models: ['m'], speaks: 'llama.cpp', slots: 1 }))
    await stopping.node(alone.url, { customerId })
    alone.setFaults({ kind: 'slowHeaders', ms: 60_000, times: 1 })
    const body = { model: 'm', messages }
    const held = stopping.chat(key, body).then(code)
    await waitFor('the slot to be taken', () => alone.stats().openRequests === 1)
    const waiting = stopping.chat(key, { ...body, stream })
    const heard = waiting.then(code)
    await waitFor('a place', async () => {
      const text = await (await fetch(`${stopping.url}/metrics`)).text()
      return text.includes('\nsvc_requests_queued 1\n')
    })
    if (stream) await waiting
    await stopping.stop()
    expect(await held).toBe('service_unavailable')
    expect(await heard).toBe(stream ? 'server_shutdown' : 'service_unavailable')
    expect(alone.stats().requests).toBe(1)
  })
})

/** Asks while `lock` is held, which is let go when the request's time is over; then nothing of it may be left. */
async function overdue(lock: string, key: string, stream: boolean, msMax: number): Promise<string | undefined> {
  const held = Promise.withResolvers<void>()
  const locked = Promise.withResolvers<void>()
  const locking = gateway.database.sql.begin(async (sql) => {
    await sql.unsafe(lock)
    locked.resolve()
    await held.promise
  })
  try {
    await locked.promise
    const asking = ask(key, stream).then(code)
    await waitFor('the statement to wait', async () => (await lockWaits(gateway.database.sql)) > 0)
    // The passing of the deadline is what is waited for.
    await lasts(msMax + 100)
    held.resolve()
    return await asking
  } finally {
    held.resolve()
    await locking
    await waitFor('the request to have ended', async () => (await metric('svc_requests_in_flight')) === 0)
  }
}

describe.each(kinds)('§6: %s whose deadline has passed', (_, stream, msMax) => {
  test('while its money was reserved calls no node, and nothing stays reserved', async () => {
    const before = node.stats().requests
    const lock = `select 1 from customers where customer_id = '${payer.customerId}' for update`
    expect(await overdue(lock, payer.key, stream, msMax)).toBe('upstream_timeout')
    expect(node.stats().requests).toBe(before)
    const reserved = async () => (await gateway.database.sql`select 1 from reservations where status = 'open'`).length
    await waitFor('the release', async () => (await reserved()) === 0)
  })

  test('while its tokens were asked for calls no node', async () => {
    const limited = await gateway.customer({ policy: { ...abroad, daily_token_quota: 1_000_000 }, keyPolicy: abroad })
    await gateway.admin('POST', `/v1/admin/customers/${limited.customerId}/credits`, { amount_wei: '10000000' })
    const before = node.stats().requests
    // The database that answers too late is away (§17), also where the machine is slow.
    const heard = await overdue('lock table quota_leases in access exclusive mode', limited.key, stream, msMax)
    expect(heard).toMatch(/^(upstream_timeout|service_unavailable)$/)
    expect(node.stats().requests).toBe(before)
  })
})
