import {
  closeSync,
  createReadStream,
  existsSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { pipeline } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { BackupError, type BackupHeader, BackupSource, damaged, foreign, readHeader } from '../db/backup/backup-text.ts'
import type { Rows } from '../db/backup/dump.ts'
import { restoreDatabase } from '../db/backup/restore.ts'
import { startEmbedded } from '../db/embedded/embedded.ts'
import { type Credentials, neededSecretSettings, replaceDataFolder, secretSettings } from '../host/data-folder.ts'
import { type Environment, listOf, type Settings } from '../settings/config.ts'
import { databaseFailure, OfflineError, offlineSettings } from './storage.ts'

export interface RestoreOptions {
  readonly env: Environment
  readonly file: string
  /** Replaces what the data folder or the database holds. */
  readonly overwrite: boolean
  /** Writes the backup's secrets as an environment file; for `DATABASE_URL`. */
  readonly secretsTo: string | null
}

export interface Restored {
  readonly createdAt: string
  readonly rows: Rows
  /** null: `DATABASE_URL`. */
  readonly dataDir: string | null
  /** Settings whose value here is none of those the backup was made with: what they protect cannot be read. */
  readonly otherSecrets: readonly string[]
}

const silent = { info: () => {}, warn: () => {} }

function isGzip(file: string): boolean {
  const start = Buffer.alloc(2)
  const descriptor = openSync(file, 'r')
  try {
    return readSync(descriptor, start) === 2 && start[0] === 0x1f && start[1] === 0x8b
  } finally {
    closeSync(descriptor)
  }
}

function openBackup(file: string): { readonly source: BackupSource; readonly close: () => void } {
  if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true)
    throw new OfflineError(`The file ${file} does not exist.`)
  if (!isGzip(file)) throw new OfflineError(foreign().message)
  const bytes = createReadStream(file)
  const text = createGunzip()
  // An error of either stream reaches the reader of the text.
  pipeline(bytes, text, () => {})
  return { source: new BackupSource(text), close: () => bytes.destroy() }
}

/** Replaces everything by a backup that was read to its last line, or changes nothing. No gateway may run. */
export async function restoreBackup({ env, file, overwrite, secretsTo }: RestoreOptions): Promise<Restored> {
  const settings = offlineSettings(env)
  const { source, close } = openBackup(file)
  try {
    const header = readHeader(await source.line())
    const restored = { createdAt: header.created_at, otherSecrets: otherSecrets(settings, header) }
    if (secretsTo !== null) writeSecrets(secretsTo, header, overwrite)
    if (settings.DATABASE_URL !== null) {
      const rows = await restoreDatabase(settings.DATABASE_URL, header, source, { overwrite })
      return { ...restored, rows, dataDir: null }
    }
    const rows = await restoreFolder(settings.SVC_DATA_DIR, header, source, overwrite)
    return { ...restored, rows, dataDir: resolve(settings.SVC_DATA_DIR) }
  } catch (error) {
    throw failure(error)
  } finally {
    close()
  }
}

const fileFaults = ['Z_DATA_ERROR', 'Z_BUF_ERROR', 'ERR_STREAM_PREMATURE_CLOSE']

function failure(error: unknown): unknown {
  if (error instanceof BackupError) return new OfflineError(error.message)
  const code = (error as { readonly code?: unknown } | null)?.code
  if (error instanceof SyntaxError || fileFaults.includes(String(code))) return new OfflineError(damaged().message)
  return databaseFailure(error)
}

function otherSecrets(settings: Settings, { secrets }: BackupHeader): readonly string[] {
  const values = settings as unknown as Readonly<Record<string, string | null>>
  return Object.entries(secrets).flatMap(([name, kept]) => {
    const here = values[name]
    return here == null || listOf(here).some((one) => listOf(kept).includes(one)) ? [] : [name]
  })
}

async function restoreFolder(
  dir: string,
  header: BackupHeader,
  source: BackupSource,
  overwrite: boolean,
): Promise<Rows> {
  const dataDir = resolve(dir)
  const held = existsSync(join(dataDir, 'secrets.json'))
  if (held && !overwrite) {
    throw new OfflineError(`${dataDir} already is a gateway's data folder. --overwrite replaces everything in it.`)
  }
  const secrets = { ...(held ? secretSettings(dataDir) : {}), ...header.secrets }
  const absent = neededSecretSettings.filter((name) => secrets[name] === undefined)
  if (absent.length > 0) {
    throw new OfflineError(`The backup does not contain ${absent.join(', ')}. Restore it with DATABASE_URL instead.`)
  }
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const embedded = await startEmbedded({ dataDir, log: silent })
  try {
    const rows = await restoreDatabase(embedded.url, header, source, { overwrite })
    replaceDataFolder(dataDir, secrets, header.credentials as Credentials | null)
    return rows
  } finally {
    await embedded.stop()
  }
}

/** For systemd's `EnvironmentFile=`, a container's `--env-file` or a shell. */
function writeSecrets(path: string, { secrets }: BackupHeader, overwrite: boolean): void {
  const file = resolve(path)
  const text = Object.entries(secrets).map(([name, value]) => `${name}=${value}\n`)
  const beside = `${file}.${process.pid}`
  if (existsSync(file) && !overwrite) throw new OfflineError(`${file} exists already. --overwrite replaces it.`)
  if (!existsSync(dirname(file))) throw new OfflineError(`The folder ${dirname(file)} does not exist.`)
  writeFileSync(beside, text.join(''), { mode: 0o600, flag: 'wx' })
  renameSync(beside, file)
}
