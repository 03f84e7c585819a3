import { expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { connect } from '../../src/db/client.ts'
import { startEmbedded } from '../../src/db/embedded/embedded.ts'
import { migrations } from '../../src/db/migrate.ts'
import { everyRow } from '../support/leaks/every-row.ts'
import { scoped } from '../support/run/fixture.ts'
import { startEmbeddedGateway } from '../support/run/offline.ts'
import { openFolder } from '../support/run/open-folder.ts'
import { testDatabase } from '../support/run/postgres.ts'

const root = resolve(import.meta.dir, '../..')
const secrets = {
  SVC_TOKEN_PEPPER: 'pepper',
  SVC_SECRETS_KEY: 'secrets',
  SVC_AUDIT_KEY: 'audit',
  SVC_ROUTER_KEY: '22'.repeat(32),
  SVC_WEBHOOK_KEY: '33'.repeat(32),
  SVC_LOG_KEY: '77'.repeat(32),
  SVC_ADMIN_TOKENS: 'an-admin-token-of-this-test',
}
const known = migrations()

/** What a newer version leaves: its own migration behind those that this one knows. */
async function migrateFurther(url: string): Promise<void> {
  const sql = connect(url, { max: 1 })
  const madeAt = (known.at(-1)?.madeAt ?? 0) + 1
  await sql`insert into drizzle.__drizzle_migrations (hash, created_at) values (${'ab'.repeat(32)}, ${madeAt})`
  await sql.end()
}

async function refused(env: Readonly<Record<string, string>>, program: readonly string[]): Promise<string> {
  const child = Bun.spawn([process.execPath, ...program], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'pipe'],
    env: {
      PATH: process.env.PATH ?? '',
      SVC_PORT: '0',
      SVC_DISCOVER: 'false',
      SVC_WARM_UP: 'false',
      SVC_LOG_LEVEL: 'silent',
      ...env,
    },
  })
  const text = await new Response(child.stderr).text()
  expect(await child.exited).toBe(1)
  return text
}

const says = `has migration ${known.length + 1} and this version knows ${known.length}`

test('§25: a database that a newer version has migrated is refused by number, with what to do, and left alone', async () => {
  await using database = await scoped(testDatabase())
  await migrateFurther(database.url)
  const before = await everyRow(database.url)
  const env = { DATABASE_URL: database.url, ...secrets }
  for (const [program, more] of [
    [['src/main.ts'], {}],
    [['src/cli/main.ts', 'serve'], {}],
    [['src/main.ts'], { SVC_PROCESSES: '2' }],
  ] as const) {
    const text = await refused({ ...env, ...more }, program)
    expect(text).toContain(says)
    expect(text).toContain('Start that version or a later one, or restore a backup')
    expect(text).toContain('(database_newer)')
    expect(text).not.toContain('could not start')
    expect(text).not.toMatch(/\n\s+at /)
  }
  expect(await everyRow(database.url)).toEqual(before)
})

test('§25: so is the database in a data folder; the server stops again', async () => {
  const work = openFolder('penstock-newer-')
  const dataDir = join(work, 'data')
  try {
    await (await startEmbeddedGateway(dataDir)).stop()
    const embedded = await startEmbedded({ dataDir, log: { info: () => {}, warn: () => {} } })
    await migrateFurther(embedded.url)
    await embedded.stop()
    for (let turn = 0; turn < 2; turn++) {
      expect(await refused({ SVC_DATA_DIR: dataDir }, ['src/main.ts'])).toContain(says)
    }
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
})
