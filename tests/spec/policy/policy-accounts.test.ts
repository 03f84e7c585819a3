import { describe, expect, test } from 'bun:test'
import { expectRefusal } from '../../support/clients/chat-refusal.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { startOwnedPool } from '../../support/pools/owned-pool.ts'
import { fixture } from '../../support/run/fixture.ts'

const secret = 'the-prompt-nobody-may-see'
const body = { model: 'm', messages: [{ role: 'user', content: secret }] }

/** How far the gateway's clock is ahead, ms. */
let aheadMs = 0
const now = () => Date.now() + aheadMs

const models = (key: string) => fetch(`${gateway.url}/v1/api/models`, { headers: { authorization: `Bearer ${key}` } })

const gateway = await fixture(
  startTestGateway({
    env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000', SVC_AUTH_FAILURES_PER_MINUTE: '10000' },
    now,
  }),
)
const pool = await fixture(startOwnedPool(gateway, ['A', 'B'], { own: { owner: 'A', fake: { models: ['m', 'n'] } } }))

const dead = { status: 401, code: 'invalid_api_key', retry: false } as const

async function statusOf(key: string): Promise<readonly [chat: number, models: number]> {
  const answers = [await gateway.chat(key, body), await models(key)] as const
  for (const answer of answers) await answer.text()
  return [answers[0].status, answers[1].status]
}

describe('§3: account_suspended', () => {
  const path = () => `/v1/admin/customers/${pool.customer('A').customerId}`
  const become = (account_status: string) => gateway.admin('PATCH', path(), { account_status })

  test.each(['suspended', 'closed'])(
    '%s: chat and list refuse, whoever asks and whatever else is wrong',
    async (status) => {
      const expected = { status: 403, code: 'account_suspended', retry: false } as const
      const { key } = await pool.key('A')
      expect(await statusOf(key)).toEqual([200, 200])
      const before = pool.fake('own').requests.length
      await become(status)
      for (const more of [{}, { stream: true }, { model: 'unknown' }]) {
        await expectRefusal(await gateway.chat(key, { ...body, ...more }), expected, secret)
      }
      await expectRefusal(await models(key), expected, secret)
      const { customerId, customerToken } = pool.customer('A')
      const headers = {
        authorization: `Bearer ${gateway.tokens.admin}`,
        'content-type': 'application/json',
        'x-svc-customer-id': customerId,
        'x-svc-customer-token': customerToken,
      }
      await expectRefusal(await gateway.chat('', body, { headers }), expected, secret)
      expect(pool.fake('own').requests.length).toBe(before)
      await become('active')
      // A database that is slow for a moment lets what is known stand for that long.
      await waitFor('the account to be back', async () => (await statusOf(key)).every((each) => each === 200))
    },
  )

  test('the operator still reads and mends the account', async () => {
    await become('suspended')
    const { operator, viewer } = gateway.tokens
    expect(await gateway.admin('GET', path(), undefined, operator)).toMatchObject({ account_status: 'suspended' })
    const listed = await gateway.admin<{ keys: unknown[] }>('GET', `${path()}/keys`, undefined, operator)
    expect(listed.keys.length).toBeGreaterThan(0)
    const node = await gateway.admin('GET', `/v1/admin/nodes/${pool.nodeId('own')}`, undefined, viewer)
    expect(node).toMatchObject({ state: 'ready' })
    const issued = await pool.key('A')
    expect(await statusOf(issued.key)).toEqual([403, 403])
    await become('active')
    await waitFor('the account to be back', async () => (await statusOf(issued.key)).every((each) => each === 200))
  })

  test('another account goes on', async () => {
    const { key } = await pool.key('B')
    await become('suspended')
    expect((await models(key)).status).toBe(200)
    await become('active')
  })
})

describe('§4: keys', () => {
  test('rotation: both work for the overlap, the new one with the same rules; then the old one is dead', async () => {
    const old = await pool.key('A', { model_policy: { denied_models: ['n'] }, node_scope: [pool.nodeId('own')] })
    const path = `/v1/admin/keys/${old.keyId}/rotate`
    const rotated = await gateway.admin<{ gateway_key: string; old_key_expires_at: string }>('POST', path, {
      keep_seconds: 60,
    })
    const ends = Date.parse(rotated.old_key_expires_at)
    expect(ends - now()).toBeLessThanOrEqual(60_000)
    expect(await statusOf(old.key)).toEqual([200, 200])
    expect(await statusOf(rotated.gateway_key)).toEqual([200, 200])
    for (const key of [old.key, rotated.gateway_key]) {
      const denied = await gateway.chat(key, { ...body, model: 'n' })
      await expectRefusal(denied, { status: 403, code: 'model_not_allowed', retry: false }, secret)
    }
    aheadMs += ends - now()
    await expectRefusal(await gateway.chat(old.key, body), dead, secret)
    await expectRefusal(await models(old.key), dead, secret)
    expect(await statusOf(rotated.gateway_key)).toEqual([200, 200])
  })

  test('rotation without a time: the old one for 24 hours', async () => {
    const old = await pool.key('A')
    const path = `/v1/admin/keys/${old.keyId}/rotate`
    const rotated = await gateway.admin<{ old_key_expires_at: string }>('POST', path)
    const left = Date.parse(rotated.old_key_expires_at) - now()
    expect(Math.abs(left - 86_400_000)).toBeLessThan(60_000)
    expect(await statusOf(old.key)).toEqual([200, 200])
  })

  test('revocation: dead with the answer, also while it is in use, and its running stream ends by itself', async () => {
    const { key, keyId } = await pool.key('A')
    const own = pool.fake('own')
    own.setAnswer({ chunks: 20, intervalMs: 20 })
    const running = await gateway.chat(key, { ...body, stream: true })
    expect(running.status).toBe(200)
    await gateway.admin('DELETE', `/v1/admin/keys/${keyId}`)
    const answers = await Promise.all(Array.from({ length: 10 }, () => gateway.chat(key, body)))
    for (const answer of answers) await expectRefusal(answer, dead, secret)
    expect(await running.text()).toEndWith('data: [DONE]\n\n')
    own.setAnswer({ chunks: 5, intervalMs: 0 })
  })

  test('expires_at: to the moment', async () => {
    const until = now() + 60_000
    const { key } = await pool.key('A', { expires_at: new Date(until).toISOString() })
    expect(await statusOf(key)).toEqual([200, 200])
    aheadMs += until - now()
    await expectRefusal(await gateway.chat(key, body), dead, secret)
  })

  test('a key’s rules end with it: a narrow key beside a wide one', async () => {
    const narrow = await pool.key('A', { model_policy: { allowed_models: ['n'] } })
    const wide = await pool.key('A')
    expect(await statusOf(wide.key)).toEqual([200, 200])
    const denied = await gateway.chat(narrow.key, body)
    await expectRefusal(denied, { status: 403, code: 'model_not_allowed', retry: false }, secret)
  })
})
