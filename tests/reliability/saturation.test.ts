import { expect, test } from 'bun:test'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import { startTestGateway, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { shownMetric } from '../support/gateways/metric.ts'
import { fixture, scoped } from '../support/run/fixture.ts'
import { stopwatch } from '../support/run/stopwatch.ts'

/** How long the gateway waits that has a queue to fill, which takes its time on a busy machine. */
const queueWaitMs = 20_000
/** And the one whose client waits in vain. */
const shortWaitMs = 1_500
/** SVC_QUEUE_WAITING_MAX as shipped. */
const waitingMax = 64

const env = {
  SVC_ADMIN_RPM_PER_TOKEN: '1000000',
  SVC_QUEUE_WAIT_MS: String(queueWaitMs),
  // All are of one key here.
  SVC_QUEUE_WAITING_KEY_MAX: String(waitingMax),
  SVC_METRICS_PUBLIC: 'true',
  SVC_HEADER_COMMIT_MS: '500',
}
const gateway = await fixture(startTestGateway({ env }))
/** The same database, a short wait. */
const impatient = await fixture(
  startTestGateway({ env: { ...env, SVC_QUEUE_WAIT_MS: String(shortWaitMs) }, beside: gateway }),
)
const customer = await gateway.customer()

async function oneSlot(model: string, at = gateway): Promise<FakeNode> {
  const node = startFakeNode({ models: [model], speaks: 'llama.cpp', slots: 1 })
  await at.node(node.url, { customerId: customer.customerId })
  return node
}

const ask = (model: string, init: RequestInit = {}, at = gateway) =>
  at.chat(customer.key, { model, messages: [{ role: 'user', content: 'hi' }] }, init)

const queued = (): Promise<number> => shownMetric(gateway, 'svc_requests_queued')

/** Takes the only slot until it is let go. */
async function holdSlot(node: FakeNode, model: string, at = gateway): Promise<() => Promise<void>> {
  node.setFaults({ kind: 'slowHeaders', ms: 60_000, times: 1 })
  const controller = new AbortController()
  const held = ask(model, { signal: controller.signal }, at).catch(() => null)
  await waitFor('the slot to be taken', () => node.stats().openRequests === 1)
  return async () => {
    controller.abort()
    await held
  }
}

test('§5: every slot full: a short wait, then 429 capacity_exhausted, to be tried again', async () => {
  const node = await oneSlot('full', impatient)
  const letGo = await holdSlot(node, 'full', impatient)
  try {
    const waitedMs = stopwatch()
    const response = await ask('full', {}, impatient)
    expect(response.status).toBe(429)
    expect(waitedMs()).toBeGreaterThanOrEqual(shortWaitMs)
    expect(response.headers.get('x-should-retry')).toBe('true')
    const { error } = (await response.json()) as { error: { code: string; svc: { retry_after_seconds: number } } }
    expect(error.code).toBe('capacity_exhausted')
    expect(response.headers.get('retry-after')).toBe(String(error.svc.retry_after_seconds))
    expect(node.stats().requests).toBe(1)
  } finally {
    await letGo()
    node.stop()
  }
})

test('§2: Retry-After says how long a call of this model takes, and who else waits for it', async () => {
  const node = await oneSlot('slow')
  node.setAnswer({ firstTokenMs: 1_100 })
  const tookMs = stopwatch()
  expect((await ask('slow')).status).toBe(200)
  await waitFor('the node there, too', async () => (await ask('slow', {}, impatient)).status === 200)
  // 1.1 s, rounded up, on a machine that has nothing else to do.
  const [callSeconds, callSecondsMax] = [2, Math.ceil(tookMs() / 1_000)]
  const left = new AbortController()
  const refusedFor = async (at: TestGateway, waitSeconds: number) => {
    const refused = await ask('slow', {}, at)
    expect(refused.status).toBe(429)
    const retryAfter = Number(refused.headers.get('retry-after'))
    expect(retryAfter).toBeGreaterThanOrEqual(waitSeconds + callSeconds)
    expect(retryAfter).toBeLessThanOrEqual(waitSeconds + callSecondsMax)
    await refused.text()
  }
  let letGo = await holdSlot(node, 'slow', impatient)
  try {
    await refusedFor(impatient, 0)
    await letGo()
    await node.idle()
    letGo = await holdSlot(node, 'slow')
    const waiters = Array.from({ length: waitingMax }, () => ask('slow', { signal: left.signal }).catch(() => null))
    await waitFor('a full queue', async () => (await queued()) === waitingMax)
    // Those ahead are served or gone after 20 s.
    await refusedFor(gateway, queueWaitMs / 1_000)
    left.abort()
    await Promise.all(waiters)
  } finally {
    left.abort()
    await letGo()
    node.stop()
  }
})

test('§5: 64 wait and no more; a slot that is given back serves them all', async () => {
  await using node = await scoped(oneSlot('queue'))
  const letGo = await holdSlot(node, 'queue')
  const answers: Promise<number>[] = []
  const statuses: number[] = []
  for (let at = 0; at < waitingMax; at++) {
    answers.push(
      ask('queue').then(async (response) => {
        await response.text()
        statuses.push(response.status)
        return response.status
      }),
    )
  }
  await waitFor('a full queue', async () => (await queued()) === waitingMax)
  for (let at = 0; at < 3; at++) {
    const refused = await ask('queue')
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
    await refused.text()
  }
  expect(statuses).toEqual([])
  await letGo()
  expect(await Promise.all(answers)).toEqual(Array.from({ length: waitingMax }, () => 200))
  expect(await queued()).toBe(0)
  // One slot: never two calls at once.
  const overlapping = node.requests.filter((request, at) => {
    const next = node.requests[at + 1]
    return next !== undefined && (request.endedAtMs ?? Number.POSITIVE_INFINITY) > next.atMs
  })
  expect(overlapping).toEqual([])
})

test('§5: a waiter goes to another node as soon as one is there', async () => {
  const node = await oneSlot('joined')
  const letGo = await holdSlot(node, 'joined')
  const second = startFakeNode({ models: ['joined'], name: 'second-' })
  try {
    const waiting = ask('joined')
    await waitFor('a waiter', async () => (await queued()) === 1)
    await gateway.node(second.url, { customerId: customer.customerId })
    const response = await waiting
    expect(response.status).toBe(200)
    expect(await response.text()).toContain('second-')
  } finally {
    await letGo()
    node.stop()
    second.stop()
  }
})

test('§30: a stream that waits for a slot says where it stands, and nothing of the others', async () => {
  const model = 'told'
  const node = await oneSlot(model)
  const letGo = await holdSlot(node, model)
  const body = { model, stream: true, messages: [{ role: 'user', content: 'hi' }] }
  const streams = await Promise.all([0, 1].map(() => gateway.chat(customer.key, body)))
  const readers = streams.map((stream) => stream.body?.getReader())
  const first = await Promise.all(
    readers.map(async (reader) => new TextDecoder().decode((await reader?.read())?.value)),
  )
  expect(first.sort()).toEqual([': svc queued 1 of 2\n\n', ': svc queued 2 of 2\n\n'])
  await letGo()
  for (const reader of readers) for (let done = false; !done; ) done = (await reader?.read())?.done ?? true
  node.stop()
})
