import { expect, test } from 'bun:test'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import type { InspectEvents } from '../../../src/protocol/wire/admin/inspect.ts'
import { newToken } from '../../../src/secrets.ts'
import { InspectReader } from '../../support/console/inspect-reader.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

const consolesMax = 4
const secret = 'what-nobody-may-see-here'
const inspect = (token?: string) =>
  fetch(`${gateway.url}/v1/admin/inspect`, token === undefined ? {} : { headers: { 'x-svc-admin-token': token } })
const open = async (token = gateway.tokens.viewer) => new InspectReader(await inspect(token))

const gateway = await fixture(
  startTestGateway({ env: { SVC_CONSOLES_MAX: `${consolesMax}`, SVC_ADMIN_RPM_PER_TOKEN: '100000' } }),
)
const customer = await gateway.customer()
const node = await fixture(startFakeNode({ models: ['m-1'], answer: { text: secret } }))
const nodeId = await gateway.node(node.url, { customerId: customer.customerId })

test('§23: machines, transitions and the stream are for viewers, and for nobody without a token', async () => {
  const paths = ['/v1/admin/machines', '/v1/admin/machines/node/transitions', '/v1/admin/inspect']
  for (const path of paths) {
    const anonymous = await fetch(gateway.url + path)
    const wrong = await fetch(gateway.url + path, { headers: { 'x-svc-admin-token': 'svc_viewer_no' } })
    const viewer = await fetch(gateway.url + path, { headers: { 'x-svc-admin-token': gateway.tokens.viewer } })
    expect([path, anonymous.status, wrong.status, viewer.status]).toEqual([path, 401, 401, 200])
    await Promise.all([anonymous, wrong, viewer].map((response) => response.body?.cancel()))
  }
  await waitFor('the console to be gone', async () => {
    const reader = await open()
    const { status } = reader
    await reader.close()
    return status === 200
  })
})

test('§23: each machine with states, transitions and a picture', async () => {
  const { machines } = await gateway.admin<{ machines: { machine: string; svg: string; states: object[] }[] }>(
    'GET',
    '/v1/admin/machines',
    undefined,
    gateway.tokens.viewer,
  )
  expect(machines.map(({ machine }) => machine)).toEqual([
    'node',
    'request',
    'router',
    'model-server',
    'mixture',
    'private-job',
    'webhook-delivery',
    'payout-batch',
  ])
  for (const { svg, states } of machines) expect(svg.match(/data-state=/g)).toHaveLength(states.length)
})

test('§23: the transitions of one instance, newest first; an unknown chart is not found', async () => {
  const path = `/v1/admin/machines/node/transitions?id=${nodeId}`
  const { transitions } = await gateway.admin<{ transitions: InspectEvents['transitions']['transitions'] }>('GET', path)
  expect(transitions.map(({ to }) => to)).toEqual(['ready', 'enrolled'])
  expect(transitions.at(-1)).toMatchObject({ machine: 'node', id: nodeId, from: null, event: 'xstate.init' })
  expect(gateway.admin('GET', '/v1/admin/machines/none/transitions')).rejects.toThrow('machine_not_found')
  expect(gateway.admin('GET', '/v1/admin/machines/node/transitions?id=a%20b')).rejects.toThrow('invalid_parameter')
})

test('§23: role and snapshot first, then what moves, once for all, and never a text or an address', async () => {
  const [viewer, operator] = [await open(), await open(gateway.tokens.operator)]
  expect(viewer.contentType).toStartWith('text/event-stream')
  expect(await viewer.next('hello')).toMatchObject({ role: 'viewer' })
  expect(await operator.next('hello')).toMatchObject({ role: 'operator' })
  const snapshot = await viewer.next('snapshot')
  const live = snapshot.machines
    .find(({ machine }) => machine === 'node')
    ?.states.find(({ state }) => state === 'ready')
  expect(live).toEqual({ state: 'ready', live: 1, entered: 1 })
  expect(snapshot.nodes).toMatchObject([{ node_id: nodeId, state: 'ready', in_flight: 0 }])
  const mixture = { strategy: 'vote', experts: [{ model: 'm-1' }, { model: 'm-1' }] }
  const asked = { model: 'm-1', messages: [{ role: 'user', content: secret }], svc: { mixture } }
  const answered = await gateway.chat(customer.key, asked)
  expect(answered.status).toBe(200)
  await answered.body?.cancel()
  const id = answered.headers.get('x-request-id') ?? ''
  for (const reader of [viewer, operator]) {
    const seen: string[] = []
    await reader.until('the end of the mixture', 'transitions', ({ transitions }) => {
      seen.push(...transitions.filter((each) => each.id === id).map(({ to }) => to))
      return seen.includes('succeeded')
    })
    expect(seen).toEqual(['validating.admitting', 'planning', 'expertsRunning', 'settling', 'succeeded'])
    await reader.until('the measurement of the node', 'pool', ({ changed }) => {
      return changed[0]?.runtimes[0]?.models[0]?.measured_at !== null
    })
    expect(reader.text).not.toContain(secret)
    expect(reader.text).not.toContain(new URL(node.url).host)
    expect(reader.text).not.toContain(customer.customerId)
    await reader.close()
  }
})

async function openedBy(token: string): Promise<InspectReader> {
  return waitFor('room for another', async () => {
    const reader = await open(token)
    if (reader.status === 200) return reader
    await reader.close()
    return null
  })
}

async function expectRefused(token: string, status: number, code: string): Promise<void> {
  const refused = await inspect(token)
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([status, '30'])
  expect(await refused.json()).toMatchObject({ code })
}

test('§23: as many consoles as allowed; one that leaves makes room', async () => {
  const consoles = await Promise.all(Array.from({ length: consolesMax }, () => openedBy(gateway.tokens.admin)))
  await expectRefused(gateway.tokens.admin, 503, 'service_unavailable')
  await consoles[0]?.close()
  const again = await openedBy(gateway.tokens.admin)
  await Promise.all([again, ...consoles.slice(1)].map((reader) => reader.close()))
})

test('§23: viewers and operators leave half of a few consoles to admins', async () => {
  const consoles = [await openedBy(gateway.tokens.viewer), await openedBy(gateway.tokens.operator)]
  for (const role of ['viewer', 'operator'] as const) {
    await expectRefused(gateway.tokens[role], 503, 'service_unavailable')
  }
  const ofAdmins = [await open(gateway.tokens.admin), await open(gateway.tokens.admin)]
  expect(ofAdmins.map(({ status }) => status)).toEqual([200, 200])
  await expectRefused(gateway.tokens.admin, 503, 'service_unavailable')
  await Promise.all([...consoles, ...ofAdmins].map((reader) => reader.close()))
})

test('§23: 64 consoles, 8 of one token, 8 kept for admins: no viewer locks the admin out', async () => {
  const viewers = Array.from({ length: 8 }, () => newToken('viewer'))
  const beside = await startTestGateway({ env: { SVC_VIEWER_TOKENS: viewers.join(',') } })
  const ending = new AbortController()
  /** Kept, because the client cancels a stream that nothing leads to. */
  const consoles: Response[] = []
  const statusOf = async (token: string) => {
    const headers = { 'x-svc-admin-token': token }
    const answer = await fetch(`${beside.url}/v1/admin/inspect`, { headers, signal: ending.signal })
    if (answer.status !== 200) return `${answer.status} ${((await answer.json()) as { code: string }).code}`
    consoles.push(answer)
    return '200'
  }
  const statuses = async (tokens: readonly string[]) => {
    const seen: string[] = []
    for (const token of tokens) seen.push(await statusOf(token))
    return seen
  }
  const [first = '', ...others] = viewers
  expect(await statuses(Array(9).fill(first))).toEqual([...Array(8).fill('200'), '429 concurrency_limited'])
  const many = others.flatMap((token) => Array<string>(8).fill(token))
  const full = '503 service_unavailable'
  expect(await statuses(many)).toEqual([...Array(48).fill('200'), ...Array(8).fill(full)])
  const ofAdmin = await statuses(Array(9).fill(beside.tokens.admin))
  expect(ofAdmin).toEqual([...Array(8).fill('200'), '429 concurrency_limited'])
  expect(consoles).toHaveLength(64)
  ending.abort()
  await beside.stop()
})

test('§18: the traffic series shows the numbers of the metrics', async () => {
  const reader = await open()
  const before = await reader.next('snapshot')
  const known = before.traffic.length
  expect(known).toBeGreaterThanOrEqual(0)
  const body = { model: 'm-1', stream: true, messages: [{ role: 'user', content: 'hi' }] }
  for (let i = 0; i < 3; i++) await (await gateway.chat(customer.key, body)).text()
  await (await gateway.chat(customer.key, { ...body, model: 'none' })).text()
  const sum = { requests: 0, tokens: 0, missing: 0 }
  const point = await reader.until('the requests', 'traffic', (each) => {
    sum.requests += each.requests
    sum.tokens += each.models.find(({ model }) => model === 'm-1')?.tokens_out ?? 0
    sum.missing += each.errors.model_not_found ?? 0
    return sum.missing === 1
  })
  expect(sum.requests).toBeGreaterThanOrEqual(4)
  expect(sum.tokens).toBeGreaterThan(0)
  expect(point.ttft_ms?.p95).toBeGreaterThanOrEqual(point.ttft_ms?.p50 ?? Number.NaN)
  await reader.close()
})

test('§23: a stop ends the consoles with a word, at once', async () => {
  const beside = await startTestGateway({ env: { SVC_SHUTDOWN_GRACE_MS: '30000' } })
  const reader = new InspectReader(
    await fetch(`${beside.url}/v1/admin/inspect`, { headers: { 'x-svc-admin-token': beside.tokens.viewer } }),
  )
  await reader.next('snapshot')
  const stopping = beside.stop()
  expect(await reader.next('end')).toEqual({ reason: 'shutdown' })
  expect(await reader.rest()).toBe('')
  await stopping
})
