import { expect, test } from 'bun:test'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture, scoped } from '../support/run/fixture.ts'
import { openBench } from '../support/run/offline.ts'
import { emptyDatabase } from '../support/run/postgres.ts'

const bench = await fixture(openBench())

test('§24: a restore ends all sessions of the console, which may have been revoked since, and keeps named tokens', async () => {
  await using gateway = await scoped(startTestGateway())
  await using fresh = await scoped(emptyDatabase())
  const { token } = await gateway.admin<{ token: string }>('POST', '/v1/admin/admins', { name: 'Ada', role: 'admin' })
  const { session_token: session } = await gateway.admin<{ session_token: string }>(
    'POST',
    '/v1/admin/sessions',
    {},
    token,
  )
  const file = bench.path('with-sessions.sql.gz')
  expect((await bench.cli.run(['backup', file], { env: gateway.env })).code).toBe(0)
  const restore = { env: { ...gateway.env, DATABASE_URL: fresh.url } }
  const restored = await bench.cli.run(['restore', file, '--unverified'], restore)
  expect([restored.code, restored.err]).toEqual([0, expect.anything()])
  await using after = await scoped(startTestGateway({ env: { DATABASE_URL: fresh.url } }))
  const statuses = await Promise.all(
    [token, session].map(
      async (each) => (await fetch(`${after.url}/v1/admin/nodes`, { headers: { 'x-svc-admin-token': each } })).status,
    ),
  )
  expect(statuses).toEqual([200, 401])
})
