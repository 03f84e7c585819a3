import { beforeEach, expect, test } from 'bun:test'
import { createPublicKey, verify } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import type { WebhookDelivery, WebhookRecord } from '../../../src/protocol/wire/inference/job.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { startWebhookReceiver, testWorld } from '../../support/money/webhook-receiver.ts'
import { createBody, jobCustomer, jobNode, postJob, readJob } from '../../support/pools/job-pool.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'
import { lasts } from '../../support/run/lasts.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const receiver = await fixture(startWebhookReceiver())
const world = testWorld(receiver)
const gateway = await fixture(startTestGateway({ SVC_POLL_INTERVAL_MS: '100' }, undefined, { world }))
const customer = await jobCustomer(gateway)
const node = await fixture(jobNode(gateway, customer))

beforeEach(() => {
  receiver.answer(() => new Response(null, { status: 204 }))
  world.addresses = ['93.184.215.14']
  world.timeoutMs = 15_000
})

const hook = 'https://hooks.example.com/in?key=1'
const hourMs = 3_600_000

/** A job that ends at once, with a webhook. */
async function endedJob(url = hook): Promise<string> {
  const response = await postJob(gateway, customer, { ...createBody(node), webhook_url: url })
  const created = await json(response)
  expect([response.status, created.webhook_url]).toEqual([202, url])
  return String(created.job_id)
}

async function record(jobId: string): Promise<WebhookRecord> {
  const { webhook } = await readJob(gateway, customer, jobId)
  if (webhook === null) throw new Error('the job has no webhook')
  return webhook
}

/** Waits until an attempt has been recorded. */
async function after(jobId: string, status: WebhookRecord['status'], attempts: number): Promise<WebhookRecord> {
  let last: WebhookRecord | null = null
  await waitUntil(`${status} after ${attempts}`, async () => {
    last = await record(jobId)
    return last.status === status && last.attempts === attempts
  })
  return last ?? record(jobId)
}

const receivedFor = (jobId: string) => receiver.received.filter(({ body }) => JSON.parse(body).data.job_id === jobId)
const move = (to: number) => {
  world.clock = to
  gateway.gateway.webhooks.wake()
}
const fail =
  (status = 500, headers = {}) =>
  () =>
    new Response('no', { status, headers })

test('§11: the record is there from the start, null until the job has ended', async () => {
  node.turn({ kind: 'hold' })
  const jobId = await endedJob()
  expect(await record(jobId)).toEqual({
    url: hook,
    status: null,
    attempts: 0,
    last_error: null,
    next_attempt_at: null,
    last_attempt_at: null,
    delivered_at: null,
  })
  await waitUntil('the node has it', async () => (await readJob(gateway, customer, jobId)).status === 'running')
  node.release()
  await after(jobId, 'delivered', 1)
})

test('§11: one event, signed with both kinds, taken by the official library', async () => {
  const jobId = await endedJob()
  const done = await after(jobId, 'delivered', 1)
  const now = new Date(world.clock).toISOString()
  expect(done).toMatchObject({ last_error: null, next_attempt_at: null, last_attempt_at: now, delivered_at: now })
  const [request, ...more] = receivedFor(jobId)
  expect(more).toEqual([])
  const { headers, body, path } = request ?? { headers: {} as Record<string, string>, body: '', path: '' }
  expect(path).toBe('/in?key=1')
  expect(headers['content-type']).toBe('application/json')
  expect(headers['user-agent']).toBe('svc-webhooks/1')
  expect(headers['webhook-id']).toMatch(/^msg_[0-9A-Z]{26}$/)
  const read = await readJob(gateway, customer, jobId)
  const payload = new Webhook(customer.webhookSecret).verify(body, headers)
  expect(payload).toEqual({
    type: 'private_job.completed',
    timestamp: read.completed_at,
    data: {
      customer_id: customer.customerId,
      job_id: jobId,
      node_id: node.nodeId,
      model_id: node.model,
      status: 'completed',
      receipt_hash: read.receipt_hash,
      created_at: read.created_at,
      completed_at: read.completed_at,
    },
  })
  expect(() => new Webhook(customer.webhookSecret).verify(`${body} `, headers)).toThrow()
  const { keys } = (await (await gateway.ask('GET', '/.well-known/webhook-keys.json')).json()) as { keys: string[] }
  const raw = Buffer.from(String(keys[0]).replace('whpk_', ''), 'base64')
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: raw.toString('base64url') }, format: 'jwk' })
  const signature = (headers['webhook-signature'] ?? '').split(' ').find((part) => part.startsWith('v1a,')) ?? ''
  const signed = Buffer.from(`${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`)
  expect(verify(null, signed, key, Buffer.from(signature.slice(4), 'base64'))).toBe(true)
})

test('§10: each terminal state emits exactly one event, of its own type', async () => {
  const typeOf = (jobId: string) => receivedFor(jobId).map(({ body }) => JSON.parse(body))
  node.turn({ kind: 'fail', code: 'invalid_payload' })
  const failed = await endedJob()
  await after(failed, 'delivered', 1)
  node.turn({ kind: 'hold' })
  const cancelled = await endedJob()
  await waitUntil('the node has it', async () => (await readJob(gateway, customer, cancelled)).status === 'running')
  const [{ command_id } = { command_id: '' }] = await gateway.database.sql`
    select command_id from private_jobs where job_id = ${cancelled}`
  await gateway.ask('POST', `/v1/admin/commands/${command_id}/cancel`, { as: 'operator' })
  await after(cancelled, 'delivered', 1)
  node.turn({ kind: 'hold' })
  const expired = await endedJob()
  await waitUntil('the node has it', async () => (await readJob(gateway, customer, expired)).status === 'running')
  move(world.clock + hourMs)
  await after(expired, 'delivered', 1)
  node.release()
  for (const [jobId, status] of [
    [failed, 'failed'],
    [cancelled, 'cancelled'],
    [expired, 'expired'],
  ] as const) {
    const { completed_at } = await readJob(gateway, customer, jobId)
    expect(typeOf(jobId)).toEqual([
      {
        type: `private_job.${status}`,
        timestamp: completed_at,
        data: expect.objectContaining({ job_id: jobId, status, receipt_hash: null, completed_at }),
      },
    ])
  }
})

test('§11: all 75 hours: 10 attempts of the same bytes at their times, then failed', async () => {
  receiver.answer(fail())
  const began = world.clock
  const jobId = await endedJob()
  const delays = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400].map((seconds) => seconds * 1_000)
  for (const [index, delay] of delays.entries()) {
    const { last_error, next_attempt_at } = await after(jobId, 'retry_scheduled', index + 1)
    expect(last_error).toBe('http_500')
    const next = Date.parse(next_attempt_at ?? '')
    expect(next - world.clock).toBe(delay)
    // Just before it is due nothing is taken.
    const due = await gateway.database.sql`
      select 1 from webhook_deliveries where job_id = ${jobId} and due_at <= ${new Date(next - 1).toISOString()}`
    expect(due.length).toBe(0)
    move(next)
  }
  const end = await after(jobId, 'failed', 10)
  expect(end).toMatchObject({ last_error: 'http_500', next_attempt_at: null, delivered_at: null })
  expect(world.clock - began).toBe(delays.reduce((sum, delay) => sum + delay, 0))
  const requests = receivedFor(jobId)
  expect(requests.length).toBe(10)
  expect(new Set(requests.map(({ body }) => body)).size).toBe(1)
  expect(new Set(requests.map(({ headers }) => headers['webhook-id'])).size).toBe(1)
  expect(requests.map(({ headers }) => Number(headers['webhook-timestamp']))).toEqual(
    [0, ...delays].map((_, i) => Math.floor((began + delays.slice(0, i).reduce((sum, d) => sum + d, 0)) / 1_000)),
  )
  // Less than the 30 days after which the job and its record go.
  move(world.clock + 600 * hourMs)
  expect((await record(jobId)).status).toBe('failed')
})

test('§11: Retry-After lengthens a wait, up to a day, and never shortens it', async () => {
  receiver.answer(
    fail(429, { 'retry-after': '7200' }),
    fail(503, { 'retry-after': '1' }),
    fail(503, { 'retry-after': '999999' }),
  )
  const jobId = await endedJob()
  const wait = async (attempts: number) => {
    const { next_attempt_at } = await after(jobId, 'retry_scheduled', attempts)
    const next = Date.parse(next_attempt_at ?? '')
    const waited = next - world.clock
    move(next)
    return waited
  }
  expect(await wait(1)).toBe(2 * hourMs)
  expect(await wait(2)).toBe(5 * 60_000)
  expect(await wait(3)).toBe(24 * hourMs)
  receiver.answer(() => new Response('ok'))
  move(world.clock + 24 * hourMs)
  await waitUntil('it is delivered', async () => (await record(jobId)).status === 'delivered')
})

test.each([
  [410, {}, 'disabled', 'gone'],
  [500, { 'webhook-delivery': 'abort-message' }, 'disabled', 'aborted_by_receiver'],
  [301, { location: 'https://hooks.example.com/elsewhere' }, 'retry_scheduled', 'http_301'],
  [404, {}, 'retry_scheduled', 'http_404'],
] as const)('§11: an answer of %i %j makes it %s: %s', async (status, headers, becomes, error) => {
  receiver.answer(fail(status, headers))
  const jobId = await endedJob()
  const { last_error, next_attempt_at } = await after(jobId, becomes, 1)
  expect(last_error).toBe(error)
  expect(next_attempt_at === null).toBe(becomes === 'disabled')
  expect(receivedFor(jobId).map(({ path }) => path)).toEqual(['/in?key=1'])
})

test.each([
  [['127.0.0.1']],
  [['10.1.2.3']],
  [['169.254.169.254']],
  [['93.184.215.14', '192.168.0.1']],
  [['::1']],
  [['::ffff:127.0.0.1']],
  [['::ffff:7f00:1']],
  [['64:ff9b::7f00:1']],
  [['2002:7f00:1::']],
  [['fe80::1%eth0']],
  [['2001:db8::1']],
  [['100.64.0.1']],
])('§11: a name that means %j is not connected to', async (addresses) => {
  world.addresses = addresses
  const before = world.connected.length
  const jobId = await endedJob()
  expect((await after(jobId, 'retry_scheduled', 1)).last_error).toBe('blocked_address')
  expect(world.connected.length).toBe(before)
})

test('§11: a name that comes to mean another machine: each attempt is checked, and goes to what was checked', async () => {
  receiver.answer(fail(), () => new Response('ok'))
  const jobId = await endedJob()
  const { next_attempt_at } = await after(jobId, 'retry_scheduled', 1)
  world.addresses = ['127.0.0.1']
  move(Date.parse(next_attempt_at ?? ''))
  const second = await after(jobId, 'retry_scheduled', 2)
  expect(second.last_error).toBe('blocked_address')
  world.addresses = ['1.1.1.1', '2606:4700::1111']
  move(Date.parse(second.next_attempt_at ?? ''))
  await after(jobId, 'delivered', 3)
  expect(world.connected.at(-1)).toBe('1.1.1.1:443')
})

test('§11: a certificate for another name, a name without an address', async () => {
  const other = await endedJob('https://other.example.com/')
  expect((await after(other, 'retry_scheduled', 1)).last_error).toBe('tls_error')
  world.addresses = new Error('no such name')
  const nameless = await endedJob()
  expect((await after(nameless, 'retry_scheduled', 1)).last_error).toBe('dns_error')
})

test('§11: no proxy of the environment is used', async () => {
  const post = {
    address: '127.0.0.1',
    port: receiver.port,
    hostname: receiver.hostname,
    path: '/straight',
    headers: {},
    body: '{"data":{}}',
    timeoutMs: 10_000,
    ca: receiver.ca,
  }
  const script = `
    const { postPinned } = await import('./src/actors/jobs/pinned-post.ts')
    const { status } = await postPinned({ ...${JSON.stringify(post)}, signal: new AbortController().signal })
    console.log(status)`
  const proxy = 'http://127.0.0.1:1'
  const names = ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'https_proxy', 'ALL_PROXY', 'all_proxy']
  const child = Bun.spawn([process.execPath, '-e', script], {
    cwd: `${import.meta.dir}/../../..`,
    env: { ...process.env, ...Object.fromEntries(names.map((name) => [name, proxy])), NO_PROXY: '', no_proxy: '' },
  })
  expect(await new Response(child.stdout).text()).toBe('204\n')
  expect(receiver.received.at(-1)?.path).toBe('/straight')
})

test('§11: a receiver that is silent times out; a status in time counts, however its body drips', async () => {
  world.timeoutMs = 200
  const silent = Promise.withResolvers<void>()
  receiver.answer(async () => {
    await silent.promise
    return new Response('late')
  })
  const jobId = await endedJob()
  expect((await after(jobId, 'retry_scheduled', 1)).last_error).toBe('timeout')
  silent.resolve()
  world.timeoutMs = 2_000
  let stop = false
  const dripping = () =>
    new ReadableStream({
      async pull(controller) {
        if (stop) return controller.close()
        controller.enqueue(new Uint8Array([32]))
        await lasts(20)
      },
      cancel() {
        stop = true
      },
    })
  receiver.answer(() => new Response(dripping()))
  await after(await endedJob(), 'delivered', 1)
  stop = true
  receiver.answer(() => new Response(new Uint8Array(8 * 1024 * 1024)))
  world.timeoutMs = 15_000
  await after(await endedJob(), 'delivered', 1)
})

test('§11: at most 64 KiB of an answer are read, then it is left', async () => {
  // So long that only its own bound ends the answer.
  world.timeoutMs = 600_000
  const left = Promise.withResolvers<void>()
  let sent = 0
  const endless = () =>
    new ReadableStream({
      pull: (controller) => {
        sent += 4_096
        controller.enqueue(new Uint8Array(4_096))
      },
      cancel: () => left.resolve(),
    })
  receiver.answer(() => new Response(endless()))
  await after(await endedJob(), 'delivered', 1)
  await left.promise
  expect(sent).toBeGreaterThan(64 * 1024)
})

test('§11: a URL may have a port of SVC_WEBHOOK_PORTS, and no other', async () => {
  await using own = await scoped(
    startTestGateway({ SVC_WEBHOOK_PORTS: '443,8443' }, undefined, { world: testWorld(receiver) }),
  )
  const theirs = await jobCustomer(own)
  const at = await jobNode(own, theirs)
  for (const [port, status] of [
    ['', 202],
    [':443', 202],
    [':8443', 202],
    [':9443', 400],
  ] as const) {
    const body = { ...createBody(at), webhook_url: `https://hooks.example.com${port}/in` }
    expect([port, (await postJob(own, theirs, body)).status]).toEqual([port, status])
  }
  await at.stop()
})

test('§11: a delivery whose gateway died is made again under the same number once its lease has run out', async () => {
  receiver.answer(fail())
  const jobId = await endedJob()
  await after(jobId, 'retry_scheduled', 1)
  receiver.answer(() => new Response('ok'))
  await gateway.database.sql`
    update webhook_deliveries set status = 'delivering', lease_id = 'dead', attempts = 2,
      due_at = ${new Date(world.clock + 60_000).toISOString()} where job_id = ${jobId}`
  expect((await record(jobId)).next_attempt_at).toBeNull()
  move(world.clock + 60_000)
  await after(jobId, 'delivered', 2)
})

test('§11: a URL that the rules forbid by now is not tried any more', async () => {
  receiver.answer(fail())
  const jobId = await endedJob()
  const { next_attempt_at } = await after(jobId, 'retry_scheduled', 1)
  await gateway.database.sql`update webhook_deliveries set url = 'https://10.0.0.1/' where job_id = ${jobId}`
  move(Date.parse(next_attempt_at ?? ''))
  expect((await after(jobId, 'disabled', 2)).last_error).toBe('blocked_address')
})

test('§11: a replaced secret signs beside the new one for 24 h', async () => {
  const rotate = await gateway.ask('POST', `/v1/admin/customers/${customer.customerId}/webhook-secret`, { as: 'admin' })
  const fresh = String((await json(rotate)).webhook_secret)
  const signatures = async () => {
    const jobId = await endedJob()
    await after(jobId, 'delivered', 1)
    const [{ headers, body } = { headers: {} as Record<string, string>, body: '' }] = receivedFor(jobId)
    const text = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`
    const sign = (secret: string) =>
      `v1,${new Bun.CryptoHasher('sha256', Buffer.from(secret.slice(6), 'base64')).update(text).digest('base64')}`
    const sent = (headers['webhook-signature'] ?? '').split(' ')
    return [sent.length, sent.indexOf(sign(fresh)), sent.indexOf(sign(customer.webhookSecret))]
  }
  expect(await signatures()).toEqual([3, 1, 2])
  move(world.clock + 24 * hourMs)
  expect(await signatures()).toEqual([2, 1, -1])
})

test('§11: while SVC_WEBHOOK_KEY is rotated both keys sign', async () => {
  await using own = await scoped(
    startTestGateway(
      { SVC_WEBHOOK_KEY: `${'55'.repeat(32)},${'44'.repeat(32)}`, SVC_POLL_INTERVAL_MS: '100' },
      undefined,
      { world: testWorld(receiver) },
    ),
  )
  const theirs = await jobCustomer(own)
  const at = await jobNode(own, theirs)
  const response = await postJob(own, theirs, { ...createBody(at), webhook_url: hook })
  const { job_id: jobId } = await json(response)
  await waitUntil('it is delivered', () => receivedFor(String(jobId)).length > 0)
  const [{ headers, body } = { headers: {} as Record<string, string>, body: '' }] = receivedFor(String(jobId))
  const { keys } = (await (await own.ask('GET', '/.well-known/webhook-keys.json')).json()) as { keys: string[] }
  const signed = Buffer.from(`${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`)
  const signatures = (headers['webhook-signature'] ?? '').split(' ').filter((part) => part.startsWith('v1a,'))
  const signers = signatures.map((signature) =>
    keys.findIndex((text) => {
      const x = Buffer.from(text.replace('whpk_', ''), 'base64').toString('base64url')
      const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
      return verify(null, signed, key, Buffer.from(signature.slice(4), 'base64'))
    }),
  )
  expect(signers.toSorted()).toEqual([0, 1])
  await at.stop()
})

const listed = async (query = '', as: 'viewer' | 'operator' = 'viewer') => {
  const response = await gateway.ask('GET', `/v1/admin/webhooks${query}`, { as })
  return { status: response.status, body: (await response.json()) as { count: number; webhooks: WebhookDelivery[] } }
}

test('§23: operators see deliveries without their URLs, and have an event delivered again under its id', async () => {
  receiver.answer(fail(410))
  const jobId = await endedJob()
  await after(jobId, 'disabled', 1)
  const found = (await listed('?status=disabled&limit=1')).body.webhooks
  expect(found).toEqual([
    expect.objectContaining({ job_id: jobId, status: 'disabled', attempts: 1, last_error: 'gone' }),
  ])
  expect(JSON.stringify(found)).not.toMatch(/hooks\.example|customer_id/)
  const [own] = (await listed(`?customer_id=${customer.customerId}&limit=1`, 'operator')).body.webhooks
  expect(own?.customer_id).toBe(customer.customerId)
  expect((await listed(`?customer_id=${customer.customerId}`)).status).toBe(403)
  const { webhook_id } = found[0] ?? { webhook_id: '' }
  receiver.answer(() => new Response('ok'))
  const again = await gateway.ask('POST', `/v1/admin/webhooks/${webhook_id}/redeliver`, { as: 'operator' })
  expect([again.status, (await json(again)).status]).toEqual([200, 'pending'])
  const events = await gateway.database.sql`select action, category, target_type, target_id from admin_approval_events
    where request_id = ${again.headers.get('x-request-id')}`
  expect([...events]).toEqual([
    { action: 'webhook.redeliver', category: 'private_jobs', target_type: 'webhook', target_id: webhook_id },
  ])
  await after(jobId, 'delivered', 1)
  const [first, second] = receivedFor(jobId)
  expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id'] ?? '')
  expect(second?.body).toBe(first?.body ?? '')
  const unknown = await gateway.ask('POST', '/v1/admin/webhooks/msg_none/redeliver', { as: 'operator' })
  expect([unknown.status, (await json(unknown)).code]).toEqual([404, 'webhook_not_found'])
})

test('§23: an event that is not due yet cannot be delivered', async () => {
  node.turn({ kind: 'hold' })
  const jobId = await endedJob()
  const [{ webhook_id } = { webhook_id: '' }] = (await listed('?limit=1')).body.webhooks
  const early = await gateway.ask('POST', `/v1/admin/webhooks/${webhook_id}/redeliver`, { as: 'operator' })
  expect([early.status, (await json(early)).code]).toEqual([409, 'invalid_state'])
  await waitUntil('the node has it', async () => (await readJob(gateway, customer, jobId)).status === 'running')
  node.release()
  await after(jobId, 'delivered', 1)
})

test.each([
  'http://hooks.example.com/',
  'https://user:pass@hooks.example.com/',
  'https://hooks.example.com/#x',
  'https://hooks.example.com:8443/',
  'https://127.0.0.1/',
  'https://0x7f.1/',
  'https://2130706433/',
  'https://[::1]/',
  'https://[2606:4700::1111]/',
  'https://localhost/',
  'https://intranet/',
  'https://a.local/',
  'https://a.internal/',
  'https://a.localhost/',
  'https://a.onion/',
  'https://hooks.example.com./',
  'https://hooks.example.com%2e/',
  'https://hooks..example.com/',
  'https://.hooks.example.com/',
  'https://hooks.example.com\u3002/',
  'https://A.LOCAL/',
  'https://local/',
  'https://a.lan/',
  'https://a.test/',
  'https://a.home.arpa/',
  'https://home.arpa/',
  'https://hooks.exam\tple.com/',
  ' https://hooks.example.com/',
  'https:hooks.example.com/',
  'https:\\\\hooks.example.com/',
  'https://hooks.example.com/\u00e4',
  'https://h\u00f6\u00f6ks.example.com/',
  'https://hooks.example.com/a b',
  'https://hooks.example.com/%zz',
  'https://hooks.example.com/?a|b',
  'ftp://hooks.example.com/',
  'hooks.example.com',
])('§11: %s is refused at create', async (url) => {
  const response = await postJob(gateway, customer, { ...createBody(node), webhook_url: url })
  expect([response.status, (await json(response)).code]).toEqual([400, 'webhook_url_invalid'])
})

test('§27: a URL is kept and echoed as it was sent; the normal form is for the call alone', async () => {
  const sent = [
    ['https://HOOKS.Example.com/in', '/in', '93.184.215.14:443'],
    ['https://hooks.example.com', '/', '93.184.215.14:443'],
    ['https://hooks.example.com:443/a/../b?x=%41', '/b?x=%41', '93.184.215.14:443'],
    ['HTTPS://hooks.example.com/%c3%a4%20b', '/%c3%a4%20b', '93.184.215.14:443'],
  ] as const
  for (const [url, path, place] of sent) {
    const jobId = await endedJob(url)
    expect((await after(jobId, 'delivered', 1)).url).toBe(url)
    expect([receivedFor(jobId)[0]?.path, world.connected.at(-1)]).toEqual([path, place])
  }
})

test('§27: a name that only ends like a private one is public', async () => {
  for (const url of ['https://mylan.example.com/', 'https://a.latest/', 'https://xhome.arpa/']) {
    const response = await postJob(gateway, customer, { ...createBody(node), webhook_url: url })
    expect([response.status, (await json(response)).webhook_url]).toEqual([202, url])
  }
})

test('§11: a URL may have 2 048 characters', async () => {
  const url = (length: number) => 'https://hooks.example.com/'.padEnd(length, 'x')
  const status = async (webhook_url: string) =>
    (await postJob(gateway, customer, { ...createBody(node), webhook_url })).status
  expect([await status(url(2_048)), await status(url(2_049))]).toEqual([202, 400])
})

test('§18: attempts are counted by what they led to, jobs by their status', async () => {
  const response = await gateway.ask('GET', '/metrics', {
    headers: { authorization: `Bearer ${gateway.tokens.viewer}` },
  })
  const text = await response.text()
  for (const result of ['delivered', 'retry_scheduled', 'failed', 'disabled']) {
    const count = new RegExp(`svc_webhook_attempts_total\\{result="${result}"\\} (\\d+)`).exec(text)?.[1]
    expect([result, Number(count) > 0]).toEqual([result, true])
  }
  for (const status of ['queued', 'dispatched', 'running']) {
    expect(text).toMatch(new RegExp(`^svc_jobs\\{status="${status}"\\} \\d+$`, 'm'))
  }
  expect(text).toMatch(/^svc_jobs_attended \d+$/m)
})

test('§18: webhook URLs and secrets are in no log line', async () => {
  const text = JSON.stringify(gateway.logged())
  expect(text).toContain('webhook-delivery')
  for (const secret of ['hooks.example', 'key=1', 'whsec_']) expect(text).not.toContain(secret)
})
