import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import type { AccessEventList, ApprovalEventList } from '../../../src/protocol/wire/admin/audit.ts'
import type { AdminCreated, AdminList } from '../../../src/protocol/wire/admin/operators.ts'
import { newToken } from '../../../src/secrets.ts'
import { commandLine } from '../../cli/command-line.ts'
import { InspectReader } from '../../support/console/inspect-reader.ts'
import { json, startTestGateway, type TestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const second = newToken('admin')
const gateway = await fixture(startTestGateway())
/** Another gateway on the same database. */
const peer = await fixture(startTestGateway({}, undefined, { beside: gateway }))
const cli = await fixture(commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.admin }))

const as = (token: string, more: Readonly<Record<string, string>> = {}) => ({
  headers: { 'x-svc-admin-token': token, ...more },
})
const create = async (name: string, role: string) => {
  const answer = await gateway.ask('POST', '/v1/admin/admins', { as: 'admin', json: { name, role, reason: 'joins' } })
  return { status: answer.status, body: (await json(answer)) as unknown as AdminCreated & { readonly code?: string } }
}
const statusOf = async (at: TestGateway, token: string, path = '/v1/admin/nodes') =>
  (await fetch(at.url + path, as(token))).status
const namesIn = ({ events, actors }: AccessEventList | ApprovalEventList) =>
  events.map(({ event_id: id }) => actors.find((actor) => actor.event_id === id)?.actor_name)

test('§16: a named token is shown once, kept as a hash, works on every gateway with its role, and is listed', async () => {
  const { status, body } = await create('Ada Lovelace', 'operator')
  expect([status, body.name, body.role]).toEqual([201, 'Ada Lovelace', 'operator'])
  expect(body.token).toStartWith('svc_operator_')
  expect([await statusOf(gateway, body.token), await statusOf(peer, body.token)]).toEqual([200, 200])
  expect(await statusOf(gateway, body.token, '/v1/admin/admins')).toBe(403)
  const [row] = await gateway.database.sql`select admins::text as all from admins where admin_id = ${body.admin_id}`
  expect(String(row?.all)).not.toContain(body.token)
  const listed = await gateway.ask('GET', '/v1/admin/admins', { as: 'admin' })
  const text = await listed.text()
  expect(text).not.toContain(body.token)
  const { admins } = JSON.parse(text) as AdminList
  expect(admins.find(({ admin_id: id }) => id === body.admin_id)).toMatchObject({
    name: 'Ada Lovelace',
    display_prefix: body.token.slice(0, 16),
    revoked_at: null,
  })
  expect(JSON.stringify(gateway.logged())).not.toContain(body.token)
})

test('§16: a name stands beside the events of its token, whose own fields stay, and outlives the token', async () => {
  const { body } = await create('Grace', 'admin')
  const made = await fetch(`${gateway.url}/v1/admin/customers`, {
    method: 'POST',
    ...as(body.token, { 'content-type': 'application/json' }),
    body: JSON.stringify({ display_name: 'of Grace', reason: 'asked for' }),
  })
  const customer = String((await json(made)).customer_id)
  const approvals = async () =>
    (await json(
      await gateway.ask('GET', `/v1/admin/approval-events?target_id=${customer}`, { as: 'viewer' }),
    )) as unknown as ApprovalEventList
  const before = await approvals()
  expect(namesIn(before)).toEqual(['Grace'])
  expect(Object.keys(before.events[0] ?? {})).toEqual([
    ...['event_id', 'action', 'category', 'target_type', 'target_id', 'actor_type', 'actor_role', 'approval_policy'],
    ...['reason', 'confirmation', 'metadata', 'created_at'],
  ])
  const revoked = await gateway.ask('DELETE', `/v1/admin/admins/${body.admin_id}`, {
    as: 'admin',
    headers: { 'x-svc-reason': 'leaves' },
  })
  expect(revoked.status).toBe(200)
  expect(namesIn(await approvals())).toEqual(['Grace'])
  await waitUntil('the call among the access events', async () => {
    const calls = (await json(
      await gateway.ask('GET', '/v1/admin/access-events?method=POST&limit=20', { as: 'viewer' }),
    )) as unknown as AccessEventList
    return namesIn(calls).includes('Grace')
  })
})

test('§17: the lists of events are asked for by the person who acted or agreed, by name or by hash prefix, as JSON and as CSV', async () => {
  const strict = await startTestGateway({ SVC_REQUIRE_SECOND_APPROVER: 'true' }, undefined, { beside: gateway })
  const [doer, helper] = [await create('Doer', 'admin'), await create('Helper', 'admin')]
  // Named by their first calls.
  for (const { body } of [doer, helper]) await statusOf(strict, body.token, '/v1/admin/admins')
  const asked = { name: 'Made by two', role: 'viewer', reason: 'new' }
  const made = await fetch(`${strict.url}/v1/admin/admins`, {
    method: 'POST',
    ...as(doer.body.token, { 'content-type': 'application/json', 'x-svc-approver-token': helper.body.token }),
    body: JSON.stringify(asked),
  })
  expect(made.status).toBe(201)
  const id = String((await json(made)).admin_id)
  const prefixOf = (token: string) => strict.gateway.audit.actorPrefix(token)
  const targets = async (actor: string) => {
    const path = `/v1/admin/approval-events?action=admin.create&actor=${encodeURIComponent(actor)}`
    const list = (await json(await strict.ask('GET', path, { as: 'viewer' }))) as unknown as ApprovalEventList
    expect(list.actor).toBe(actor)
    return list.events.map(({ target_id: target }) => target)
  }
  for (const actor of ['Doer', 'dOER', prefixOf(doer.body.token), 'Helper', prefixOf(helper.body.token)]) {
    expect([actor, await targets(actor)]).toEqual([actor, [id]])
  }
  for (const actor of ['Nobody', 'Doe', 'ffffffffffff', '%']) expect([actor, await targets(actor)]).toEqual([actor, []])
  await waitUntil('the call among hers, and no other', async () => {
    const path = '/v1/admin/access-events?actor=Doer'
    const { events } = (await json(await strict.ask('GET', path, { as: 'viewer' }))) as unknown as AccessEventList
    expect(events.every((event) => event.actor_hash_prefix === prefixOf(doer.body.token))).toBe(true)
    return events.some(({ method }) => method === 'POST')
  })
  const csv = await strict.ask('GET', '/v1/admin/access-events?actor=Helper&format=csv', { as: 'viewer' })
  const rows = (await csv.text()).trim().split('\n')
  expect([rows.length, rows.slice(1).every((row) => row.includes(prefixOf(helper.body.token)))]).toEqual([2, true])
  const none = await json(await strict.ask('GET', '/v1/admin/command-events?actor=Doer', { as: 'viewer' }))
  expect(none).toMatchObject({ count: 0, actor: 'Doer', events: [] })
  const tail = await cli.run(['audit', 'tail', '--once', '--only', 'approval', '--by', 'Helper'])
  expect([tail.code, tail.out.includes(id), tail.out.trim().split('\n').length]).toEqual([0, true, 1])
  await strict.stop()
})

test('§16: a revoked token is refused here at once and elsewhere soon, and its open streams close', async () => {
  const { body } = await create('Leaver', 'viewer')
  const streams = await Promise.all(
    [gateway, peer].map(async ({ url }) => new InspectReader(await fetch(`${url}/v1/admin/inspect`, as(body.token)))),
  )
  for (const stream of streams) expect(await stream.next('hello')).toMatchObject({ role: 'viewer', name: 'Leaver' })
  const again = { as: 'admin', headers: { 'x-svc-reason': 'lost' } } as const
  expect((await gateway.ask('DELETE', `/v1/admin/admins/${body.admin_id}`, again)).status).toBe(200)
  expect(await statusOf(gateway, body.token)).toBe(401)
  await waitUntil('the other gateway to refuse it', async () => (await statusOf(peer, body.token)) === 401)
  for (const stream of streams) expect(await stream.next('end')).toEqual({ reason: 'signed_out' })
  const [event] = await gateway.database.sql`select target_type, target_id, reason from admin_approval_events
    where action = 'admin.revoke' and target_id = ${body.admin_id}`
  expect(event).toEqual({ target_type: 'admin', target_id: body.admin_id, reason: 'lost' })
  expect((await gateway.ask('DELETE', '/v1/admin/admins/adm_none', again)).status).toBe(404)
})

test('§16: two tokens that work bear no one name; a revoked one gives it back', async () => {
  const first = await create('Twin', 'viewer')
  const taken = await create('tWIN', 'viewer')
  expect([taken.status, taken.body.code]).toEqual([409, 'admin_name_taken'])
  await gateway.ask('DELETE', `/v1/admin/admins/${first.body.admin_id}`, { as: 'admin' })
  expect((await create('tWIN', 'viewer')).status).toBe(201)
})

test('§16: bad names and roles are refused before anything is made', async () => {
  const rows = async () => (await gateway.database.sql`select count(*)::int as n from admins`)[0]?.n
  const before = await rows()
  for (const bad of [
    { name: ' padded', role: 'viewer' },
    { name: '', role: 'viewer' },
    { name: 'x'.repeat(65), role: 'viewer' },
    { name: 'adm_1', role: 'viewer' },
    { name: 'two\nlines', role: 'viewer' },
    { name: 'Root', role: 'root' },
    { name: 'No role' },
  ]) {
    const answer = await gateway.ask('POST', '/v1/admin/admins', { as: 'admin', json: bad })
    expect([JSON.stringify(bad), answer.status]).toEqual([JSON.stringify(bad), 400])
  }
  expect((await gateway.ask('POST', '/v1/admin/admins', { as: 'operator', json: {} })).status).toBe(403)
  expect(await rows()).toBe(before)
})

test('§16: a rotation of SVC_AUDIT_KEY adds the new prefix of a token to the names at its next call', async () => {
  const { body } = await create('Rotated', 'viewer')
  const rotated = await startTestGateway(
    { SVC_AUDIT_KEY: 'a-newer-key-of-the-tests-0123456789abcd,audit-key-of-the-tests-0123456789abcdef' },
    undefined,
    { beside: gateway },
  )
  expect(await statusOf(rotated, body.token)).toBe(200)
  const prefixes = [gateway, rotated].map(({ gateway: { audit } }) => audit.actorPrefix(body.token)).sort()
  expect(new Set(prefixes).size).toBe(2)
  const known = async () =>
    (
      await gateway.database.sql<{ prefix: string; name: string }[]>`select actor_hash_prefix as prefix, name
        from actor_names where admin_id = ${body.admin_id} order by actor_hash_prefix`
    ).map(({ prefix, name }) => `${prefix} ${name}`)
  await waitUntil('both prefixes to be named', async () => (await known()).length === 2)
  expect(await known()).toEqual(prefixes.map((prefix) => `${prefix} Rotated`))
  await rotated.stop()
})

test('§4: at most 200 named tokens work at once; a revoked one makes room', async () => {
  await gateway.database.sql`insert into admins (admin_id, name, role, token_hash, display_prefix)
    select 'adm_' || n, 'filler ' || n, 'viewer', decode(lpad(to_hex(n), 8, '0'), 'hex'), 'x'
    from generate_series(1, 200 - (select count(*)::int from admins where revoked_at is null)) n`
  const full = await create('One too many', 'viewer')
  expect([full.status, full.body.code]).toEqual([409, 'admin_limit_reached'])
  expect((await gateway.ask('DELETE', '/v1/admin/admins/adm_1', { as: 'admin' })).status).toBe(200)
  expect((await create('One that fits', 'viewer')).status).toBe(201)
  await gateway.database.sql`update admins set revoked_at = now() where admin_id ~ '^adm_[0-9]+$'`
})

test('§16: tokens of the environment work beside named ones, and a new named token can be the second admin', async () => {
  const strict = await startTestGateway(
    { SVC_ADMIN_TOKENS: `${gateway.tokens.admin},${second}`, SVC_REQUIRE_SECOND_APPROVER: 'true' },
    undefined,
    { beside: gateway },
  )
  const body = { name: 'Approver', role: 'admin', reason: 'two see more' }
  const alone = await strict.ask('POST', '/v1/admin/admins', { as: 'admin', json: body })
  expect(alone.status).toBe(401)
  const agreed = await strict.ask('POST', '/v1/admin/admins', {
    as: 'admin',
    json: body,
    headers: { 'x-svc-approver-token': second },
  })
  const { token } = (await json(agreed)) as unknown as AdminCreated
  const next = await strict.ask('POST', '/v1/admin/admins', {
    as: 'admin',
    json: { ...body, name: 'Agreed' },
    headers: { 'x-svc-approver-token': token },
  })
  expect(next.status).toBe(201)
  const list = (await json(
    await strict.ask('GET', '/v1/admin/approval-events?action=admin.create&limit=1', { as: 'viewer' }),
  )) as unknown as ApprovalEventList
  expect(list.actors).toMatchObject([{ actor_name: null, approver_name: 'Approver' }])
  await strict.stop()
})

test('§24: admins create, list and revoke by name; audit tail says who', async () => {
  const made = await cli.json<AdminCreated>('admins', 'create', 'Cli Person', '--role', 'admin')
  expect(await statusOf(gateway, made.token, '/v1/admin/admins')).toBe(200)
  expect((await cli.run(['admins', 'list'])).out).toContain('Cli Person')
  const shown = await cli.run(['admins', 'create', 'Shown Once', '--role', 'viewer'])
  expect([shown.code, shown.out]).toEqual([0, expect.stringContaining('svc_viewer_')])
  const person = { env: { SVC_ADMIN_TOKEN: made.token } }
  expect((await cli.run(['customers', 'create', 'by a person', '--reason', 'new'], person)).code).toBe(0)
  const tail = await cli.run(['audit', 'tail', '--once', '--only', 'approval', '--lines', '1'])
  expect(tail.out).toContain('admin Cli Person')
  expect((await cli.run(['admins', 'revoke', 'cli person', '--yes'])).code).toBe(0)
  expect(await statusOf(gateway, made.token)).toBe(401)
  const none = await cli.run(['admins', 'revoke', 'cli person', '--yes'])
  expect([none.code, none.err]).toEqual([1, expect.stringContaining('No token bears the name cli person')])
})

test('§16: SVC_TOKEN_NAMES names tokens of the environment: in the audit, in a session, and to others that look for a name', async () => {
  const token = newToken('operator')
  const digest = createHash('sha256').update(token).digest('hex')
  const naming = await startTestGateway(
    { SVC_OPERATOR_TOKENS: `sha256:${digest}`, SVC_TOKEN_NAMES: `Night watch=sha256:${digest}` },
    undefined,
    { beside: gateway },
  )
  const made = await fetch(`${naming.url}/v1/admin/sessions`, { method: 'POST', ...as(token) })
  expect(await json(made)).toMatchObject({ name: 'Night watch', role: 'operator', method: 'token', admin_id: null })
  expect(await statusOf(naming, token)).toBe(200)
  await waitUntil('the call with its name', async () => {
    const calls = (await json(
      await naming.ask('GET', '/v1/admin/access-events?method=POST&limit=20', { as: 'viewer' }),
    )) as unknown as AccessEventList
    return namesIn(calls).includes('Night watch')
  })
  const taken = await naming.ask('POST', '/v1/admin/admins', {
    as: 'admin',
    json: { name: 'night watch', role: 'viewer' },
  })
  expect(await json(taken)).toMatchObject({ code: 'admin_name_taken' })
  await naming.stop()
})
