import { afterAll, afterEach, describe, expect, test } from 'bun:test'
import { sealedFetch } from '../../../src/client/sealed/sealed-fetch.ts'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { startTestGateway, type TestCustomer } from '../../support/gateways/gateway.ts'
import { shownMetric } from '../../support/gateways/metric.ts'
import { fresh } from '../../support/gateways/processes.ts'
import { enrollmentToken, startAgent, type TestAgent, untilState } from '../../support/nodes/agents.ts'
import { patientTimes } from '../../support/pools/sealed-pool.ts'
import { dayAhead } from '../../support/run/day-ahead.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitFor, waitUntil } from '../../support/run/wait-until.ts'

const messages = [{ role: 'user', content: 'hello there' }]
const text = 'fake-0 fake-1 fake-2 '
const agents: TestAgent[] = []

afterAll(async () => {
  for (const agent of agents) await agent.remove()
})
await dayAhead()
const gateway = await fixture(startTestGateway({ env: { SVC_METRICS_PUBLIC: 'true' } }))
/** One slot. */
const server = await fixture(startFakeNode({ models: ['m'], speaks: 'llama.cpp', slots: 1, answer: { chunks: 3 } }))

afterEach(() => {
  server.clearFaults()
  server.setAnswer({ usage: null })
})

interface Account {
  readonly customer: TestCustomer
  readonly agent: TestAgent
  readonly ask: (body?: object, init?: RequestInit) => Promise<Response>
}

/** An account with this policy and a node of its own behind a tunnel. */
async function account(policy: object, at = gateway): Promise<Account> {
  const customer = await at.customer({ policy })
  const { enrollment_token: token } = await enrollmentToken(at, customer.customerId)
  const agent = await startAgent({ gatewayUrl: at.url, token, runtimes: [server.url], runtimeTimes: patientTimes })
  agents.push(agent)
  await untilState(at, agent.nodeId, 'ready')
  const send = (url: string, init: RequestInit) => fetch(url, { ...init, ...fresh })
  const seal = sealedFetch({ gateway: at.url, trust: [agent.node.fingerprint], fetch: send })
  const ask = (body: object = {}, init: RequestInit = {}) =>
    seal(`${at.url}/v1/chat/completions`, {
      ...{ method: 'POST', headers: { authorization: `Bearer ${customer.key}` } },
      body: JSON.stringify({ model: 'm', messages, ...body }),
      ...init,
    })
  return { customer, agent, ask }
}

async function codeOf(response: Response): Promise<readonly unknown[]> {
  const { error } = (await response.json()) as { readonly error: { readonly code: string } }
  return [response.status, error.code]
}

interface Answer {
  readonly choices: readonly { readonly message: { readonly content: string } }[]
}
const contentOf = async (response: Response) => ((await response.json()) as Answer).choices[0]?.message.content

describe('§38: limits, as for every other stream', () => {
  test('tokens of a day: the bound in the clear is reserved, what the node tells is booked', async () => {
    const { customer, ask } = await account({ daily_token_quota: 1_000 })
    server.setAnswer({ usage: { prompt_tokens: 30, completion_tokens: 40, total_tokens: 70 } })
    expect((await ask({ max_tokens: 200 })).status).toBe(200)
    const taken = async () => {
      const rows = await gateway.database.sql`
        select taken::int from quota_days where customer_id = ${customer.customerId}`
      return (rows[0] as { readonly taken: number } | undefined)?.taken
    }
    await waitUntil('what was used is booked', async () => (await taken()) === 70)
    const before = server.requests.length
    expect(await codeOf(await ask({ max_tokens: 990 }))).toEqual([429, 'daily_token_quota_exceeded'])
    expect(server.requests.length).toBe(before)
  })

  test('requests at a time, and the slot of a node: the next one waits for it', async () => {
    const { ask } = await account({ max_concurrency: 2 })
    server.setFaults({ kind: 'stall', afterChunks: 1 })
    const leaving = new AbortController()
    const running = await ask({ stream: true }, { signal: leaving.signal })
    await running.body?.getReader().read()
    const waiting = ask()
    const refused = await waitFor('the third is refused', async () => {
      const response = await ask()
      return response.status === 429 ? response : null
    })
    expect(await codeOf(refused)).toEqual([429, 'concurrency_limited'])
    server.clearFaults()
    leaving.abort()
    expect(await contentOf(await waiting)).toBe(text)
  })

  test('a drained node takes nothing new, and what runs there ends whole', async () => {
    const { agent, customer, ask } = await account({})
    server.setAnswer({ intervalMs: 100 })
    const running = await ask({ stream: true })
    await gateway.admin('POST', `/v1/admin/nodes/${agent.nodeId}/drain`)
    await waitUntil('it refuses', async () => (await ask()).status === 503)
    expect(await running.text()).toContain('data: [DONE]')
    const listed = await fetch(`${gateway.url}/v1/sealed/nodes?model=m`, {
      headers: { authorization: `Bearer ${customer.key}` },
    })
    expect(listed.status).toBe(503)
  })

  test('a gateway that ends waits for its streams', async () => {
    const ending = await startTestGateway({ env: { SVC_SHUTDOWN_GRACE_MS: '20000' } })
    const { ask } = await account({}, ending)
    server.setAnswer({ intervalMs: 150 })
    const running = await ask({ stream: true })
    const [answer] = await Promise.all([running.text(), ending.stop()])
    server.setAnswer({ intervalMs: 0 })
    expect(answer).toContain('data: [DONE]')
  })
})

test('§38: what is refused is counted by its status: a key that opens nothing, a repeated one, no frames', async () => {
  const { agent, customer } = await account({})
  const post = (enc: string, body: Uint8Array<ArrayBuffer>) =>
    fetch(`${gateway.url}/v1/sealed/nodes/${agent.nodeId}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${customer.key}`, 'x-svc-model': 'm', 'ehbp-encapsulated-key': enc },
      body,
    })
  const route = 'route="/v1/sealed/nodes/:node_id/chat/completions"'
  const counted = (status: number) =>
    shownMetric(gateway, 'svc_http_requests_total', `${route},method="POST",status="${status}"`)
  const before = await Promise.all([400, 422].map(counted))
  const frame = new Uint8Array([0, 0, 0, 17, ...new Uint8Array(17)])
  // Points of low order, for which every shared secret is zero.
  expect((await post('00'.repeat(32), frame)).status).toBe(422)
  expect((await post('ab'.repeat(32), frame)).status).toBe(422)
  expect((await post('ab'.repeat(32), Uint8Array.of(0xff, 0xff, 0xff, 0xff, 1))).status).toBe(400)
  expect((await post('ab'.repeat(32), new Uint8Array(4_000_000))).status).toBe(400)
  const after = await Promise.all([400, 422].map(counted))
  expect(after.map((count, at) => count - (before[at] ?? 0))).toEqual([2, 2])
})
