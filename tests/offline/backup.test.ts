import { expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { migrations } from '../../src/db/migrate.ts'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { start } from '../../src/main.ts'
import { waitFor } from '../support/gateways/gateway.ts'
import { everyRow } from '../support/leaks/every-row.ts'
import { fixture, scoped } from '../support/run/fixture.ts'
import { adminCall, chatWith, nodeReady, openBench, startEmbeddedGateway } from '../support/run/offline.ts'
import { emptyDatabase, testDatabase } from '../support/run/postgres.ts'

/** One gateway is filled and backed up while it works; the tests restore that file in each way. */

let file = ''
let gatewayKey = ''
let heldKey = ''
let nodeId = ''
let credentials = ''
/** The log key, as an operator keeps it. */
let key = ''
const apiKey = 'node-secret'
const receiptsWithin = 5_000

const bench = await fixture(openBench())
const node = await fixture(startFakeNode({ models: ['m', 'other'], apiKey }))
const dataDir = bench.path('first')
const gateway = await startEmbeddedGateway(dataDir)
try {
  await fill(gateway.url, gateway.credentials.admin_token, gateway.credentials.customer_id)
  gatewayKey = gateway.credentials.gateway_key
  await waitFor(
    'the receipts',
    async () => (await receiptsWritten(gateway.url, gateway.credentials)) >= 3,
    receiptsWithin,
  )
  file = await backupUnderWrites(dataDir, gateway.url, gateway.credentials)
  key = bench.keyOf(file)
  credentials = readFileSync(join(dataDir, 'credentials.json'), 'utf8')
} finally {
  await gateway.stop()
}

async function fill(url: string, admin: string, customerId: string): Promise<void> {
  const made = await adminCall<{ node_id: string }>(url, admin, 'POST', '/v1/admin/nodes', {
    customer_id: customerId,
    url: node.url,
    api_key: apiKey,
    visibility: 'private',
    privacy_class: 'private',
    node_class: 'gpu',
  })
  nodeId = made.node_id
  await waitFor('the node', () => nodeReady(url, admin, nodeId))
  const held = await adminCall<{ gateway_key: string }>(url, admin, 'POST', `/v1/admin/customers/${customerId}/keys`, {
    name: "a 'name' with \\ and \\. and \\N and ü",
    model_policy: { allowed_models: ['other'] },
  })
  heldKey = held.gateway_key
  for (let turn = 0; turn < 3; turn++) expect((await chatWith(url, heldKey, 'other')).status).toBe(200)
}

async function receiptsWritten(url: string, { admin_token }: { readonly admin_token: string }): Promise<number> {
  const text = await (await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${admin_token}` } })).text()
  return Number(/^svc_receipts_written_total (\d+)/m.exec(text)?.[1] ?? 0)
}

/** Customers and their keys are made all the while: a backup with a key and without its customer could not be restored. */
async function backupUnderWrites(
  dataDir: string,
  url: string,
  { admin_token: admin }: { readonly admin_token: string },
): Promise<string> {
  let writing = true
  const writer = (async () => {
    let made = 0
    for (; writing; made++) {
      const { customer_id } = await adminCall<{ customer_id: string }>(url, admin, 'POST', '/v1/admin/customers', {
        display_name: `written ${made}`,
      })
      await adminCall(url, admin, 'POST', `/v1/admin/customers/${customer_id}/keys`, { name: 'k' })
    }
    return made
  })()
  const to = bench.path('backup.sql.gz')
  const ended = await bench.cli.run(['backup', to], { env: { SVC_DATA_DIR: dataDir } })
  writing = false
  expect(ended).toMatchObject({ code: 0, err: '' })
  expect(await writer).toBeGreaterThan(0)
  return to
}

async function servesAsBefore(url: string, admin: string): Promise<void> {
  await waitFor('the node', () => nodeReady(url, admin, nodeId))
  expect((await chatWith(url, gatewayKey, 'm')).status).toBe(200)
  expect((await chatWith(url, heldKey, 'other')).status).toBe(200)
  expect((await chatWith(url, heldKey, 'm')).status).toBe(403)
}

test('§24: the file is readable by its owner alone, and nothing else is left beside it', () => {
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(readdirSync(bench.dir).filter((name) => name.startsWith('backup'))).toEqual(['backup.sql.gz'])
})

test('§24: the rows of requests and what PostgreSQL loses at a crash anyway are not in it', async () => {
  const tables = [...bench.textOf(file).matchAll(/^copy public\."?(\w+)"? /gim)].map(([, name = '']) => name)
  expect(tables).toEqual(
    expect.arrayContaining(['customers', 'receipt_rows', 'receipt_groups', 'nodes', 'ledger_rows', 'charge_groups']),
  )
  expect(tables.filter((name) => /^request_(?:groups|records)|^rate_|^slot_leases/.test(name))).toEqual([])
  await using database = await scoped(emptyDatabase())
  const env = { DATABASE_URL: database.url }
  expect((await bench.cli.run(['restore', file, '--log-key', key], { env })).code).toBe(0)
  expect((await everyRow(database.url)).filter(({ table }) => table.startsWith('request_'))).toEqual([])
})

test('§24: into a fresh data folder: keys, policies, the node with its sealed key and receipts are there, and it serves', async () => {
  const dataDir = bench.path('second')
  const env = { SVC_DATA_DIR: dataDir }
  expect(await bench.cli.run(['restore', file, '--log-key', key], { env })).toMatchObject({ code: 0, err: '' })
  expect(readFileSync(join(dataDir, 'credentials.json'), 'utf8')).toBe(credentials)
  expect(statSync(join(dataDir, 'secrets.json')).mode & 0o777).toBe(0o600)
  const again = bench.path('again.sql.gz')
  expect((await bench.cli.run(['backup', again], { env })).code).toBe(0)
  expect(bench.textOf(again)).toBe(bench.textOf(file))
  expect(bench.headerOf(again).secrets).toEqual(bench.headerOf(file).secrets)
  expect(bench.textOf(file)).toMatch(/"receipt_groups":[1-3]/)
  await using gateway = await scoped(startEmbeddedGateway(dataDir))
  await servesAsBefore(gateway.url, gateway.credentials.admin_token)
})

test('§24: into a PostgreSQL of its own, with the secrets as an environment file', async () => {
  await using database = await scoped(emptyDatabase())
  const secrets = bench.path('secrets.env')
  const env = { DATABASE_URL: database.url }
  const restored = await bench.cli.run(['restore', file, '--log-key', key, '--secrets-to', secrets, '--json'], {
    env,
  })
  expect(restored).toMatchObject({ code: 0, err: '' })
  expect(JSON.parse(restored.out)).toMatchObject({
    data_dir: null,
    rows: { receipt_groups: expect.any(Number), nodes: 1 },
    other_secrets: [],
  })
  expect(statSync(secrets).mode & 0o777).toBe(0o600)
  const given = Object.fromEntries(
    readFileSync(secrets, 'utf8')
      .trim()
      .split('\n')
      .map((line) => line.split('=') as [string, string]),
  )
  const server = await start(
    {
      ...env,
      ...given,
      SVC_ADMIN_TOKENS: 'unused',
      SVC_PORT: '0',
      SVC_LOG_LEVEL: 'silent',
      SVC_POLL_INTERVAL_MS: '100',
    },
    { quiet: true },
  )
  // The admin tokens of the first start are rows, and came along.
  await servesAsBefore(server.url, JSON.parse(credentials).admin_token).finally(() => server.stop())
  const other = await bench.cli.run(['restore', file, '--log-key', key, '--overwrite'], {
    env: { ...env, ...given, SVC_SECRETS_KEY: 'x' },
  })
  expect(other.code).toBe(0)
  expect(other.err).toContain('SVC_SECRETS_KEY')
  expect(other.err).not.toContain('SVC_TOKEN_PEPPER')
})

test('§24: what is there already is not replaced without --overwrite', async () => {
  await using used = await scoped(testDatabase())
  const env = { DATABASE_URL: used.url }
  const over = await bench.cli.run(['backup', file], { env })
  expect(over).toMatchObject({ code: 1, out: '' })
  expect(over.err).toContain('--overwrite')
  const secrets = bench.path('kept.env')
  writeFileSync(secrets, 'mine')
  for (const args of [
    ['restore', file, '--log-key', key],
    ['restore', file, '--log-key', key, '--secrets-to', secrets],
  ]) {
    const refused = await bench.cli.run(args, { env })
    expect(refused.code).toBe(1)
    expect(refused.err).toContain('--overwrite')
  }
  expect(readFileSync(secrets, 'utf8')).toBe('mine')
  expect((await everyRow(used.url)).filter(({ table }) => table === 'customers')).toEqual([])
  expect(await bench.cli.run(['restore', file, '--log-key', key, '--overwrite'], { env })).toMatchObject({ code: 0 })
  const groups = (await everyRow(used.url)).filter(({ table }) => table === 'receipt_groups')
  expect(groups.reduce((sum, { row }) => sum + Number(JSON.parse(row).rows), 0)).toBe(3)
})

test('§24: a database of something else, or one whose gateway runs, is left alone even with --overwrite', async () => {
  await using foreign = await scoped(emptyDatabase())
  await using busy = await scoped(testDatabase())
  const { connect } = await import('../../src/db/client.ts')
  const sql = connect(foreign.url, { max: 1 })
  await sql`create table theirs (a int)`
  await sql`insert into theirs values (1)`
  const refused = await bench.cli.run(['restore', file, '--log-key', key, '--overwrite'], {
    env: { DATABASE_URL: foreign.url },
  })
  expect(refused.err).toContain('another program')
  expect(await sql<{ a: number }[]>`select a from theirs`).toEqual([{ a: 1 }] as never)
  await sql.end()
  await busy.sql`select 1`
  const running = await bench.cli.run(['restore', file, '--log-key', key, '--overwrite'], {
    env: { DATABASE_URL: busy.url },
  })
  expect(running.err).toContain('Stop every gateway')
})

const spoil: Readonly<Record<string, readonly [(at: string) => void, string]>> = {
  'is cut off': [(at) => truncateSync(at, Math.floor(statSync(at).size * 0.6)), 'damaged or incomplete'],
  'has a flipped byte': [
    (at) => {
      const bytes = readFileSync(at)
      bytes[Math.floor(bytes.length / 2)] = (bytes[Math.floor(bytes.length / 2)] ?? 0) ^ 0xff
      writeFileSync(at, bytes)
    },
    'damaged or incomplete',
  ],
  'lost a row': [(at) => bench.rewrite(at, (text) => text.replace(/\n(key_.+\n)/, '\n')), 'damaged or incomplete'],
  'has a row that does not fit': [(at) => bench.rewrite(at, (text) => text.replace(/\nkey_\S+/, '\n\\N')), 'damaged'],
  'is of a newer version': [
    (at) =>
      bench.rewrite(at, (text) =>
        text.replace('"migrations":[', `"migrations":[{"created_at":1,"hash":"${'00'.repeat(32)}"},`),
      ),
    `This backup has migration ${migrations().length + 1} and this version knows ${migrations().length}: a newer version (0.1.0) made it. Install that version, then restore. (database_newer)`,
  ],
  'has tables of another make': [
    (at) => bench.rewrite(at, (text) => text.replace(/"hash":"../, '"hash":"00')),
    'does not know the tables',
  ],
  'is in a later form': [(at) => bench.rewrite(at, (text) => text.replace('backup-v2', 'backup-v9')), 'format v9'],
  'is no backup': [(at) => bench.rewrite(at, () => 'SELECT 1;\n'), 'not a Penstock backup'],
  'is no gzip': [(at) => writeFileSync(at, 'hello'), 'not a Penstock backup'],
}

test.each(Object.keys(spoil))('§24: a file that %s changes nothing', async (how) => {
  const [damage, says] = spoil[how] ?? [() => {}, '']
  const bad = bench.path(`bad-${how.replaceAll(' ', '-')}`)
  writeFileSync(bad, readFileSync(file))
  damage(bad)
  await using database = await scoped(emptyDatabase())
  const refused = await bench.cli.run(['restore', bad, '--log-key', key], { env: { DATABASE_URL: database.url } })
  expect(refused).toMatchObject({ code: 1, out: '' })
  expect(refused.err).toContain(says)
  expect(await everyRow(database.url)).toEqual([])
})

test('§24: what failed leaves a data folder into which the next one goes, and no third without --overwrite', async () => {
  const env = { SVC_DATA_DIR: bench.path('twice') }
  const bad = bench.path('cut.sql.gz')
  writeFileSync(bad, readFileSync(file))
  truncateSync(bad, Math.floor(statSync(bad).size * 0.6))
  expect((await bench.cli.run(['restore', bad], { env })).err).toContain('damaged or incomplete')
  expect(existsSync(join(env.SVC_DATA_DIR, 'secrets.json'))).toBe(false)
  expect((await bench.cli.run(['restore', file, '--log-key', key], { env })).code).toBe(0)
  expect(existsSync(join(env.SVC_DATA_DIR, 'secrets.json'))).toBe(true)
  expect((await bench.cli.run(['restore', file, '--log-key', key], { env })).err).toContain('--overwrite')
})

test('§24: a backup of an earlier version is brought up to this one', async () => {
  const { connect } = await import('../../src/db/client.ts')
  const { applyMigrations } = await import('../../src/db/migrate.ts')
  const [old, fresh] = [await emptyDatabase(), await emptyDatabase()]
  const sql = connect(old.url, { max: 1 })
  try {
    await sql.begin((transaction) => applyMigrations(transaction, migrations().slice(0, 1)))
    await sql`insert into admin_tokens (token_hash, role) values ('\\x01', 'admin')`
    const earlier = bench.path('earlier.sql.gz')
    expect((await bench.cli.run(['backup', earlier], { env: { DATABASE_URL: old.url } })).code).toBe(0)
    const restored = await bench.cli.run(['restore', earlier, '--unverified'], { env: { DATABASE_URL: fresh.url } })
    expect(restored.code).toBe(0)
    const rows = await everyRow(fresh.url)
    expect(rows.filter(({ table }) => table === 'admin_tokens')).toHaveLength(1)
    expect(rows.filter(({ table }) => table === '__drizzle_migrations')).toHaveLength(migrations().length)
  } finally {
    await sql.end()
    await old.drop()
    await fresh.drop()
  }
})

test('§24: without a database, a file or a folder to write to it says so', async () => {
  const nowhere = await bench.cli.run(['backup', bench.path('x')], { env: { SVC_DATA_DIR: bench.path('nothing') } })
  expect(nowhere).toMatchObject({ code: 1, out: '' })
  expect(nowhere.err).toContain('There is no database')
  expect(existsSync(bench.path('nothing'))).toBe(false)
  const away = await bench.cli.run(['backup', bench.path('x')], {
    env: { DATABASE_URL: 'postgres://u:secretword@127.0.0.1:1/none' },
  })
  expect(away.code).toBe(1)
  expect(away.err).toContain('ECONNREFUSED')
  expect(away.err).not.toContain('secretword')
  expect((await bench.cli.run(['restore', bench.path('absent')])).err).toContain('does not exist')
  const database = await testDatabase()
  const env = { DATABASE_URL: database.url }
  const folder = await bench.cli.run(['backup', bench.path('no/such/folder/x')], { env })
  expect(folder.err).toContain('is not writable')
  const named = await bench.cli.run(['backup', bench.dir], { env })
  expect(named.out).toMatch(/penstock-\d{8}T\d{6}Z\.sql\.gz: /)
  expect(named.err).toContain('SVC_TOKEN_PEPPER')
  await database.drop()
})
