import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { BackupError, type BackupHeader, readHeader } from '../db/backup/backup-text.ts'
import type { Rows } from '../db/backup/dump.ts'
import { logBefore } from '../db/backup/log-before.ts'
import { restoreDatabase } from '../db/backup/restore.ts'
import { startEmbedded } from '../db/embedded/embedded.ts'
import { type Credentials, neededSecretSettings, replaceDataFolder, secretSettings } from '../host/data-folder.ts'
import { toBase64url } from '../protocol/signing/base64url.ts'
import { type Environment, listOf, type Settings } from '../settings/config.ts'
import { type Author, authorOf } from './authorship.ts'
import { type BackupReading, damageOf, openBackup } from './backup-file.ts'
import type { Seal } from './backup-seal.ts'
import { logKeysOf } from './log-keys.ts'
import { checkRestored, logSeenBy, type RestoredBooks } from './restored-books.ts'
import { databaseFailure, OfflineError, offlineSettings } from './storage.ts'

export interface RestoreOptions {
  readonly env: Environment
  readonly file: string
  /** Replaces what the data folder or the database holds. */
  readonly overwrite: boolean
  /** Writes the backup's secrets as an environment file; for `DATABASE_URL`. */
  readonly secretsTo: string | null
  /** Public keys of logs, 32 bytes each, that may have signed the backup; none: those of the gateway whose data is here. */
  readonly logKeys?: readonly Uint8Array[]
  /** Restores also what no key known here has signed. */
  readonly unverified?: boolean
}

export interface Restored {
  readonly createdAt: string
  readonly rows: Rows
  /** null: `DATABASE_URL`. */
  readonly dataDir: string | null
  /** Settings that have none of the values the backup was made with: what they protect cannot be read. */
  readonly otherSecrets: readonly string[]
  readonly author: Author
  readonly books: RestoredBooks
}

type Secrets = Readonly<Record<string, string>>

/** A backup whose author is known, or need not be, with its header read. */
interface Wanted extends Pick<BackupReading, 'source' | 'confirm'> {
  readonly settings: Settings
  readonly header: BackupHeader
  readonly overwrite: boolean
  /** Of the gateway afterwards. */
  readonly secrets: Secrets
  /** Runs when the rows are there, before their books are checked: without the secrets they are of no use. */
  readonly keepSecrets: () => void
}

const silent = { info: () => {}, warn: () => {} }

/**
 * Replaces everything by a backup that was read to its last byte and whose author is known, or changes nothing; then
 * checks the books of what it wrote. No gateway may run.
 */
export async function restoreBackup(options: RestoreOptions): Promise<Restored> {
  const { env, file, overwrite, secretsTo, logKeys: given = [], unverified = false } = options
  const settings = offlineSettings(env)
  const held = settings.DATABASE_URL === null ? secretSettings(settings.SVC_DATA_DIR) : {}
  let reading: BackupReading | null = null
  try {
    const backup = await openBackup(file)
    if (backup === undefined) throw new OfflineError(`The file ${file} does not exist.`)
    const author = authorOf(backup.seal, {
      given,
      own: logKeysOf(settings.SVC_LOG_KEY ?? held.SVC_LOG_KEY),
      unverified,
    })
    reading = backup.read()
    const { source, confirm } = reading
    const header = readHeader(await source.line())
    if (secretsTo !== null) checkPlace(resolve(secretsTo), overwrite)
    const secrets = secretsAfter(settings, held, header, backup.seal)
    const keepSecrets = () => {
      if (secretsTo !== null) writeSecrets(resolve(secretsTo), header)
    }
    const wanted = { settings, header, source, confirm, overwrite, secrets, keepSecrets }
    const restored = await (settings.DATABASE_URL === null
      ? restoreFolder(wanted)
      : restoreInto(settings.DATABASE_URL, wanted))
    return { createdAt: header.created_at, otherSecrets: otherSecrets(settings, header), author, ...restored }
  } catch (error) {
    throw failure(error)
  } finally {
    reading?.close()
  }
}

function failure(error: unknown): unknown {
  const damage = damageOf(error)
  return damage instanceof BackupError ? new OfflineError(damage.message) : databaseFailure(damage)
}

function otherSecrets(settings: Settings, { secrets }: BackupHeader): readonly string[] {
  const values = settings as unknown as Readonly<Record<string, string | null>>
  return Object.entries(secrets).flatMap(([name, kept]) => {
    const here = values[name]
    return here == null || listOf(here).some((one) => listOf(kept).includes(one)) ? [] : [name]
  })
}

type Filled = Pick<Restored, 'rows' | 'dataDir' | 'books'>

/** A backup that was made without the log key needs it from here: another one could not lead its log on. */
function secretsAfter(settings: Settings, held: Secrets, header: BackupHeader, seal: Seal | null): Secrets {
  const own: Secrets = settings.SVC_LOG_KEY === null ? {} : { SVC_LOG_KEY: settings.SVC_LOG_KEY }
  const secrets = { ...held, ...own, ...header.secrets }
  const keys = logKeysOf(secrets.SVC_LOG_KEY).map(({ publicKey }) => publicKey)
  const signers = seal?.keys.map(({ publicKey }) => toBase64url(publicKey)) ?? []
  if (signers.length > 0 && !signers.some((key) => keys.includes(key))) {
    throw new OfflineError(
      'The backup was made without the log key, which is not known here. Set SVC_LOG_KEY to the log key of the gateway that made it.',
    )
  }
  return secrets
}

async function restoreInto(url: string, { header, source, secrets, ...options }: Wanted): Promise<Filled> {
  const seen = await logBefore(url)
  const rows = await restoreDatabase(url, header, source, options)
  options.keepSecrets()
  return { rows, dataDir: null, books: await checkRestored(url, logKeysOf(secrets.SVC_LOG_KEY), seen) }
}

function checkFolder(dataDir: string, { overwrite, secrets }: Wanted): void {
  if (existsSync(join(dataDir, 'secrets.json')) && !overwrite) {
    throw new OfflineError(`${dataDir} already is a gateway's data folder. --overwrite replaces everything in it.`)
  }
  const absent = neededSecretSettings.filter((name) => secrets[name] === undefined)
  if (absent.length > 0) {
    throw new OfflineError(`The backup does not contain ${absent.join(', ')}. Restore it with DATABASE_URL instead.`)
  }
}

async function restoreFolder(wanted: Wanted): Promise<Filled> {
  const { settings, header, source, secrets } = wanted
  const dataDir = resolve(settings.SVC_DATA_DIR)
  checkFolder(dataDir, wanted)
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const embedded = await startEmbedded({ dataDir, log: silent })
  try {
    const rows = await restoreDatabase(embedded.url, header, source, wanted)
    replaceDataFolder(dataDir, secrets, header.credentials as Credentials | null)
    wanted.keepSecrets()
    const books = await checkRestored(embedded.url, logKeysOf(secrets.SVC_LOG_KEY), logSeenBy(dataDir))
    return { rows, dataDir, books }
  } finally {
    await embedded.stop()
  }
}

function checkPlace(file: string, overwrite: boolean): void {
  if (existsSync(file) && !overwrite) throw new OfflineError(`${file} exists already. --overwrite replaces it.`)
  if (!existsSync(dirname(file))) throw new OfflineError(`The folder ${dirname(file)} does not exist.`)
}

/** For systemd's `EnvironmentFile=`, a container's `--env-file` or a shell. */
function writeSecrets(file: string, { secrets }: BackupHeader): void {
  const text = Object.entries(secrets).map(([name, value]) => `${name}=${value}\n`)
  const beside = `${file}.${process.pid}`
  writeFileSync(beside, text.join(''), { mode: 0o600, flag: 'wx' })
  renameSync(beside, file)
}
