import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, lstatSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { startEmbedded } from '../../../src/db/embedded/embedded.ts'
import { migrateDatabase } from '../../../src/db/migrate.ts'

/** Set by `scripts/test.ts`, which removes this folder after the run. Not by heavy tests, which measure first starts. */
const runFolder = process.env.PENSTOCK_TEST_FOLDER
/** What of a data folder belongs to its PostgreSQL. */
const parts = ['postgres', 'postgres-password']
const silent = { info: () => {}, warn: () => {} }

/** With an embedded PostgreSQL that has all migrations and not one row. Two processes may make it at once; the first one's stays. */
async function makeOriginal(folder: string, original: string): Promise<void> {
  const making = mkdtempSync(join(folder, 'penstock-preparing-'))
  chmodSync(making, 0o711)
  const dataDir = join(making, 'data')
  const server = await startEmbedded({ dataDir, log: silent, durable: false })
  try {
    await migrateDatabase(server.url)
  } finally {
    await server.stop()
  }
  try {
    renameSync(dataDir, original)
  } catch (error) {
    if (!existsSync(original)) throw error
  }
  rmSync(making, { recursive: true, force: true })
}

/** Null: what a gateway makes there itself cannot be copied, since another folder has it. */
async function originalFolder(folder: string): Promise<string | null> {
  const original = join(folder, 'penstock-prepared')
  if (!existsSync(original)) await makeOriginal(folder, original)
  return lstatSync(join(original, 'postgres')).isDirectory() ? original : null
}

let original: Promise<string | null> | null = null

/**
 * For a gateway of which a test wants to know something else than how its first start makes a database: that takes 0.8 s of
 * processor time, and a copy a tenth of it. Everything else of a first start is left to the gateway. A folder that has a database
 * is left alone. Returns the folder.
 */
export async function prepareFolder(dataDir: string): Promise<string> {
  if (runFolder === undefined || existsSync(join(dataDir, 'postgres'))) return dataDir
  original ??= originalFolder(runFolder)
  const from = await original
  if (from === null) return dataDir
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  // Node's own copy does not keep the owner, who is not the gateway's where that is root.
  const { status, stderr } = spawnSync('cp', ['-a', ...parts.map((part) => join(from, part)), dataDir])
  if (status !== 0) throw new Error(`cp: ${stderr}`)
  return dataDir
}
