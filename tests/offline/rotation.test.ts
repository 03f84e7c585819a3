import { expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { checkNote, parseNote, parseNoteKey } from '../../src/protocol/log/note.ts'
import { verifyEd25519 } from '../../src/protocol/signing/ed25519.ts'
import { newToken, sha256Hex } from '../../src/secrets.ts'
import { startTestGateway, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { fixture, scoped } from '../support/run/fixture.ts'
import { chatWith, openBench, startEmbeddedGateway } from '../support/run/offline.ts'

/** Each key list of the environment is changed as docs/operations/secure.md says: new in front, then the old one away. */

const apiKey = 'node-secret'

const first = await fixture(startTestGateway())
const node = await fixture(startFakeNode({ models: ['m'], apiKey }))

/** Another gateway on the same database, as after a restart with other settings. */
async function restarted<T>(
  env: Readonly<Record<string, string>>,
  body: (gateway: TestGateway) => Promise<T>,
): Promise<T> {
  await using gateway = await scoped(startTestGateway({ beside: first, env }))
  return await body(gateway)
}

const models = async (gateway: TestGateway, key: string) =>
  (await fetch(`${gateway.url}/v1/api/models`, { headers: { authorization: `Bearer ${key}` } })).status

test('SVC_TOKEN_PEPPER: with new,old both kinds of keys work; without the old one only what was made under the new', async () => {
  const old = await first.customer()
  const fresh = await restarted({ SVC_TOKEN_PEPPER: 'new-pepper,test-pepper' }, async (gateway) => {
    const made = await gateway.customer()
    expect([await models(gateway, old.key), await models(gateway, made.key)]).toEqual([200, 200])
    return made
  })
  await restarted({ SVC_TOKEN_PEPPER: 'new-pepper' }, async (gateway) => {
    expect([await models(gateway, old.key), await models(gateway, fresh.key)]).toEqual([401, 200])
  })
})

test('SVC_SECRETS_KEY: a start with new,old puts every stored secret under the new one; then the old one can go', async () => {
  const customer = await first.customer()
  const made = await first.admin<{ node_id: string }>('POST', '/v1/admin/nodes', {
    customer_id: customer.customerId,
    url: node.url,
    api_key: apiKey,
    visibility: 'private',
    privacy_class: 'private',
    node_class: 'gpu',
  })
  const chats = (gateway: TestGateway) => async () => (await chatWith(gateway.url, customer.key, 'm')).status === 200
  await waitFor('the node', chats(first))
  const sealed = async () =>
    (
      await first.database.sql<{ s: string }[]>`
      select encode(api_key_sealed, 'hex') as s from nodes where node_id = ${made.node_id}
      union all select encode(webhook_secret_sealed, 'hex') from customers where customer_id = ${customer.customerId}`
    ).map(({ s }) => s)
  const before = await sealed()
  await restarted({ SVC_SECRETS_KEY: 'new-key,test-secrets-key' }, (gateway) => waitFor('the node', chats(gateway)))
  const after = await sealed()
  expect(after).toHaveLength(2)
  expect(after.filter((text) => before.includes(text))).toEqual([])
  await restarted({ SVC_SECRETS_KEY: 'new-key' }, (gateway) => waitFor('the node', chats(gateway)))
  // Again with both: all is under the newest, nothing is written.
  await restarted({ SVC_SECRETS_KEY: 'new-key,test-secrets-key' }, async () => expect(await sealed()).toEqual(after))
})

test('SVC_AUDIT_KEY: the hashed addresses of the log change with the newest key, and nothing else does', async () => {
  const { createAddressHash } = await import('../../src/actors/audit/address-hash.ts')
  expect(createAddressHash('new')('10.0.0.1')).not.toBe(createAddressHash('old')('10.0.0.1'))
  const customer = await first.customer()
  await restarted({ SVC_AUDIT_KEY: 'new-audit,test-audit-key' }, async (gateway) => {
    expect(await models(gateway, customer.key)).toBe(200)
  })
})

test('SVC_ROUTER_KEY: the announcement has both keys, newest first, each signed by both', async () => {
  const keys = async (gateway: TestGateway) =>
    (await (await fetch(`${gateway.url}/v1/node-agent/router-keys`)).json()) as {
      router_public_keys: { kid: string }[]
      signatures: { kid: string }[]
    }
  const old = await keys(first)
  await restarted({ SVC_ROUTER_KEY: `${'66'.repeat(32)},${'22'.repeat(32)}` }, async (gateway) => {
    const both = await keys(gateway)
    const kids = both.router_public_keys.map(({ kid }) => kid)
    expect(kids).toHaveLength(2)
    expect(kids[1]).toBe(old.router_public_keys[0]?.kid ?? '')
    expect(both.signatures.map(({ kid }) => kid)).toEqual(kids)
  })
})

test('SVC_WEBHOOK_KEY: both keys are published, the newest first', async () => {
  const published = async (gateway: TestGateway) => {
    const response = await fetch(`${gateway.url}/.well-known/webhook-keys.json`)
    return ((await response.json()) as { keys: string[] }).keys
  }
  const [old] = await published(first)
  await restarted({ SVC_WEBHOOK_KEY: `${'55'.repeat(32)},${'33'.repeat(32)}` }, async (gateway) => {
    const keys = await published(gateway)
    expect(keys).toHaveLength(2)
    expect(keys.indexOf(old ?? '')).toBe(1)
  })
})

test('SVC_LOG_KEY: both keys are published and sign each checkpoint', async () => {
  await using own = await scoped(startTestGateway({ env: { SVC_LOG_KEY: `${'88'.repeat(32)},${'77'.repeat(32)}` } }))
  const { keys } = (await (await fetch(`${own.url}/v1/public/log/keys`)).json()) as { keys: string[] }
  expect(keys).toHaveLength(2)
  const known = keys.map(parseNoteKey).filter((key) => key !== null)
  const checkpoint = async () => parseNote(await (await fetch(`${own.url}/v1/public/log/checkpoint`)).text())
  const note = await waitFor('a checkpoint', checkpoint)
  expect(checkNote(note, known, verifyEd25519)).toHaveLength(2)
})

test('SVC_ADMIN_TOKENS: raw and hashed entries beside each other; one that is taken out ends', async () => {
  const [one, two] = [newToken('admin'), newToken('admin')]
  const status = async (gateway: TestGateway, token: string) =>
    (await fetch(`${gateway.url}/v1/admin/nodes`, { headers: { 'x-svc-admin-token': token } })).status
  await restarted({ SVC_ADMIN_TOKENS: `sha256:${sha256Hex(two)},${one}` }, async (gateway) => {
    expect([await status(gateway, one), await status(gateway, two)]).toEqual([200, 200])
  })
  await restarted({ SVC_ADMIN_TOKENS: `sha256:${sha256Hex(two)}` }, async (gateway) => {
    expect([await status(gateway, one), await status(gateway, two)]).toEqual([401, 200])
  })
})

test('the lists of a data folder stand in secrets.json: new in front of old there, too', async () => {
  await using bench = await scoped(openBench())
  const dataDir = bench.path('data')
  const before = await startEmbeddedGateway(dataDir)
  await before.stop()
  const file = join(dataDir, 'secrets.json')
  const secrets = JSON.parse(readFileSync(file, 'utf8')) as Record<string, string>
  const rotated = Object.entries(secrets).map(([name, old]) => [
    name,
    `${Buffer.alloc(32, 7).toString('base64url')},${old}`,
  ])
  writeFileSync(file, JSON.stringify(Object.fromEntries(rotated)))
  const after = await startEmbeddedGateway(dataDir)
  const { gateway_key: key } = before.credentials
  const { status } = await fetch(`${after.url}/v1/api/models`, { headers: { authorization: `Bearer ${key}` } })
  await after.stop()
  expect(status).toBe(200)
  expect(readFileSync(file, 'utf8')).toContain(secrets.token_pepper ?? 'absent')
})
