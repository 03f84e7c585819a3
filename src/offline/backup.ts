import { createHash, randomBytes } from 'node:crypto'
import { linkSync, renameSync, rmSync, statSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { createGzip, type Gzip } from 'node:zlib'
import { version } from '../../package.json'
import { firstOrigin, signersOf } from '../actors/log/log-names.ts'
import { product } from '../brand.ts'
import { type Dumped, dumpDatabase, type Rows } from '../db/backup/dump.ts'
import { isLogKeyDerived, neededSecretSettings, readCredentials, secretSettings } from '../host/data-folder.ts'
import { syncFolder } from '../host/private-files.ts'
import { noteKeyText } from '../protocol/log/note.ts'
import type { SigningKey } from '../protocol/signing/ed25519.ts'
import { type Environment, listOf, type Settings } from '../settings/config.ts'
import { settings as definitions } from '../settings/table.ts'
import { sealOf } from './backup-seal.ts'
import { logKeysOf } from './log-keys.ts'
import { databaseFailure, OfflineError, offlineSettings, openStorage } from './storage.ts'

export interface BackupOptions {
  readonly env: Environment
  /** A file, or an existing folder in which the backup gets the time as its name. */
  readonly target: string
  readonly overwrite: boolean
  /** Leaves the log's key out, so that a reader of the file cannot sign another one. */
  readonly withoutLogKey?: boolean
}

export interface Backup {
  readonly file: string
  readonly bytes: number
  readonly rows: Rows
  /** Keys that signed it, as `/v1/public/log/keys` names them; none: SVC_LOG_KEY is not known here. */
  readonly signedBy: readonly string[]
  /** Settings that the backup needs and that this command does not know. */
  readonly absentSecrets: readonly string[]
}

const secretNames = Object.entries(definitions)
  .filter(([name, { kind }]) => kind === 'secret' && name.startsWith('SVC_'))
  .map(([name]) => name)

type Secrets = Readonly<Record<string, string>>

/** The secrets of the gateway with this environment. A setting has precedence over the folder's own secret. */
function secretsOf(settings: Settings, dataDir: string | null): Secrets {
  const values = settings as unknown as Readonly<Record<string, string | null>>
  const given = secretNames.flatMap((name) => (values[name] == null ? [] : [[name, values[name]] as const]))
  return { ...(dataDir === null ? {} : secretSettings(dataDir)), ...Object.fromEntries(given) }
}

/** Refuses where the key would be in the file all the same. */
function withoutLogKey({ SVC_LOG_KEY: logKey, ...others }: Secrets): Secrets {
  if (logKey === undefined) {
    throw new OfflineError(
      'SVC_LOG_KEY is not known here, so the backup could not be signed. Set it, or leave --without-log-key out.',
    )
  }
  if (isLogKeyDerived(listOf(others.SVC_SECRETS_KEY ?? ''), listOf(logKey))) {
    throw new OfflineError(
      'An earlier version derived the log key from the secrets key, which is in the backup. Rotate the log key first: put a new one in front of it ("log_key": "new,old"), start the gateway once, and remove the old one when every verifier knows the new one.',
    )
  }
  return others
}

const signersFor = ({ logOrigin }: Dumped, keys: readonly SigningKey[]) =>
  signersOf(logOrigin ?? firstOrigin(keys), keys)

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
}

function fileOf(target: string): string {
  const path = resolve(target)
  if (!isFolder(path)) return path
  return join(path, `${product}-${new Date().toISOString().replaceAll(/[-:]|\.\d+/g, '')}.sql.gz`)
}

/**
 * Writes everything that a gateway needs to go on elsewhere into one file of mode 0600: all tables as they are at one
 * moment, and the secrets that make them readable. The gateway may run. The file appears whole or not at all.
 */
export async function writeBackup(options: BackupOptions): Promise<Backup> {
  const { env, target, overwrite } = options
  const settings = offlineSettings(env)
  const file = fileOf(target)
  if (!overwrite && statSync(file, { throwIfNoEntry: false }) !== undefined) throw isThere(file)
  const storage = await openStorage(settings)
  const partial = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`
  try {
    const known = secretsOf(settings, storage.dataDir)
    const keys = logKeysOf(known.SVC_LOG_KEY)
    const secrets = options.withoutLogKey === true ? withoutLogKey(known) : known
    const credentials = storage.dataDir === null ? null : readCredentials(storage.dataDir)
    const about = { program_version: version, secrets, credentials: credentials === null ? null : { ...credentials } }
    const dumped = await writeFile(partial, keys, (write) => dumpDatabase(storage.url, about, write))
    give(partial, file, overwrite)
    const absentSecrets = neededSecretSettings.filter((name) => secrets[name] === undefined)
    const signedBy = signersFor(dumped, keys).map(({ key }) => noteKeyText(key))
    return { file, bytes: statSync(file).size, rows: dumped.rows, signedBy, absentSecrets }
  } catch (error) {
    throw databaseFailure(error)
  } finally {
    rmSync(partial, { force: true })
    await storage.close()
  }
}

const isThere = (file: string) => new OfflineError(`${file} exists already. --overwrite replaces it.`)

function give(partial: string, file: string, overwrite: boolean): void {
  try {
    if (overwrite) renameSync(partial, file)
    else linkSync(partial, file)
  } catch (error) {
    if ((error as { code?: unknown }).code === 'EEXIST') throw isThere(file)
    throw error
  }
  syncFolder(dirname(file))
}

type Write = (chunk: Uint8Array | string) => Promise<void>

async function openFile(file: string): Promise<FileHandle> {
  try {
    return await open(file, 'wx', 0o600)
  } catch (error) {
    throw new OfflineError(
      `The folder ${dirname(file)} is not writable (${String((error as { code?: unknown }).code)}).`,
    )
  }
}

const pieceBytes = 64 * 1024

/** The driver delivers row by row, and the compressor works better with larger pieces. */
function gather(write: (chunk: Buffer) => Promise<void>) {
  let held: Uint8Array[] = []
  let bytes = 0
  const flush = async () => {
    const piece = Buffer.concat(held)
    held = []
    bytes = 0
    if (piece.length > 0) await write(piece)
  }
  const add = async (chunk: Uint8Array | string) => {
    const piece = typeof chunk === 'string' ? Buffer.from(chunk) : chunk
    held.push(piece)
    bytes += piece.length
    if (bytes >= pieceBytes) await flush()
  }
  return { add, flush }
}

/** Compressed and to the disk, with its seal behind it. A slow disk holds the database back, not the memory. */
async function writeFile(
  file: string,
  keys: readonly SigningKey[],
  fill: (write: Write) => Promise<Dumped>,
): Promise<Dumped> {
  const handle = await openFile(file)
  const gzip = createGzip({ level: 6 })
  const written = drainInto(gzip, handle)
  // The error is handled below. Until then a disk error must not end the process.
  written.catch(() => {})
  try {
    const pieces = gather(async (chunk) => {
      if (!gzip.write(chunk)) await Promise.race([new Promise((drained) => gzip.once('drain', drained)), written])
    })
    const result = await fill(pieces.add)
    await pieces.flush()
    gzip.end()
    await handle.writeFile(sealOf(await written, signersFor(result, keys)))
    await handle.sync()
    return result
  } finally {
    gzip.destroy()
    await written.catch(() => {})
    await handle.close()
  }
}

/** Resolves with what was written. */
async function drainInto(gzip: Gzip, handle: FileHandle): Promise<{ readonly bytes: number; readonly sha256: string }> {
  const hash = createHash('sha256')
  let bytes = 0
  for await (const chunk of gzip as AsyncIterable<Uint8Array>) {
    hash.update(chunk)
    bytes += chunk.length
    await handle.writeFile(chunk)
  }
  return { bytes, sha256: hash.digest('hex') }
}
