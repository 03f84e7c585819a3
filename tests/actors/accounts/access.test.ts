import { afterEach, expect, test } from 'bun:test'
import { AccessDirectory, type AccessOptions } from '../../../src/actors/accounts/access-directory.ts'
import { Accounts, type AccountVerbs } from '../../../src/actors/accounts/accounts.ts'
import { makeRoleToken } from '../../../src/actors/accounts/first-start.ts'
import { createSealing } from '../../../src/actors/accounts/sealing.ts'
import { ChangeFeed } from '../../../src/actors/durable/change-feed.ts'
import { openDatabase } from '../../../src/db/client.ts'
import { Problem } from '../../../src/errors.ts'
import { createLog } from '../../../src/log.ts'
import { newToken, sha256Hex } from '../../../src/secrets.ts'
import { severable } from '../../support/gateways/severed-database.ts'
import { testAudit, testTrail } from '../../support/leaks/audit.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitLimitMs } from '../../support/run/limits.ts'
import { type TestDatabase, testDatabase } from '../../support/run/postgres.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const log = createLog('silent', () => {})
const noRoles = { admin: [], operator: [], viewer: [] }
const ends: (() => Promise<void>)[] = []

const database = await fixture(testDatabase({ connectionsMax: 6 }))

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

interface Gateway {
  readonly feed: ChangeFeed
  readonly access: AccessDirectory
  readonly accounts: AccountVerbs
}

async function gateway(
  changes: Partial<AccessOptions> & { readonly sql?: TestDatabase['sql']; readonly pollMs?: number } = {},
): Promise<Gateway> {
  const now = changes.now ?? Date.now
  const db = changes.db ?? database.db
  const feed = new ChangeFeed({ db, sql: changes.sql ?? database.sql, log, now, pollMs: changes.pollMs ?? 100 })
  const peppers = changes.peppers ?? ['pepper']
  const access = new AccessDirectory({
    db,
    feed,
    log,
    peppers,
    roleTokens: noRoles,
    roleTokensInDatabase: false,
    outageMs: 60_000,
    sessionIdleMs: 3_600_000,
    tokenNames: new Map(),
    oidcSources: [],
    ...changes,
  })
  const accounts = new Accounts({
    db: database.db,
    trail: testTrail(database.db),
    peppers,
    sealing: createSealing(['key']),
    keyRotationMs: 86_400_000,
    changedHere: (topic) => feed.changedHere(topic),
    forgetKey: (keyId) => access.forgetKey(keyId),
    now,
  }).by(testAudit)
  await feed.start()
  await access.start()
  ends.push(() => access.stop())
  ends.push(() => feed.stop())
  return { feed, access, accounts }
}

const code = async (answer: unknown): Promise<string> => {
  try {
    await answer
    return 'answered'
  } catch (problem) {
    return problem instanceof Problem ? problem.code : String(problem)
  }
}

/** Refreshing after changes goes on in the background; then the answer is at hand. */
const untilAtHand = (access: AccessDirectory, token: string) =>
  waitUntil('the key is known without a wait', () => !(access.gatewayKey(token) instanceof Promise))

test('§4: a key is looked up once and then known without a wait', async () => {
  const { access, accounts } = await gateway()
  const { customer } = await accounts.createCustomer({
    displayName: 'A',
    gatewayPolicy: { max_tokens_per_request: 500, min_privacy_class: 'trusted' },
  })
  const { key, gatewayKey } = await accounts.issueKey(customer.customerId, {
    name: 'k',
    modelPolicy: { max_tokens_per_request: 100, min_privacy_class: 'public' },
    nodeScope: ['node_1'],
  })
  const found = await access.gatewayKey(gatewayKey)
  expect(found).toMatchObject({ customerId: customer.customerId, keyId: key.keyId, accountStatus: 'active' })
  expect(found?.policy.maxTokensPerRequest).toBe(100)
  expect(found?.policy.minPrivacyRank).toBe(1)
  expect(found?.policy.nodeScope).toEqual(new Set(['node_1']))
  await untilAtHand(access, gatewayKey)
  expect(access.gatewayKey(gatewayKey)).toMatchObject({ keyId: key.keyId })
})

test('§4: a key that is read again after a change is remembered meanwhile, and no other', async () => {
  const { access, accounts, feed } = await gateway()
  const { customer } = await accounts.createCustomer({ displayName: 'A' })
  const { gatewayKey } = await accounts.issueKey(customer.customerId, { name: 'k' })
  expect(access.remembersKey(gatewayKey)).toBeFalse()
  await untilAtHand(access, gatewayKey)
  const changed = feed.changedHere('customers')
  const again = access.gatewayKey(gatewayKey)
  expect(again).toBeInstanceOf(Promise)
  expect([access.remembersKey(gatewayKey), access.remembersKey(newToken('gateway'))]).toEqual([true, false])
  await Promise.all([changed, again])
})

test('§4: a malformed key is refused without a look; an unknown one after it', async () => {
  const { access } = await gateway()
  const token = newToken('gateway')
  expect(access.gatewayKey(`${token.slice(0, -1)}${token.endsWith('0') ? '1' : '0'}`)).toBeNull()
  expect(access.gatewayKey(newToken('customer'))).toBeNull()
  expect(access.gatewayKey('')).toBeNull()
  const answer = access.gatewayKey(token)
  expect(answer).toBeInstanceOf(Promise)
  expect(await answer).toBeNull()
})

test('§4: a key issued elsewhere is known although it was just refused as unknown', async () => {
  const here = await gateway()
  const there = await gateway()
  const { customer } = await there.accounts.createCustomer({ displayName: 'A' })
  const { gatewayKey } = await there.accounts.issueKey(customer.customerId, { name: 'k' })
  await waitUntil('the key', async () => (await here.access.gatewayKey(gatewayKey)) !== null)
})

test('§4: a revoked key is refused at once here, and there as soon as the notice arrives', async () => {
  const here = await gateway()
  // Without its poll: only the notice can tell it.
  const there = await gateway({ pollMs: 2 * waitLimitMs })
  const { customer } = await here.accounts.createCustomer({ displayName: 'A' })
  const { key, gatewayKey } = await here.accounts.issueKey(customer.customerId, { name: 'k' })
  expect(await here.access.gatewayKey(gatewayKey)).not.toBeNull()
  expect(await there.access.gatewayKey(gatewayKey)).not.toBeNull()
  await untilAtHand(there.access, gatewayKey)
  await here.accounts.revokeKey(key.keyId)
  expect(await here.access.gatewayKey(gatewayKey)).toBeNull()
  await waitUntil('refused there', async () => (await there.access.gatewayKey(gatewayKey)) === null)
})

test('§26: without a notice the poll tells of a revoked key', async () => {
  const here = await gateway()
  const there = await gateway({ pollMs: 300 })
  const { customer } = await here.accounts.createCustomer({ displayName: 'A' })
  const { key, gatewayKey } = await here.accounts.issueKey(customer.customerId, { name: 'k' })
  await there.access.gatewayKey(gatewayKey)
  await untilAtHand(there.access, gatewayKey)
  await database.sql.begin(async (sql) => {
    // The version is raised and nobody is notified, as when a connection that listens is lost.
    await sql`alter table gateway_keys disable trigger gateway_keys_changed`
    await sql`update gateway_keys set revoked_at = now() where key_id = ${key.keyId}`
    await sql`update directory_versions set version = version + 1 where topic = 'gateway_keys'`
    await sql`alter table gateway_keys enable trigger gateway_keys_changed`
  })
  await waitUntil('refused', async () => (await there.access.gatewayKey(gatewayKey)) === null)
})

test('§4: a suspended account and a changed policy are seen by keys that are known', async () => {
  const here = await gateway()
  const there = await gateway()
  const { customer } = await here.accounts.createCustomer({ displayName: 'A' })
  const { gatewayKey } = await here.accounts.issueKey(customer.customerId, { name: 'k' })
  await there.access.gatewayKey(gatewayKey)
  await here.accounts.updateCustomer(customer.customerId, {
    accountStatus: 'suspended',
    gatewayPolicy: { daily_token_quota: 7 },
  })
  expect((await here.access.gatewayKey(gatewayKey))?.accountStatus).toBe('suspended')
  await waitUntil('seen there', async () => {
    const found = await there.access.gatewayKey(gatewayKey)
    return found?.accountStatus === 'suspended' && found.policy.dailyTokenQuota === 7
  })
})

test('§13: a moving balance and the time of the last use change nothing that is kept', async () => {
  const { accounts, access } = await gateway()
  const { customer } = await accounts.createCustomer({ displayName: 'A' })
  await accounts.issueKey(customer.customerId, { name: 'k' })
  const versions = () => database.sql`select topic, version from directory_versions order by topic`
  const before = await versions()
  await database.sql`update customers set balance_wei = 5, reserved_wei = 1 where customer_id = ${customer.customerId}`
  await database.sql`update gateway_keys set last_used_at = now() where customer_id = ${customer.customerId}`
  expect([...(await versions())]).toEqual([...before])
  await access.stop()
})

test('§4: a key is known by an older pepper too, a new one is made with the newest', async () => {
  const old = await gateway({ peppers: ['old'] })
  const { customer, customerToken } = await old.accounts.createCustomer({ displayName: 'A' })
  const { key, gatewayKey } = await old.accounts.issueKey(customer.customerId, { name: 'k' })
  const both = await gateway({ peppers: ['new', 'old'] })
  expect((await both.access.gatewayKey(gatewayKey))?.keyId).toBe(key.keyId)
  await untilAtHand(both.access, gatewayKey)
  expect(await both.access.customer(customer.customerId, customerToken)).not.toBeNull()
  const issued = await both.accounts.issueKey(customer.customerId, { name: 'n' })
  const onlyNew = await gateway({ peppers: ['new'] })
  expect((await onlyNew.access.gatewayKey(issued.gatewayKey))?.keyId).toBe(issued.key.keyId)
  expect(await onlyNew.access.gatewayKey(gatewayKey)).toBeNull()
})

test('§4: a key ends at its time, known or not', async () => {
  let now = Date.now()
  const { access, accounts } = await gateway({ now: () => now })
  const { customer } = await accounts.createCustomer({ displayName: 'A' })
  const expiresAt = new Date(now + 3_000)
  const { gatewayKey } = await accounts.issueKey(customer.customerId, { name: 'k', expiresAt })
  expect((await access.gatewayKey(gatewayKey))?.expiresAtMs).toBe(expiresAt.getTime())
  now += 2_999
  expect(await access.gatewayKey(gatewayKey)).not.toBeNull()
  now += 1
  expect(await access.gatewayKey(gatewayKey)).toBeNull()
})

test('§4: the last use is noted to the minute', async () => {
  const now = Date.parse('2026-11-20T16:00:59.000Z')
  const { access, accounts } = await gateway({ now: () => now })
  const { customer } = await accounts.createCustomer({ displayName: 'A' })
  const { key, gatewayKey } = await accounts.issueKey(customer.customerId, { name: 'k' })
  expect((await accounts.key(key.keyId)).lastUsedAt).toBeNull()
  await access.gatewayKey(gatewayKey)
  await access.stop()
  expect((await accounts.key(key.keyId)).lastUsedAt?.toISOString()).toBe('2026-11-20T16:00:00.000Z')
})

test('§4: the last uses are written every 5 s', async () => {
  const clock = new VirtualClock()
  const { access, accounts } = await gateway({ clock, now: () => Date.UTC(2026, 10, 20) })
  const { customer } = await accounts.createCustomer({ displayName: 'A' })
  const { key, gatewayKey } = await accounts.issueKey(customer.customerId, { name: 'k' })
  await access.gatewayKey(gatewayKey)
  await clock.pass(4_999)
  expect((await accounts.key(key.keyId)).lastUsedAt).toBeNull()
  await clock.pass(1)
  await waitUntil('the use', async () => (await accounts.key(key.keyId)).lastUsedAt !== null)
})

test('§4: customer headers: right, wrong token, unknown id, malformed', async () => {
  const { access, accounts } = await gateway()
  const { customer, customerToken } = await accounts.createCustomer({
    displayName: 'A',
    gatewayPolicy: { min_privacy_class: 'public' },
  })
  const found = await access.customer(customer.customerId, customerToken)
  expect(found).toMatchObject({ customerId: customer.customerId, keyId: null })
  // No key stands between: the account's policy alone decides.
  expect(found?.policy.minPrivacyRank).toBe(0)
  expect(await access.customer(customer.customerId, newToken('customer'))).toBeNull()
  expect(await access.customer('cus_nobody', customerToken)).toBeNull()
  expect(access.customer(customer.customerId, 'svc_customer_x')).toBeNull()
  const rotated = await accounts.rotateCustomerToken(customer.customerId)
  expect(await access.customer(customer.customerId, customerToken)).toBeNull()
  expect(await access.customer(customer.customerId, rotated.customerToken)).not.toBeNull()
})

test('§1: without the database a known key works, an unknown one gets 503 and never 401; after 60 s both get 503', async () => {
  let now = Date.now()
  const way = await severable(database.url)
  const through = openDatabase({ url: way.url, connectionsMax: 2 })
  ends.push(() => way.close())
  ends.push(() => through.close())
  const { access, accounts, feed } = await gateway({ db: through.db, sql: through.sql, now: () => now, pollMs: 50 })
  const { customer, customerToken } = await accounts.createCustomer({ displayName: 'A' })
  const { gatewayKey } = await accounts.issueKey(customer.customerId, { name: 'k' })
  const other = await accounts.issueKey(customer.customerId, { name: 'never used before the outage' })
  await access.gatewayKey(gatewayKey)
  await access.customer(customer.customerId, customerToken)
  await untilAtHand(access, gatewayKey)
  await way.sever()
  const confirmedAt = feed.confirmedAtMs()
  expect(await access.gatewayKey(gatewayKey)).not.toBeNull()
  now += 6_000
  expect(await access.gatewayKey(gatewayKey)).toMatchObject({ customerId: customer.customerId })
  expect(await access.customer(customer.customerId, customerToken)).not.toBeNull()
  expect(await code(access.gatewayKey(other.gatewayKey))).toBe('service_unavailable')
  expect(await code(access.gatewayKey(newToken('gateway')))).toBe('service_unavailable')
  expect(await code(access.customer('cus_nobody', newToken('customer')))).toBe('service_unavailable')
  now = confirmedAt + 60_000
  expect(await code(access.gatewayKey(gatewayKey))).toBe('answered')
  now = confirmedAt + 60_001
  expect(await code(access.gatewayKey(gatewayKey))).toBe('service_unavailable')
  expect(feed.confirmedAtMs()).toBe(confirmedAt)
  await way.restore()
  await waitUntil('it answers again', async () => (await code(access.gatewayKey(gatewayKey))) === 'answered')
  await waitUntil('a notice is heard again', async () => {
    await accounts.updateCustomer(customer.customerId, { displayName: `B${Math.random()}` })
    return feed.confirmedAtMs() === now
  })
})

test('§1: a key known before an unrelated change works through an outage right after it', async () => {
  const way = await severable(database.url)
  const through = openDatabase({ url: way.url, connectionsMax: 2 })
  ends.push(() => way.close())
  ends.push(() => through.close())
  const { access, accounts } = await gateway({ db: through.db, sql: through.sql })
  const { customer } = await accounts.createCustomer({ displayName: 'A' })
  const { gatewayKey } = await accounts.issueKey(customer.customerId, { name: 'k' })
  const revoked = await accounts.issueKey(customer.customerId, { name: 'revoked here' })
  await access.gatewayKey(gatewayKey)
  await access.gatewayKey(revoked.gatewayKey)
  await accounts.revokeKey(revoked.key.keyId)
  await way.sever()
  expect(await access.gatewayKey(gatewayKey)).not.toBeNull()
  expect(await code(access.gatewayKey(revoked.gatewayKey))).toBe('service_unavailable')
})

test('§4: role tokens from the environment, raw or as a digest, several of each', async () => {
  const tokens = { admin: [newToken('admin'), 'my own admin token'], operator: newToken('operator'), viewer: 'v' }
  const { access } = await gateway({
    roleTokens: {
      admin: [tokens.admin[0] ?? '', `sha256:${sha256Hex(tokens.admin[1] ?? '')}`],
      operator: [tokens.operator],
      viewer: ['v'],
    },
  })
  expect(tokens.admin.map((token) => access.role(token))).toEqual(['admin', 'admin'])
  expect(access.role(tokens.operator)).toBe('operator')
  expect(access.role('v')).toBe('viewer')
  expect(access.role(newToken('admin'))).toBeNull()
  expect(access.role(`sha256:${sha256Hex('my own admin token')}`)).toBeNull()
  expect(access.role('')).toBeNull()
})

test('§4: a token of two roles has the higher one', async () => {
  const { access } = await gateway({ roleTokens: { viewer: ['t'], operator: ['t'], admin: [] } })
  expect(access.role('t')).toBe('operator')
})

test('§25: role tokens in the database are known at start and when they are added; without it 503, not 401', async () => {
  let now = Date.now()
  const way = await severable(database.url)
  const through = openDatabase({ url: way.url, connectionsMax: 2 })
  ends.push(() => way.close())
  ends.push(() => through.close())
  const first = await makeRoleToken(database.db, ['pepper'], 'operator')
  const { access, feed } = await gateway({
    db: through.db,
    sql: through.sql,
    roleTokensInDatabase: true,
    now: () => now,
    pollMs: 50,
  })
  expect(access.role(first)).toBe('operator')
  expect(access.role(newToken('admin'))).toBeNull()
  const later = await makeRoleToken(database.db, ['pepper'], 'admin')
  await waitUntil('the later one', async () => {
    try {
      return access.role(later) === 'admin'
    } catch {
      return false
    }
  })
  await way.sever()
  const confirmedAt = feed.confirmedAtMs()
  now = confirmedAt + 59_000
  expect(access.role(first)).toBe('operator')
  expect(() => access.role(newToken('admin'))).toThrow(Problem)
  now = confirmedAt + 61_000
  expect(() => access.role(first)).toThrow(Problem)
})
