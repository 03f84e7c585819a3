import { afterEach, beforeEach, expect, test } from 'bun:test'
import { AccessDirectory } from '../../../src/actors/accounts/access-directory.ts'
import { type FirstCredentials, firstStart } from '../../../src/actors/accounts/first-start.ts'
import { createSealing } from '../../../src/actors/accounts/sealing.ts'
import { ChangeFeed } from '../../../src/actors/durable/change-feed.ts'
import { createLog } from '../../../src/log.ts'
import { type TestDatabase, testDatabase } from '../../support/run/postgres.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await testDatabase()
})
afterEach(() => database.drop())

const start = (deliver: (credentials: FirstCredentials) => void | Promise<void>) =>
  firstStart({ db: database.db, peppers: ['pepper'], sealing: createSealing(['key']), deliver })

/** What the credentials open. */
async function opens(credentials: FirstCredentials) {
  const log = createLog('silent', () => {})
  const feed = new ChangeFeed({ db: database.db, sql: database.sql, log })
  const access = new AccessDirectory({
    db: database.db,
    feed,
    log,
    peppers: ['pepper'],
    roleTokens: { admin: [], operator: [], viewer: [] },
    roleTokensInDatabase: true,
    outageMs: 60_000,
    sessionIdleMs: 3_600_000,
    tokenNames: new Map(),
    oidcSources: [],
  })
  await feed.start()
  await access.start()
  const { adminToken, operatorToken, viewerToken, customerId, customerToken, gatewayKey } = credentials
  const roles = [adminToken, operatorToken, viewerToken].map((token) => access.role(token))
  const byKey = await access.gatewayKey(gatewayKey)
  const byHeaders = await access.customer(customerId, customerToken)
  await access.stop()
  await feed.stop()
  return { roles, customers: [byKey?.customerId, byHeaders?.customerId] }
}
const all = { roles: ['admin', 'operator', 'viewer'], customers: ['local', 'local'] }

test('§25: the first start makes one token of each role, the customer local and a key; the next makes nothing', async () => {
  const delivered: FirstCredentials[] = []
  expect(await start((credentials) => void delivered.push(credentials))).toBe('made')
  expect(await start((credentials) => void delivered.push(credentials))).toBe('kept')
  const [credentials] = delivered
  if (credentials === undefined || delivered.length > 1) throw new Error('not delivered once')
  expect(credentials.customerId).toBe('local')
  expect(await opens(credentials)).toEqual(all as never)
  const rows = await database.sql`select * from customers, gateway_keys, admin_tokens`
  const stored = JSON.stringify(rows)
  for (const secret of [credentials.adminToken, credentials.customerToken, credentials.gatewayKey]) {
    expect(stored).not.toContain(secret)
  }
})

test('§25: two first starts at once make one set', async () => {
  const delivered: FirstCredentials[] = []
  const starts = await Promise.all([1, 2, 3].map(() => start((credentials) => void delivered.push(credentials))))
  expect(starts.sort()).toEqual(['kept', 'kept', 'made'])
  expect(delivered).toHaveLength(1)
})

test('§25: when the file cannot be written nothing is made, and the next start makes all of it', async () => {
  const full = start(() => {
    throw new Error('disk full')
  })
  expect(full).rejects.toThrow('disk full')
  await full.catch(() => {})
  const [counts] = await database.sql`
    select (select count(*) from admin_tokens)::int + (select count(*) from customers)::int as rows`
  expect(counts?.rows).toBe(0)
  const delivered: FirstCredentials[] = []
  expect(await start((credentials) => void delivered.push(credentials))).toBe('made')
})

test('§25: ended between the file and the commit, the next start replaces the file with one that works', async () => {
  let file: FirstCredentials | null = null
  const written = Promise.withResolvers<void>()
  const interrupted = start(async (credentials) => {
    file = credentials
    written.resolve()
    // The process ends here: its connection is cut before the commit.
    await database.sql`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and state = 'idle in transaction'`
  })
  await written.promise
  await interrupted.catch(() => {})
  const [tokens] = await database.sql`select count(*)::int as rows from admin_tokens`
  expect(tokens?.rows).toBe(0)
  expect(
    await start((credentials) => {
      file = credentials
    }),
  ).toBe('made')
  if (file === null) throw new Error('not delivered')
  expect(await opens(file)).toEqual(all as never)
})

test('§25: with the role tokens removed the customer local keeps what it had and gets new credentials', async () => {
  await start(() => {})
  await database.sql`update customers set balance_wei = 7`
  await database.sql`delete from admin_tokens`
  let again: FirstCredentials | null = null
  expect(
    await start((credentials) => {
      again = credentials
    }),
  ).toBe('made')
  if (again === null) throw new Error('not delivered')
  expect(await opens(again)).toEqual(all as never)
  const [local] = await database.sql`select balance_wei from customers where customer_id = 'local'`
  expect(local?.balance_wei).toBe('7')
})
