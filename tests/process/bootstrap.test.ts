import { afterAll, expect, test } from 'bun:test'
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Credentials } from '../../src/host/data-folder.ts'
import { start } from '../../src/main.ts'
import { fixture } from '../support/run/fixture.ts'
import { openFolder } from '../support/run/open-folder.ts'
import { testDatabase } from '../support/run/postgres.ts'

const database = await fixture(testDatabase())
const folder = openFolder('penstock-bootstrap-')

afterAll(() => rmSync(folder, { recursive: true }))

const env = (more: Readonly<Record<string, string>> = {}) => ({
  DATABASE_URL: database.url,
  SVC_DATA_DIR: join(folder, 'data'),
  SVC_PORT: '0',
  SVC_DISCOVER: 'false',
  SVC_WARM_UP: 'false',
  SVC_DRAIN_MS: '300',
  SVC_LOG_LEVEL: 'silent',
  SVC_TOKEN_PEPPER: 'pepper',
  SVC_SECRETS_KEY: 'secrets',
  SVC_AUDIT_KEY: 'audit',
  SVC_ROUTER_KEY: '22'.repeat(32),
  SVC_WEBHOOK_KEY: '33'.repeat(32),
  SVC_LOG_KEY: '77'.repeat(32),
  ...more,
})
const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => 'none',
    (error: Error) => error.message,
  )

test('§25: with DATABASE_URL and SVC_BOOTSTRAP the first start makes what the embedded one makes, once', async () => {
  const file = join(folder, 'data/credentials.json')
  expect(await failureOf(start(env(), { quiet: true }))).toContain('unless SVC_BOOTSTRAP is true')
  expect(existsSync(file)).toBe(false)
  const first = await start(env({ SVC_BOOTSTRAP: 'true' }), { quiet: true })
  const made = JSON.parse(readFileSync(file, 'utf8')) as Credentials
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect([made.customer_id, made.base_url]).toEqual(['local', first.url])
  const status = async (path: string, headers: Record<string, string>) =>
    (await fetch(first.url + path, { headers })).status
  expect(await status('/v1/admin/customers', { 'x-svc-admin-token': made.admin_token })).toBe(200)
  expect(await status('/v1/api/models', { authorization: `Bearer ${made.gateway_key}` })).toBe(200)
  const customer = { 'x-svc-customer-id': 'local', 'x-svc-customer-token': made.customer_token }
  expect(await status('/v1/billing/account', customer)).toBe(200)
  await first.stop()
  const again = await start(env({ SVC_BOOTSTRAP: 'true' }), { quiet: true })
  const { base_url: _, ...kept } = JSON.parse(readFileSync(file, 'utf8')) as Credentials
  expect(made).toMatchObject(kept)
  await again.stop()
})

test('§25: where the credentials could not be kept, nothing is made, and the start says why', async () => {
  writeFileSync(join(folder, 'a-file'), '')
  const told = await failureOf(
    start(env({ SVC_BOOTSTRAP: 'true', SVC_DATA_DIR: join(folder, 'a-file/data') }), { quiet: true }),
  )
  expect(told).toContain('SVC_DATA_DIR')
})
