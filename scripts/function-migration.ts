import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { connect } from '../src/db/client.ts'
import { startEmbedded } from '../src/db/embedded/embedded.ts'
import { migrateDatabase, migrationsFolder, statementBreakpoint } from '../src/db/migrate.ts'
import { functionChanges } from './sql-functions.ts'

/**
 * Writes the migration that brings the database's functions to what `src/db/functions` says. Usage, after a change of a
 * file there: `npm run migration -- NAME`.
 */
const root = resolve(import.meta.dir, '..')
const name = process.argv[2] ?? ''

async function changes(): Promise<readonly string[]> {
  const dataDir = mkdtempSync(join(tmpdir(), 'penstock-functions-'))
  const log = { info: () => {}, warn: () => {} }
  const server = await startEmbedded({ dataDir, log, durable: false, preferNobody: true })
  const sql = connect(server.url, { max: 1 })
  try {
    await migrateDatabase(server.url)
    return await functionChanges(sql)
  } finally {
    await sql.end()
    await server.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

/** drizzle-kit numbers it, and keeps the journal that the migrator reads. */
function emptyMigration(): string {
  const kit = join(root, 'node_modules/drizzle-kit/bin.cjs')
  const made = Bun.spawnSync([process.execPath, kit, 'generate', '--custom', `--name=${name}`], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const file = readdirSync(migrationsFolder)
    .sort()
    .findLast((entry) => entry.endsWith(`_${name}.sql`))
  if (made.exitCode !== 0 || file === undefined) throw new Error('drizzle-kit made no migration')
  return file
}

if (!/^[a-z0-9_]+$/.test(name)) {
  process.stderr.write('Usage: npm run migration -- NAME (small letters, digits and _)\n')
  process.exit(2)
}
const statements = await changes()
if (statements.length === 0) {
  process.stdout.write('The migrations define the functions as src/db/functions does.\n')
} else {
  const file = emptyMigration()
  writeFileSync(join(migrationsFolder, file), `${statements.join(`\n${statementBreakpoint}\n`)}\n`)
  process.stdout.write(`src/db/migrations/${file}: ${statements.length} statements\n`)
}
