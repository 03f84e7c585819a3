// Symptom: who signed in again and again filled the table of sessions for 30 days, each as long as its token's rate
// allowed; and a token that another gateway had just revoked could still make a session, which the list showed as open.
// Cause: sessions that are over were kept by their age alone; a sign-in did not look whether its token still worked.
// Fix: of those that are over the newest 10,000 are kept, and a sign-in reads its token in its own transaction.
import { expect, test } from 'bun:test'
import { sessionsOverMax } from '../../src/actors/operators/sessions.ts'
import type { AdminCreated } from '../../src/protocol/wire/admin/operators.ts'
import { json, startTestGateway } from '../support/gateways/http-gateway.ts'
import { fixture } from '../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())

const rowsLike = async (pattern: string) => {
  const [row] = await gateway.database
    .sql`select count(*)::int as n from console_sessions where session_id like ${pattern}`
  return Number(row?.n)
}

test('of the sessions that are over the newest are kept, however many there were, and those that are open all', async () => {
  const { sql } = gateway.database
  await sql`insert into console_sessions
      (session_id, token_hash, method, role, actor_hash_prefix, created_at, last_seen_at, expires_at, ended_at, end_reason)
    select (case when n <= 20 then 'ses_open_' else 'ses_over_' end) || lpad(n::text, 6, '0'), sha256(n::text::bytea),
      'token', 'viewer', 'many' || n, now() - interval '2 hours', now(), now() + interval '1 hour',
      case when n <= 20 then null else now() end, case when n <= 20 then null else 'replaced' end
    from generate_series(1, ${sessionsOverMax + 520}) n`
  expect((await gateway.ask('POST', '/v1/admin/sessions', { as: 'viewer' })).status).toBe(201)
  expect([await rowsLike('ses_open_%'), await rowsLike('ses_over_%')]).toEqual([20, sessionsOverMax])
  expect(await rowsLike('ses_over_000021')).toBe(0)
  expect(await rowsLike(`ses_over_${String(sessionsOverMax + 520).padStart(6, '0')}`)).toBe(1)
})

test('a token that is revoked while it signs in makes no session', async () => {
  const made = await gateway.ask('POST', '/v1/admin/admins', { as: 'admin', json: { name: 'Racer', role: 'viewer' } })
  const { admin_id: adminId } = (await json(made)) as unknown as AdminCreated
  const caller = { role: 'viewer', name: 'Racer', adminId, sessionId: null, sourceHash: null, actorHash: null } as never
  await gateway.ask('DELETE', `/v1/admin/admins/${adminId}`, { as: 'admin' })
  // The gateway still took the token a moment ago.
  const begun = gateway.gateway.sessions.beginWithToken(caller, { actorHashPrefix: 'abcdefabcdef' })
  await expect(begun).rejects.toMatchObject({ code: 'invalid_credentials' })
  const [row] = await gateway.database.sql`select count(*)::int as n from console_sessions where admin_id = ${adminId}`
  expect(row?.n).toBe(0)
})
