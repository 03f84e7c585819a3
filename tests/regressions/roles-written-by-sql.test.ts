import { expect, test } from 'bun:test'
import type { AdminCreated, SessionBegun } from '../../src/protocol/wire/admin/operators.ts'
import { json, startTestGateway } from '../support/gateways/http-gateway.ts'
import { fixture, scoped } from '../support/run/fixture.ts'

// Sessions of the console and named role tokens came with tables of their own, whose rows bore no mark: with one UPDATE a viewer's
// session or token was an admin's, and with one INSERT the token of a customer was, and `audit books` saw nothing.
const gateway = await fixture(startTestGateway())

const named = async (name: string, role: string) =>
  (await json(
    await gateway.ask('POST', '/v1/admin/admins', { as: 'admin', json: { name, role, reason: 'joins' } }),
  )) as unknown as AdminCreated
const signIn = async (token: string) => {
  const answer = await fetch(`${gateway.url}/v1/admin/sessions`, {
    method: 'POST',
    headers: { 'x-svc-admin-token': token },
  })
  return (await json(answer)) as unknown as SessionBegun
}

/** Statuses of a read for admins alone, at a gateway that starts after the edit. */
async function statusesAfter(edit: string, tokens: readonly string[]): Promise<readonly number[]> {
  await gateway.database.sql.unsafe(edit)
  await using fresh = await scoped(startTestGateway({}, undefined, { beside: gateway }))
  const ask = (token: string) =>
    fetch(`${fresh.url}/v1/admin/admins`, { headers: { 'x-svc-admin-token': token } }).then(({ status }) => status)
  return await Promise.all(tokens.map(ask))
}

test('a session whose row was changed is none; the others stay', async () => {
  const [viewer, admin] = [await named('Eve', 'viewer'), await named('Ada', 'admin')]
  const [evil, good] = [await signIn(viewer.token), await signIn(admin.token)]
  const tokens = [evil.session_token, good.session_token]
  expect(await statusesAfter('select 1', tokens)).toEqual([403, 200])
  const changed = (what: string) => `update console_sessions set ${what} where session_id = '${evil.session_id}'`
  expect(await statusesAfter(changed(`role = 'admin', admin_id = null`), tokens)).toEqual([401, 200])
  expect(await statusesAfter(changed(`role = 'viewer', admin_id = '${admin.admin_id}'`), tokens)).toEqual([401, 200])
  expect(await statusesAfter(changed(`admin_id = '${viewer.admin_id}'`), tokens)).toEqual([403, 200])
  expect(await statusesAfter(changed(`expires_at = expires_at + interval '1 year'`), tokens)).toEqual([401, 200])
})

test('a token has the role that it says itself', async () => {
  const viewer = await named('Mallory', 'viewer')
  expect(await statusesAfter(`update admins set role = 'admin' where name = 'Mallory'`, [viewer.token])).toEqual([401])
  const made = await json(
    await gateway.ask('POST', '/v1/admin/customers', { as: 'admin', json: { display_name: 'Carol', reason: 'new' } }),
  )
  const insert = `insert into admins (admin_id, name, role, token_hash, display_prefix)
    select 'adm_carol', 'Carol', 'admin', token_hash, 'svc_' from customers where display_name = 'Carol'`
  expect(await statusesAfter(insert, [String(made.customer_token)])).toEqual([401])
  const { faults } = await gateway.gateway.checkBooks()
  expect(faults.map(({ rule, subject }) => [rule, subject])).toContainEqual([
    'every named token is as its last event made it',
    viewer.admin_id,
  ])
})
