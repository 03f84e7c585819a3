import { afterEach, expect, test } from 'bun:test'
import { expectRefusal } from '../../support/clients/chat-refusal.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { startOwnedPool } from '../../support/pools/owned-pool.ts'
import { fixture } from '../../support/run/fixture.ts'

/** A's one machine has one slot; B's two would take anybody's prompt. */
const theirs = { owner: 'B', visibility: 'public', privacyClass: 'public', fake: { models: ['m'] } } as const
const nodes = {
  own: { owner: 'A', visibility: 'private', fake: { models: ['m'], speaks: 'llama.cpp', slots: 1 } },
  spare: theirs,
  spare2: theirs,
} as const

const gateway = await fixture(
  startTestGateway({ env: { SVC_QUEUE_WAIT_MS: '200', SVC_ADMIN_RPM_PER_TOKEN: '1000000' } }),
)
const pool = await fixture(startOwnedPool(gateway, ['A', 'B', 'C'], nodes))
const open = { min_privacy_class: 'public' }
await pool.account('A', open)
await pool.account('C', open)
/** Keys of A; `home` says nothing, `away` lets prompts leave. The account lets them leave in either case. */
const keys: { readonly home: string; readonly away: string } = {
  home: (await pool.key('A')).key,
  away: (await pool.key('A', { model_policy: open })).key,
}

afterEach(async () => {
  for (const name of Object.keys(nodes)) pool.fake(name).clearFaults()
  await ownIs('ready')
})

const ownPath = () => `/v1/admin/nodes/${pool.nodeId('own')}`
const ownIs = (...states: string[]) =>
  waitFor(`own to be ${states}`, async () =>
    states.includes((await gateway.admin<{ state: string }>('GET', ownPath())).state),
  )

async function ask(key: string, more: object = {}) {
  const marker = crypto.randomUUID()
  const response = await gateway.chat(key, { model: 'm', messages: [{ role: 'user', content: marker }], ...more })
  return { response, marker }
}

async function expectAt(names: readonly string[], key: string, more?: object): Promise<void> {
  const { response, marker } = await ask(key, more)
  expect([response.status, await response.text()]).toEqual([200, expect.stringContaining(names.at(-1) ?? '')])
  expect(pool.received(marker)).toEqual([...names].sort())
}

async function expectRefused(status: number, code: string, seen: readonly string[], key: string, more?: object) {
  const { response, marker } = await ask(key, more)
  await expectRefusal(response, { status, code, retry: true }, marker)
  expect(pool.received(marker)).toEqual([...seen])
}

/** Takes the own machine's one slot while `body` runs. */
async function whileFull(body: (release: () => void) => Promise<void>): Promise<void> {
  const own = pool.fake('own')
  own.setFaults({ kind: 'hang', times: 1 })
  const leaving = new AbortController()
  const arrived = own.nextRequest()
  const held = gateway
    .chat(
      keys.home,
      { model: 'm', messages: [{ role: 'user', content: 'held' }] },
      { signal: leaving.signal, ...post() },
    )
    .catch(() => null)
  await arrived
  try {
    await body(() => leaving.abort())
  } finally {
    leaving.abort()
    await held
    await own.idle()
  }
}
const post = () => ({
  headers: { authorization: `Bearer ${keys.home}`, 'content-type': 'application/json' },
  body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'held' }] }),
})

test('§8: own machines full: others serve where account and key let prompts leave, streamed or not', () =>
  whileFull(async () => {
    for (const stream of [false, true]) {
      const { response, marker } = await ask(keys.away, { stream })
      expect(response.status).toBe(200)
      expect(await response.text()).toContain('spare')
      const seen = pool.received(marker)
      expect(seen).toHaveLength(1)
      expect(['spare', 'spare2']).toContain(seen[0] ?? '')
    }
  }))

test('§8: own machines full, and the key does not say so: 429, nobody else sees the prompt', () =>
  whileFull(async () => {
    for (const stream of [false, true]) await expectRefused(429, 'capacity_exhausted', [], keys.home, { stream })
  }))

test('§5: own machines full, pinned: 429 whatever the policy', () =>
  whileFull(async () => {
    const svc = { node_id: pool.nodeId('own') }
    await expectRefused(429, 'capacity_exhausted', [], keys.away, { svc })
  }))

test('§5: who may not leave waits for the own slot', () =>
  whileFull(async (release) => {
    const answer = expectAt(['own'], keys.home)
    release()
    await answer
  }))

test('§8: own machines not ready: 503 at home, others where allowed', async () => {
  pool.fake('own').setFaults({ kind: 'unhealthyOnly' })
  await ownIs('live', 'stale')
  await expectRefused(503, 'no_route_available', [], keys.home)
  const { response, marker } = await ask(keys.away)
  expect(response.status).toBe(200)
  expect(pool.received(marker)).toHaveLength(1)
  expect(pool.received(marker)).not.toContain('own')
})

test('§8: own machines drained: the same', async () => {
  await gateway.admin('POST', `${ownPath()}/drain`)
  await expectRefused(503, 'no_route_available', [], keys.home)
  const { response, marker } = await ask(keys.away)
  expect(response.status).toBe(200)
  expect(pool.received(marker)).toHaveLength(1)
  await gateway.admin('POST', `${ownPath()}/resume`)
})

test('§5: the own machine fails: no failover to others, neither where that is forbidden nor where it is allowed', async () => {
  for (const key of [keys.home, keys.away]) {
    for (const stream of [false, true]) {
      for (const fault of [{ kind: 'status500' }, { kind: 'jsonErrorBody' }, { kind: 'status429' }] as const) {
        pool.fake('own').setFaults({ ...fault, scope: 'chat' })
        const { response, marker } = await ask(key, { stream })
        expect([502, 429]).toContain(response.status)
        await response.text()
        expect(pool.received(marker)).toEqual(['own'])
      }
    }
  }
})

test('§5: the own machine refuses the connection: the prompt stays at home', async () => {
  pool.fake('own').setFaults({ kind: 'refuse', ms: 300 })
  const { response, marker } = await ask(keys.home)
  expect([502, 503]).toContain(response.status)
  await response.text()
  expect(pool.received(marker)).toEqual([])
  await expectRefused(503, 'no_route_available', [], keys.home)
})

test('§5: among machines of others failover is free, and never reaches a private one', async () => {
  const { key } = await pool.key('C', { model_policy: { min_privacy_class: 'public' } })
  pool.fake('spare').setFaults({ kind: 'status500', scope: 'chat' })
  for (let i = 0; i < 6; i++) {
    const { response, marker } = await ask(key)
    expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('spare2-')])
    expect(pool.received(marker)).toContain('spare2')
    expect(pool.received(marker)).not.toContain('own')
  }
  pool.fake('spare2').setFaults({ kind: 'status500', scope: 'chat' })
  await expectRefused(502, 'upstream_error', ['spare', 'spare2'], key)
})
