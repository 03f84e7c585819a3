import { expect, test } from 'bun:test'
import { Accounts } from '../../../src/actors/accounts/accounts.ts'
import { createSealing } from '../../../src/actors/accounts/sealing.ts'
import { createPoolAdmin, type NewRuntimeNode } from '../../../src/actors/pool/pool-admin.ts'
import { getNode } from '../../../src/db/queries/pool/pool.ts'
import { Problem } from '../../../src/errors.ts'
import { isWellFormedToken } from '../../../src/secrets.ts'
import { testAudit, testTrail } from '../../support/leaks/audit.ts'
import { fixture } from '../../support/run/fixture.ts'
import { testDatabase } from '../../support/run/postgres.ts'

const dayMs = 86_400_000
const sealing = createSealing(['key'])
let now = Date.parse('2026-11-20T16:00:00.000Z')
const changed: string[] = []
const forgotten: string[] = []

const database = await fixture(testDatabase())
const trail = testTrail(database.db)
const accounts = new Accounts({
  db: database.db,
  trail,
  peppers: ['pepper'],
  sealing,
  keyRotationMs: dayMs,
  changedHere: (topic) => changed.push(topic),
  forgetKey: (keyId) => forgotten.push(keyId),
  now: () => now,
}).by(testAudit)
const pool = createPoolAdmin({ db: database.db, trail, sealing, changedHere: (topic) => changed.push(topic) }).by(
  testAudit,
)

const customer = async () => (await accounts.createCustomer({ displayName: 'A' })).customer.customerId

async function code(answer: Promise<unknown>): Promise<string> {
  try {
    await answer
    return 'done'
  } catch (problem) {
    if (problem instanceof Problem) return problem.code
    throw problem
  }
}

test('§4: a customer is made with a token and a webhook secret, shown once and stored as hash and seal', async () => {
  const made = await accounts.createCustomer({ displayName: 'Ä & Co', gatewayPolicy: { rate_limit_rpm: 5 } })
  expect(isWellFormedToken(made.customerToken, 'customer')).toBe(true)
  expect(made.webhookSecret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
  expect(Object.keys(made.customer).sort()).toEqual(
    [
      ...['accountStatus', 'balanceWei', 'createdAt', 'customerId', 'displayName', 'gatewayPolicy'],
      ...['leasedWei', 'reservedWei', 'revision', 'unleasedUntil'],
    ].sort(),
  )
  expect(made.customer).toMatchObject({ displayName: 'Ä & Co', accountStatus: 'active', balanceWei: 0n })
  expect(made.customer.gatewayPolicy).toEqual({ rate_limit_rpm: 5 })
  const [row] = await database.sql`select * from customers where customer_id = ${made.customer.customerId}`
  expect(JSON.stringify(row)).not.toContain(made.customerToken)
  expect(sealing.open('webhook_secret', row?.webhook_secret_sealed)).toBe(made.webhookSecret)
  const again = await accounts.rotateWebhookSecret(made.customer.customerId)
  expect(again.webhookSecret).not.toBe(made.webhookSecret)
})

test('§23: a customer is changed, listed by pages, and not found', async () => {
  const ids = [await customer(), await customer(), await customer()]
  const updated = await accounts.updateCustomer(ids[0] ?? '', { displayName: 'B', accountStatus: 'suspended' })
  expect(updated).toMatchObject({ displayName: 'B', accountStatus: 'suspended', gatewayPolicy: null })
  expect(await accounts.updateCustomer(ids[0] ?? '', {})).toEqual(updated)
  const seen: string[] = []
  for (let before: string | null = null; ; ) {
    const page: readonly { customerId: string }[] = await accounts.customers(2, before)
    seen.push(...page.map((one) => one.customerId))
    const last = page.at(-1)
    if (last === undefined) break
    before = last.customerId
  }
  expect(new Set(seen).size).toBe(seen.length)
  expect(ids.every((id) => seen.includes(id))).toBe(true)
  expect(await code(accounts.customer('cus_nobody'))).toBe('customer_not_found')
  expect(await code(accounts.updateCustomer('cus_nobody', { displayName: 'x' }))).toBe('customer_not_found')
  expect(await code(accounts.rotateCustomerToken('cus_nobody'))).toBe('customer_not_found')
  expect(await code(accounts.keys('cus_nobody'))).toBe('customer_not_found')
})

test('§4: at most 10 live keys, also when they are asked for all at once', async () => {
  const id = await customer()
  const codes = await Promise.all(
    Array.from({ length: 14 }, (_, index) => code(accounts.issueKey(id, { name: `k${index}` }))),
  )
  expect(codes.filter((one) => one === 'done')).toHaveLength(10)
  expect(codes.filter((one) => one === 'key_limit_reached')).toHaveLength(4)
  const [first] = await accounts.keys(id)
  await accounts.revokeKey(first?.keyId ?? '')
  expect(await code(accounts.issueKey(id, { name: 'after one ended' }))).toBe('done')
  expect(await accounts.keys(id)).toHaveLength(11)
})

test('§4: a key is issued with its fields and without its hash', async () => {
  const id = await customer()
  const expiresAt = new Date(now + dayMs)
  const modelPolicy = { allowed_models: ['llama-*'] }
  const { key, gatewayKey } = await accounts.issueKey(id, { name: 'k', modelPolicy, nodeScope: ['node_1'], expiresAt })
  expect(isWellFormedToken(gatewayKey, 'gateway')).toBe(true)
  expect(key).toMatchObject({ customerId: id, name: 'k', modelPolicy, nodeScope: ['node_1'], expiresAt })
  expect(key.displayPrefix).toBe(gatewayKey.slice(0, 16))
  expect(Object.keys(key)).not.toContain('keyHash')
  expect(await accounts.key(key.keyId)).toEqual(key)
  expect(await code(accounts.issueKey(id, { name: 'k', expiresAt: new Date(now) }))).toBe('invalid_request')
  expect(await code(accounts.issueKey('cus_nobody', { name: 'k' }))).toBe('customer_not_found')
})

test('§4: a rotated key ends after a day, or sooner if it would have; the new one is like it', async () => {
  const id = await customer()
  const { key } = await accounts.issueKey(id, { name: 'k', nodeScope: ['node_1'] })
  const rotated = await accounts.rotateKey(key.keyId)
  expect(rotated.oldKeyExpiresAt.getTime()).toBe(now + dayMs)
  expect(rotated.key).toMatchObject({ name: 'k', nodeScope: ['node_1'], expiresAt: null })
  expect(rotated.key.keyId).not.toBe(key.keyId)
  expect((await accounts.key(key.keyId)).expiresAt?.getTime()).toBe(now + dayMs)
  const soon = new Date(now + 60_000)
  const ending = await accounts.issueKey(id, { name: 'ending', expiresAt: soon })
  expect((await accounts.rotateKey(ending.key.keyId, 7 * dayMs)).oldKeyExpiresAt).toEqual(soon)
  expect(await code(accounts.rotateKey(key.keyId, 7 * dayMs + 1))).toBe('invalid_request')
  expect(await code(accounts.rotateKey(key.keyId, Number.NaN))).toBe('invalid_request')
  expect(await code(accounts.rotateKey('key_nobody'))).toBe('key_not_found')
  now += 60_000
  expect(await code(accounts.rotateKey(ending.key.keyId))).toBe('invalid_state')
})

test('§4: rotated with no overlap the old key is dead at once', async () => {
  const { key } = await accounts.issueKey(await customer(), { name: 'k' })
  await accounts.rotateKey(key.keyId, 0)
  expect(forgotten).toContain(key.keyId)
  expect((await accounts.key(key.keyId)).expiresAt?.getTime()).toBe(now)
  expect(await code(accounts.rotateKey(key.keyId))).toBe('invalid_state')
})

test('§4: a revoked key stays revoked at its first time, and cannot be rotated', async () => {
  const { key } = await accounts.issueKey(await customer(), { name: 'k' })
  changed.length = 0
  const revokedAt = (await accounts.revokeKey(key.keyId)).revokedAt
  expect(revokedAt?.getTime()).toBe(now)
  expect(changed).toContain('gateway_keys')
  expect(forgotten).toContain(key.keyId)
  now += 1_000
  expect((await accounts.revokeKey(key.keyId)).revokedAt).toEqual(revokedAt)
  expect(await code(accounts.rotateKey(key.keyId))).toBe('invalid_state')
  expect(await code(accounts.revokeKey('key_nobody'))).toBe('key_not_found')
})

const runtime = (customerId: string, url: string): NewRuntimeNode => ({
  customerId,
  url,
  visibility: 'private',
  nodeClass: 'gpu',
  privacyClass: 'private',
})

test('§23: a runtime is registered by its URL; its key is sealed and never shown', async () => {
  const id = await customer()
  const node = await pool.registerRuntimeNode({ ...runtime(id, 'http://127.0.0.1:8080/base//'), apiKey: 'secret' })
  expect(node).toMatchObject({ url: 'http://127.0.0.1:8080/base', name: '127.0.0.1:8080', kind: 'runtime' })
  expect(node).toMatchObject({ adminState: 'active', origin: 'operator', hasApiKey: true })
  expect(JSON.stringify(node)).not.toContain('secret')
  const stored = await getNode(database.db, node.nodeId)
  expect(sealing.open('node_api_key', stored?.apiKeySealed ?? Buffer.alloc(0))).toBe('secret')
  expect(await pool.node(node.nodeId)).toEqual(node)
  expect(await pool.nodes(id)).toEqual([node])
  expect(await code(pool.registerRuntimeNode(runtime('cus_nobody', 'http://a')))).toBe('customer_not_found')
})

test.each(['', 'localhost:8080', 'ftp://a', 'http://user:pw@a', 'http://a?x=1', 'http://a/#f'])(
  '§23: %p is no URL of a runtime',
  async (url) => {
    expect(await code(pool.registerRuntimeNode(runtime(await customer(), url)))).toBe('invalid_request')
  },
)

test('§8: a node drains, resumes and is revoked for good', async () => {
  const { nodeId } = await pool.registerRuntimeNode({ ...runtime(await customer(), 'http://a'), apiKey: 'secret' })
  const draining = await pool.setNodeAdminState(nodeId, 'drain')
  expect(draining.adminState).toBe('draining')
  expect(await pool.setNodeAdminState(nodeId, 'drain')).toEqual(draining)
  expect(await pool.setNodeAdminState(nodeId, 'resume')).toMatchObject({ adminState: 'active', drainStartedAt: null })
  expect(await pool.updateNode(nodeId, { name: 'n', url: 'http://b/', apiKey: null })).toMatchObject({
    name: 'n',
    url: 'http://b',
    hasApiKey: false,
  })
  const revoked = await pool.setNodeAdminState(nodeId, 'revoke')
  expect(revoked.adminState).toBe('revoked')
  expect(await pool.setNodeAdminState(nodeId, 'revoke')).toEqual(revoked)
  expect(await code(pool.setNodeAdminState(nodeId, 'resume'))).toBe('invalid_state')
  expect(await code(pool.setNodeAdminState(nodeId, 'drain'))).toBe('invalid_state')
  expect(await code(pool.updateNode(nodeId, { name: 'x' }))).toBe('invalid_state')
  expect(await code(pool.setNodeAdminState('node_nobody', 'drain'))).toBe('node_not_found')
  expect(await code(pool.setNodeAdminState('node_nobody', 'revoke'))).toBe('node_not_found')
  await pool.deleteNode(nodeId)
  expect(await code(pool.node(nodeId))).toBe('node_not_found')
  expect(await code(pool.deleteNode(nodeId))).toBe('node_not_found')
})

test('§23: the names of catalogue entries stay apart, also when two are put at once', async () => {
  const first = await pool.putModelEntry({ modelId: 'llama', aliases: ['fast', 'fast', 'llama'] })
  expect(first.aliases).toEqual(['fast'])
  expect(await code(pool.putModelEntry({ modelId: 'fast' }))).toBe('invalid_request')
  expect(await code(pool.putModelEntry({ modelId: 'qwen', aliases: ['fast'] }))).toBe('invalid_request')
  expect(await code(pool.putModelEntry({ modelId: 'qwen', aliases: ['llama'] }))).toBe('invalid_request')
  expect(await code(pool.putModelEntry({ modelId: 'bad id' }))).toBe('invalid_request')
  const both = await Promise.all(
    ['a', 'b'].map((modelId) => code(pool.putModelEntry({ modelId, aliases: ['shared'] }))),
  )
  expect(both.sort()).toEqual(['done', 'invalid_request'])
  expect((await pool.putModelEntry({ modelId: 'llama', name: 'Llama' })).aliases).toEqual([])
  expect(await code(pool.putModelEntry({ modelId: 'fast', aliases: [] }))).toBe('done')
  await pool.deleteModelEntry('fast')
  expect(await code(pool.deleteModelEntry('fast'))).toBe('model_entry_not_found')
})

test('§25: a sealed secret opens under any key of the list, for its own purpose only', () => {
  const raw = Buffer.alloc(32, 7).toString('base64url')
  const old = createSealing([raw])
  const sealed = old.seal('node_api_key', 'geheim ü')
  expect(sealed.includes(Buffer.from('geheim'))).toBe(false)
  const both = createSealing(['any text', raw])
  expect(both.open('node_api_key', sealed)).toBe('geheim ü')
  expect(both.open('webhook_secret', sealed)).toBeNull()
  expect(createSealing(['any text']).open('node_api_key', sealed)).toBeNull()
  expect(createSealing(['any text']).open('node_api_key', both.seal('node_api_key', 'x'))).toBe('x')
  for (const at of [0, 12, sealed.length - 1]) {
    const broken = Buffer.from(sealed)
    broken[at] = (broken[at] ?? 0) ^ 1
    expect(both.open('node_api_key', broken)).toBeNull()
  }
  expect(both.open('node_api_key', Buffer.alloc(3))).toBeNull()
  expect(old.seal('node_api_key', 'same').equals(old.seal('node_api_key', 'same'))).toBe(false)
})
