import { beforeEach, expect, test } from 'bun:test'
import type { AccessEventList, ApprovalEventList } from '../../../src/protocol/wire/admin/audit.ts'
import type { AdminCreated, SessionBegun, SessionList } from '../../../src/protocol/wire/admin/operators.ts'
import { commandLine } from '../../cli/command-line.ts'
import { InspectReader } from '../../support/console/inspect-reader.ts'
import { json, startTestGateway, type TestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const minuteMs = 60_000
/** Idle and longest time, in minutes. */
const bounds = { SVC_SESSION_IDLE_MS: String(10 * minuteMs), SVC_SESSION_MAX_MS: String(60 * minuteMs) }
let offsetMs = 0
const world = { now: () => Date.now() + offsetMs }
const gateway = await fixture(startTestGateway(bounds, undefined, { world }))
const peer = await fixture(startTestGateway(bounds, undefined, { world, beside: gateway }))

beforeEach(() => {
  offsetMs = 0
})

const headersOf = (token: string, more: Readonly<Record<string, string>> = {}) => ({
  'x-svc-admin-token': token,
  ...more,
})
const call = (at: TestGateway, token: string, path = '/v1/admin/nodes', init: RequestInit = {}, more = {}) =>
  fetch(at.url + path, { ...init, headers: headersOf(token, more) })
const signIn = async (token: string, at = gateway) => {
  const answer = await call(at, token, '/v1/admin/sessions', { method: 'POST' })
  return { status: answer.status, body: (await json(answer)) as unknown as SessionBegun & { readonly code?: string } }
}
const named = async (name: string, role: string) =>
  (await json(
    await gateway.ask('POST', '/v1/admin/admins', { as: 'admin', json: { name, role } }),
  )) as unknown as AdminCreated
const listed = async () =>
  ((await json(await gateway.ask('GET', '/v1/admin/sessions?limit=1000', { as: 'admin' }))) as unknown as SessionList)
    .sessions
const stateOf = async (id: string) => (await listed()).find(({ session_id }) => session_id === id)
const streamOf = async (token: string, at = gateway) => new InspectReader(await call(at, token, '/v1/admin/inspect'))

test('§23: a session does what its token may, on every gateway at once, and is no role token anywhere else', async () => {
  const { status, body } = await signIn(gateway.tokens.operator)
  expect([status, body.role, body.state]).toEqual([201, 'operator', 'open'])
  const { session_token: token } = body
  expect([(await call(gateway, token)).status, (await call(peer, token)).status]).toEqual([200, 200])
  expect((await call(gateway, token, '/v1/admin/sessions')).status).toBe(403)
  const metrics = await fetch(`${gateway.url}/metrics`, { headers: { authorization: `Bearer ${token}` } })
  const chat = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'x-svc-customer-id': 'a', 'x-svc-customer-token': 'b' },
    body: '{}',
  })
  expect([metrics.status, chat.status]).toEqual([401, 401])
  const again = await signIn(token)
  expect([again.status, again.body.code]).toEqual([409, 'invalid_state'])
  expect(JSON.stringify(gateway.logged())).not.toContain(token)
  const [row] = await gateway.database.sql`select s::text as all from console_sessions s
    where session_id = ${body.session_id}`
  expect(String(row?.all)).not.toContain(token)
})

test('§16: the audit knows a session by the prefix and the name of the token that made it', async () => {
  const { token } = await named('Audited', 'admin')
  const { body } = await signIn(token)
  const made = await call(
    gateway,
    body.session_token,
    '/v1/admin/customers',
    { method: 'POST', body: JSON.stringify({ display_name: 'by session' }) },
    { 'content-type': 'application/json' },
  )
  const { customer_id: id } = await json(made)
  const list = (await json(
    await gateway.ask('GET', `/v1/admin/approval-events?target_id=${id}`, { as: 'viewer' }),
  )) as unknown as ApprovalEventList
  const prefix = gateway.gateway.audit.pseudonym('actor', token)
  expect(list.actors).toMatchObject([{ actor_name: 'Audited', actor_hash_prefix: prefix }])
  expect(list.events).toMatchObject([{ actor_type: 'admin_token', actor_role: 'admin' }])
  await waitUntil('the calls among the access events', async () => {
    const calls = (await json(
      await gateway.ask('GET', '/v1/admin/access-events?method=POST', { as: 'viewer' }),
    )) as unknown as AccessEventList
    return calls.events.some(
      ({ path_template: path, actor_hash_prefix }) => path === '/v1/admin/sessions' && actor_hash_prefix === prefix,
    )
  })
})

test('§23: a session ends when nobody uses it; what the page asks by itself does not keep it, and its stream closes', async () => {
  const { body } = await signIn(gateway.tokens.viewer)
  const { session_token: token, session_id: id } = body
  offsetMs = 9 * minuteMs
  expect((await call(gateway, token)).status).toBe(200)
  offsetMs = 18 * minuteMs
  expect((await call(gateway, token, undefined, {}, { 'x-svc-unattended': 'true' })).status).toBe(200)
  const stream = await streamOf(token)
  // Opening it was asked for by a person.
  offsetMs = 29 * minuteMs
  const over = await call(gateway, token)
  expect([over.status, (await json(over)).detail]).toEqual([
    401,
    'This session has ended, or never existed. Sign in again.',
  ])
  expect(await stream.next('end')).toEqual({ reason: 'signed_out' })
  expect(await stateOf(id)).toMatchObject({ state: 'idle' })
})

test('§23: a gateway that has not seen a session lately asks whether another one has', async () => {
  const { body } = await signIn(gateway.tokens.viewer)
  const { session_token: token, session_id: id } = body
  offsetMs = 9 * minuteMs
  expect((await call(gateway, token)).status).toBe(200)
  await waitUntil('the use to be saved', async () => {
    const [row] = await gateway.database.sql`select last_seen_at > created_at as later from console_sessions
      where session_id = ${id}`
    return row?.later === true
  })
  offsetMs = 15 * minuteMs
  expect((await call(peer, token)).status).toBe(200)
})

test('§23: a session ends at its longest time, however busy it is, and so does its stream', async () => {
  const { body } = await signIn(gateway.tokens.viewer)
  const { session_token: token, session_id: id } = body
  for (let at = 5; at < 60; at += 5) {
    offsetMs = at * minuteMs
    expect([at, (await call(gateway, token)).status]).toEqual([at, 200])
  }
  const stream = await streamOf(token)
  offsetMs = 60 * minuteMs
  expect((await call(gateway, token)).status).toBe(401)
  expect(await stream.next('end')).toEqual({ reason: 'signed_out' })
  expect(await stateOf(id)).toMatchObject({ state: 'expired' })
})

test('§23: a revoked session is refused at once, its streams close on every gateway, and the event says why', async () => {
  const { body } = await signIn(gateway.tokens.admin)
  const { session_token: token, session_id: id } = body
  const streams = [await streamOf(token), await streamOf(token, peer)]
  const path = `/v1/admin/sessions/${id}`
  expect((await gateway.ask('DELETE', path, { as: 'operator' })).status).toBe(403)
  const ended = await gateway.ask('DELETE', path, { as: 'admin', headers: { 'x-svc-reason': 'left a laptop' } })
  expect([ended.status, await json(ended)]).toMatchObject([200, { state: 'ended', end_reason: 'revoked' }])
  expect((await call(gateway, token)).status).toBe(401)
  for (const stream of streams) expect(await stream.next('end')).toEqual({ reason: 'signed_out' })
  await waitUntil('the other gateway to refuse it', async () => (await call(peer, token)).status === 401)
  const [event] = await gateway.database.sql`select action, target_type, target_id, reason from admin_approval_events
    where target_id = ${id}`
  expect(event).toEqual({ action: 'session.revoke', target_type: 'session', target_id: id, reason: 'left a laptop' })
  expect((await gateway.ask('DELETE', '/v1/admin/sessions/ses_none', { as: 'admin' })).status).toBe(404)
})

test('§23: signing out ends the session; its token is of no more use', async () => {
  const { body } = await signIn(gateway.tokens.viewer)
  const gone = await call(gateway, body.session_token, '/v1/admin/session', { method: 'DELETE' })
  expect(gone.status).toBe(204)
  expect((await call(gateway, body.session_token)).status).toBe(401)
  expect(await stateOf(body.session_id)).toMatchObject({ state: 'ended', end_reason: 'signed_out' })
  // A role token signs out of nothing.
  expect((await call(gateway, gateway.tokens.viewer, '/v1/admin/session', { method: 'DELETE' })).status).toBe(204)
  expect((await call(gateway, gateway.tokens.viewer)).status).toBe(200)
})

test('§16: the sessions of a named token end with it', async () => {
  const admin = await named('Short stay', 'operator')
  const { body } = await signIn(admin.token)
  expect((await call(gateway, body.session_token)).status).toBe(200)
  await gateway.ask('DELETE', `/v1/admin/admins/${admin.admin_id}`, { as: 'admin' })
  expect((await call(gateway, body.session_token)).status).toBe(401)
  expect(await stateOf(body.session_id)).toMatchObject({ state: 'ended', end_reason: 'admin_revoked' })
})

test('§16: the sessions of a token of the environment end where the gateway does not have it any more', async () => {
  const { body } = await signIn(gateway.tokens.operator)
  const without = await startTestGateway({ ...bounds, SVC_OPERATOR_TOKENS: '' }, undefined, { world, beside: gateway })
  expect([(await call(gateway, body.session_token)).status, (await call(without, body.session_token)).status]).toEqual([
    200, 401,
  ])
  await without.stop()
})

test('§16: whoever signed in with a token is no second admin to it', async () => {
  const strict = await startTestGateway({ ...bounds, SVC_REQUIRE_SECOND_APPROVER: 'true' }, undefined, {
    world,
    beside: gateway,
  })
  const own = await named('Alone', 'admin')
  const { body } = await signIn(own.token, strict)
  const asked = { name: 'New', role: 'viewer', reason: 'alone' }
  const refused = await call(
    strict,
    body.session_token,
    '/v1/admin/admins',
    { method: 'POST', body: JSON.stringify(asked) },
    { 'content-type': 'application/json', 'x-svc-approver-token': own.token },
  )
  expect([refused.status, (await json(refused)).code]).toEqual([403, 'insufficient_role'])
  await strict.stop()
})

test('§23: one actor has at most 20 sessions: a further one ends the one that was idle for longest', async () => {
  const { token } = await named('Many tabs', 'viewer')
  const all: SessionBegun[] = []
  for (let at = 0; at < 21; at++) {
    offsetMs = at * 1_000
    all.push((await signIn(token)).body)
  }
  const statuses = await Promise.all(all.map(async (one) => (await call(gateway, one.session_token)).status))
  expect(statuses).toEqual([401, ...Array.from({ length: 20 }, () => 200)])
  expect(await stateOf(all[0]?.session_id ?? '')).toMatchObject({ end_reason: 'replaced' })
})

test('§23: one sign-in at a provider makes one session, even if two answers of it come at once', async () => {
  const signInHash = Buffer.from(crypto.getRandomValues(new Uint8Array(32)))
  const person = { name: 'Twice', role: 'viewer', adminId: null, sourceHash: null, actorHash: '0123456789ab' } as const
  const begin = (at: TestGateway) => at.gateway.sessions.begin({ ...person, method: 'oidc', signInHash })
  const both = await Promise.allSettled([begin(gateway), begin(peer)])
  expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
  const [lost] = both.flatMap((each) => (each.status === 'rejected' ? [each.reason as { readonly code: string }] : []))
  expect(lost?.code).toBe('invalid_state')
})

test('§24: admins sessions lists who is signed in, and admins end ends one', async () => {
  const cli = commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.admin })
  const { token } = await named('On the list', 'viewer')
  const { body } = await signIn(token)
  const shown = await cli.run(['admins', 'sessions'])
  expect(shown.out).toMatch(new RegExp(`${body.session_id} +On the list +viewer +token +open`))
  expect(shown.out).not.toContain(body.session_token)
  expect(await cli.run(['admins', 'end', body.session_id, '--reason', 'test'])).toMatchObject({
    code: 0,
    out: `Ended ${body.session_id}.\n`,
  })
  expect((await call(gateway, body.session_token)).status).toBe(401)
  cli.close()
})
