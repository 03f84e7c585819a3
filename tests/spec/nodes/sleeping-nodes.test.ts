import { afterAll, expect, test } from 'bun:test'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { untilState } from '../../support/nodes/agents.ts'
import { type SleepingComputer, sleepingComputer } from '../../support/nodes/sleeping-computer.ts'
import { fixture } from '../../support/run/fixture.ts'

const computers: SleepingComputer[] = []

const ids = new Map<SleepingComputer, string>()
const idOf = (each: SleepingComputer) => ids.get(each) ?? ''
const place = (each: SleepingComputer) => `/v1/admin/nodes/${idOf(each)}`

afterAll(async () => {
  for (const each of computers) each.stop()
})
// The cards of all computers listen in one network: each hears every packet.
const first = await computer({ mac: '3c:7c:3f:00:00:01', model: 'first' })
const deaf = await computer({ mac: '3c:7c:3f:00:00:02', model: 'deaf', deaf: true })
const safe = await computer({ mac: '3c:7c:3f:00:00:03', model: 'safe', password: '01:02:03:04:05:06' })
const [slow, fast] = [
  await computer({ mac: '3c:7c:3f:00:00:04', model: 'both', wakeMs: 400 }),
  await computer({ mac: '3c:7c:3f:00:00:05', model: 'both' }),
]
const gateway = await fixture(
  startTestGateway({
    env: {
      SVC_WAKE_ADDRESSES: computers.map(({ card }) => card.address).join(','),
      SVC_WAKE_WAIT_MS: '5000',
      SVC_HEADER_COMMIT_MS: '50',
    },
  }),
)
const customer = await gateway.customer()
for (const each of [first, deaf, safe, slow, fast]) {
  ids.set(each, await gateway.node(each.url, { customerId: customer.customerId }))
  await gateway.admin('PATCH', place(each), { mac: each.card.mac.toUpperCase().replaceAll(':', '-') })
}
await gateway.admin('PATCH', place(safe), { secure_on: '01:02:03:04:05:06' })
const named: Record<'first' | 'deaf' | 'safe' | 'slow' | 'fast', SleepingComputer> = { first, deaf, safe, slow, fast }

interface Made {
  readonly mac: string
  readonly model: string
  readonly deaf?: boolean
  readonly password?: string
  readonly wakeMs?: number
}

async function computer({ model, ...options }: Made): Promise<SleepingComputer> {
  const made = await sleepingComputer({ ...options, server: { models: [model] } })
  computers.push(made)
  return made
}

/** The operator says so, and then its server is gone. */
async function asleep(each: SleepingComputer): Promise<void> {
  await gateway.admin('POST', `${place(each)}/sleep`, {})
  each.fallAsleep()
  await waitFor('the sleep', async () => (await shown(each)).state === 'asleep')
}

async function wokenAnew(each: SleepingComputer): Promise<void> {
  await asleep(each)
  await gateway.admin('POST', `${place(each)}/wake`, {})
  await untilState(gateway, idOf(each), 'ready')
}

interface Shown {
  readonly state: string
  readonly state_says: string | null
  readonly last_error: object | null
  readonly wake_ms: number | null
  readonly macs: readonly string[]
}
const shown = (each: SleepingComputer) => gateway.admin<Shown>('GET', place(each))
const metrics = async () =>
  (await fetch(`${gateway.url}/metrics`, { headers: { 'x-svc-admin-token': gateway.tokens.viewer } })).text()
const queued = async () => Number(/^svc_requests_queued (\d+)$/m.exec(await metrics())?.[1])
const messages = [{ role: 'user', content: 'Hello' }]
const ask = (model: string, more: object = {}, key = customer.key, init: RequestInit = {}) =>
  gateway.chat(key, { model, messages, ...more }, init)
const problem = async (response: Response) => {
  const { error } = (await response.json()) as { error: { code: string; message: string } }
  return [response.status, error.code, error.message] as const
}

test('§39: a request that only a sleeping node can serve wakes it, and waits for its answer', async () => {
  const { first } = named
  await asleep(first)
  const answer = await ask('first')
  expect(answer.status).toBe(200)
  expect(first.card.packets).toBeGreaterThan(0)
  expect((await shown(first)).state).toBe('ready')
  await waitFor('what was learnt', async () => ((await shown(first)).wake_ms ?? 0) > 0)
})

test('§39: a sleeping node is no failure: it keeps its place, its models are listed, and nothing is reported', async () => {
  const { first } = named
  await asleep(first)
  const listed = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${customer.key}` } })
  const { data } = (await listed.json()) as { data: { id: string }[] }
  expect(data.map(({ id }) => id)).toContain('first')
  expect(await shown(first)).toMatchObject({ state: 'asleep', last_error: null })
  expect(await metrics()).toMatch(/svc_nodes\{state="asleep"\} 1/)
  await gateway.admin('POST', `${place(first)}/wake`, {})
  await untilState(gateway, idOf(first), 'ready')
})

test('§39: a stream says that a node is being woken, by its name', async () => {
  const { slow, fast } = named
  await Promise.all([slow, fast].map(asleep))
  await gateway.admin('PATCH', place(slow), { name: 'Den' })
  await gateway.admin('PATCH', place(fast), { name: 'Attic', rank: 9 })
  const answer = await ask('both', { stream: true })
  const text = await answer.text()
  expect(text.match(/^: svc waking Den$/m)).not.toBeNull()
  expect(text).toEndWith('data: [DONE]\n\n')
  await gateway.admin('PATCH', place(fast), { rank: 0 })
  // The other one of higher rank was left in peace.
  expect((await shown(fast)).state).toBe('asleep')
  await gateway.admin('POST', `${place(fast)}/wake`, {})
  await untilState(gateway, idOf(fast), 'ready')
})

test('§39: of two sleeping nodes the one is woken that was learnt to wake sooner, and explain says so', async () => {
  const { slow, fast } = named
  await waitFor('both learnt', async () => {
    const [a, b] = await Promise.all([shown(slow), shown(fast)])
    if (a.wake_ms === null || b.wake_ms === null) return false
    if (a.wake_ms > b.wake_ms) return true
    // What a busy machine made look slow is learnt anew.
    await Promise.all([slow, fast].map(wokenAnew))
    return false
  })
  await Promise.all([slow, fast].map(asleep))
  const before = [slow.card.packets, fast.card.packets] as const
  const answer = await ask('both')
  expect(answer.status).toBe(200)
  expect([slow.card.packets - before[0], (await shown(slow)).state]).toEqual([0, 'asleep'])
  expect(fast.card.packets).toBeGreaterThan(before[1])
  const id = answer.headers.get('x-request-id')
  const { tries } = await gateway.admin<{
    tries: { result: string; routes: { reason: string; cost: object | null }[] }[]
  }>('GET', `/v1/admin/explain?request_id=${id}`)
  expect(tries[0]?.result).toBe('asleep')
  const woken = tries[0]?.routes.find(({ reason }) => reason === 'woken')
  expect(woken?.cost).toHaveProperty('wake_ms')
  // An awake node comes before a sleeping one, always.
  expect((await ask('both')).status).toBe(200)
  expect(slow.card.packets).toBe(before[0])
})

test('§39: a node with SecureOn wakes only by its password, which no answer shows', async () => {
  const { safe } = named
  await asleep(safe)
  expect((await ask('safe')).status).toBe(200)
  expect(JSON.stringify(await shown(safe))).not.toContain('01:02:03:04:05:06')
  expect(JSON.stringify(await gateway.admin('GET', '/v1/admin/approval-events?limit=100'))).not.toContain('01:02:03')
})

test('§39: a client that leaves while it waits ends the packets', async () => {
  const { deaf, safe } = named
  await asleep(deaf)
  const leaving = new AbortController()
  const before = deaf.card.packets
  const asking = ask('deaf', {}, customer.key, { signal: leaving.signal }).catch((error: Error) => error.name)
  await waitFor('a packet', () => deaf.card.packets > before)
  expect(await queued()).toBe(1)
  leaving.abort()
  expect(await asking).toBe('AbortError')
  await waitFor('the end of the request', async () => (await queued()) === 0)
  const sent = deaf.card.packets
  // Packets for another node go on meanwhile, each after two seconds.
  await asleep(safe)
  await gateway.admin('PATCH', place(safe), { secure_on: null })
  const others = safe.card.others
  await gateway.admin('POST', `${place(safe)}/wake`, {})
  await waitFor('two more packets', () => safe.card.others >= others + 2)
  expect(deaf.card.packets).toBe(sent)
  safe.wake()
  await untilState(gateway, idOf(safe), 'ready')
})

test('§39: who may wake: the policy of key and account, and only the owner of the node', async () => {
  const before = named.deaf.card.packets
  const { gateway_key: key } = await gateway.admin<{ gateway_key: string }>(
    'POST',
    `/v1/admin/customers/${customer.customerId}/keys`,
    { name: 'night', model_policy: { allow_wake: false } },
  )
  const [status, code, message] = await problem(await ask('deaf', {}, key))
  expect([status, code]).toEqual([503, 'node_asleep'])
  expect(message).toContain('allow_wake')
  const listed = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })
  expect(await listed.text()).not.toContain('"deaf"')
  const stranger = await gateway.customer()
  expect((await problem(await ask('deaf', {}, stranger.key)))[1]).toBe('model_not_found')
  expect(named.deaf.card.packets).toBe(before)
})

test('§39: when it may be woken: the hours of the node', async () => {
  const { deaf } = named
  const before = deaf.card.packets
  const hour = new Date().getUTCHours()
  const two = (value: number) => String((value + 24) % 24).padStart(2, '0')
  await gateway.admin('PATCH', place(deaf), { wake_hours: `${two(hour + 2)}:00-${two(hour + 3)}:00 UTC` })
  const [status, code, message] = await problem(await ask('deaf'))
  expect([status, code]).toEqual([503, 'node_asleep'])
  expect(message).toContain(`${two(hour + 2)}:00-${two(hour + 3)}:00 UTC`)
  expect(deaf.card.packets).toBe(before)
  await gateway.admin('PATCH', place(deaf), { wake_hours: null })
})

test('§39: no hardware address: 503 at once, and what to do', async () => {
  const { deaf } = named
  await gateway.admin('PATCH', place(deaf), { mac: null })
  const [status, code, message] = await problem(await ask('deaf'))
  expect([status, code]).toEqual([503, 'node_asleep'])
  expect(message).toContain('nodes set --mac')
  await expect(gateway.admin('POST', `${place(deaf)}/wake`, {})).rejects.toThrow(/409.*invalid_state/s)
  await gateway.admin('PATCH', place(deaf), { mac: deaf.card.mac })
})

test('§39: addresses that are none of a single card, hours that are none, are refused', async () => {
  const { deaf } = named
  const wrong = [
    { mac: '00:00:00:00:00:00' },
    { mac: '01:00:5e:00:00:01' },
    { mac: 'ff:ff:ff:ff:ff:ff' },
    { mac: '3c:7c:3f:01:02' },
    { wake_hours: '07:00' },
    { wake_hours: '07:00-07:00' },
    { wake_hours: '07:00-23:00 Nowhere/Town' },
    { wake_hours: '25:00-26:00' },
    { secure_on: 'secret' },
  ]
  for (const body of wrong)
    await expect(gateway.admin('PATCH', place(deaf), body)).rejects.toThrow(/400.*invalid_request/s)
})

test('§39: a person wakes a node that nobody asked for: one answer is enough', async () => {
  const { deaf } = named
  deaf.wake()
  await gateway.admin('POST', `${place(deaf)}/wake`, {})
  await untilState(gateway, idOf(deaf), 'ready')
})

test('§39: operators alone send to sleep and wake, audited, and not while anything runs there', async () => {
  const { first } = named
  for (const verb of ['sleep', 'wake']) {
    await expect(gateway.admin('POST', `${place(first)}/${verb}`, {}, gateway.tokens.viewer)).rejects.toThrow(/403/)
  }
  first.node?.setFaults({ kind: 'hang' })
  const leaving = new AbortController()
  const running = ask('first', {}, customer.key, { signal: leaving.signal }).catch(() => null)
  await waitFor(
    'the call',
    async () => (await gateway.admin<{ in_flight: number }>('GET', place(first))).in_flight === 1,
  )
  await expect(gateway.admin('POST', `${place(first)}/sleep`, {})).rejects.toThrow(/409.*invalid_state/s)
  leaving.abort()
  await running
  first.node?.clearFaults()
  const { events } = await gateway.admin<{ events: { action: string; target_id: string }[] }>(
    'GET',
    '/v1/admin/approval-events?action=node.sleep&limit=50',
  )
  expect(events.some(({ target_id: id }) => id === idOf(first))).toBe(true)
})

test('§39: a node that does not wake: 503 node_asleep with its name, after packets every two seconds', async () => {
  const { deaf } = named
  await asleep(deaf)
  const before = deaf.card.packets
  const [[status, code, message], stream] = await Promise.all([
    ask('deaf').then(problem),
    ask('deaf', { stream: true }).then((answer) => answer.text()),
  ])
  expect([status, code]).toEqual([503, 'node_asleep'])
  expect(message).toContain('did not wake')
  expect(message).not.toContain('127.0.0.1')
  expect(stream).toContain('"code":"node_asleep"')
  // Both requests together: at the start, and each two seconds of five.
  expect(deaf.card.packets - before).toBeLessThanOrEqual(4)
  expect(deaf.card.packets - before).toBeGreaterThanOrEqual(2)
})

test('§39: a node that did not wake is left in peace for a while, which lists tell, until a person wakes it or mends it', async () => {
  const { deaf } = named
  const before = deaf.card.packets
  const refused = await ask('deaf')
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(5)
  const [status, code, message] = await problem(refused)
  expect([status, code]).toEqual([503, 'node_asleep'])
  expect(message).toContain('did not wake')
  expect(deaf.card.packets).toBe(before)
  expect((await shown(deaf)).state_says).toMatch(/^magic packets did not wake it once: .* from \d\d:\d\d UTC on$/)
  await gateway.admin('PATCH', place(deaf), { mac: '3c:7c:3f:00:00:22' })
  await waitFor('the pause to end', async () => (await shown(deaf)).state_says === 'a request wakes it')
  await gateway.admin('PATCH', place(deaf), { mac: deaf.card.mac })
  expect((await problem(await ask('deaf')))[1]).toBe('node_asleep')
  expect((await shown(deaf)).state_says).toContain('once')
  await gateway.admin('POST', `${place(deaf)}/wake`, {})
  expect((await shown(deaf)).state_says).toBe('a request wakes it')
})
