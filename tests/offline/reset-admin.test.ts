import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { fixture, scoped } from '../support/run/fixture.ts'
import { adminCall, openBench, startEmbeddedGateway } from '../support/run/offline.ts'

const bench = await fixture(openBench())

async function status(url: string, token: string): Promise<number> {
  return (await fetch(`${url}/v1/admin/nodes`, { headers: { 'x-svc-admin-token': token } })).status
}

test('§4: a new admin token of the data folder, gateway running or not; the one before ends, other roles stay', async () => {
  const dataDir = bench.path('data')
  const env = { SVC_DATA_DIR: dataDir }
  const gateway = await startEmbeddedGateway(dataDir)
  const { admin_token: lost, operator_token: operator } = gateway.credentials
  let made = ''
  try {
    const reset = await bench.cli.run(['reset-admin'], { env })
    expect(reset.code).toBe(0)
    made = reset.out.trim()
    expect(made).toStartWith('svc_admin_')
    await waitFor('the new token', async () => (await status(gateway.url, made)) === 200)
    await waitFor('the end of the old one', async () => (await status(gateway.url, lost)) === 401)
    expect(await status(gateway.url, operator)).toBe(200)
  } finally {
    await gateway.stop()
  }
  expect(JSON.parse(readFileSync(join(dataDir, 'credentials.json'), 'utf8')).admin_token).toBe(made)
  const again = await bench.cli.run(['reset-admin', '--json'], { env })
  const { admin_token: last, ended } = JSON.parse(again.out) as { admin_token: string; ended: number }
  expect(ended).toBe(1)
  await using later = await scoped(startEmbeddedGateway(dataDir))
  expect([await status(later.url, last), await status(later.url, made)]).toEqual([200, 401])
  // The command line goes on by the credentials file.
  expect((await bench.cli.run(['status'], { env: { ...env, SVC_BASE_URL: later.url } })).code).toBe(0)
})

test('§4: with DATABASE_URL the pepper is needed; what SVC_ADMIN_TOKENS names stays', async () => {
  await using gateway = await scoped(startTestGateway())
  const env = { DATABASE_URL: gateway.database.url }
  const without = await bench.cli.run(['reset-admin'], { env })
  expect(without).toMatchObject({ code: 1, out: '' })
  expect(without.err).toContain('SVC_TOKEN_PEPPER')
  const reset = await bench.cli.run(['reset-admin'], { env: { ...env, SVC_TOKEN_PEPPER: 'test-pepper' } })
  const made = reset.out.trim()
  await waitFor('the new token', async () => (await status(gateway.url, made)) === 200)
  expect(await status(gateway.url, gateway.tokens.admin)).toBe(200)
  await adminCall(gateway.url, made, 'POST', '/v1/admin/customers', { display_name: 'by the new one' })
})

test('§4: named admin tokens end, too, and so do the sessions of admins; other roles stay', async () => {
  await using gateway = await scoped(startTestGateway())
  const named = async (role: string) =>
    (await gateway.admin<{ token: string }>('POST', '/v1/admin/admins', { name: `a ${role}`, role })).token
  const signedIn = async (token: string) =>
    (await gateway.admin<{ session_token: string }>('POST', '/v1/admin/sessions', {}, token)).session_token
  const [admin, viewer] = [await named('admin'), await named('viewer')]
  const sessions = [await signedIn(gateway.tokens.admin), await signedIn(viewer)] as const
  const env = { DATABASE_URL: gateway.database.url, SVC_TOKEN_PEPPER: 'test-pepper' }
  expect((await bench.cli.run(['reset-admin'], { env })).code).toBe(0)
  for (const ended of [admin, sessions[0]]) {
    await waitFor('its end', async () => (await status(gateway.url, ended)) === 401)
  }
  expect([await status(gateway.url, viewer), await status(gateway.url, sessions[1])]).toEqual([200, 200])
})

test('§4: where the gateway takes its admin tokens from SVC_ADMIN_TOKENS alone, a row would be no token: it says so', async () => {
  const env = { SVC_DATA_DIR: bench.path('data'), SVC_ADMIN_TOKENS: 'given' }
  const refused = await bench.cli.run(['reset-admin'], { env })
  expect(refused).toMatchObject({ code: 1, out: '' })
  expect(refused.err).toContain('SVC_ADMIN_TOKENS')
})
