import { createHmac, randomBytes } from 'node:crypto'
import {
  accessSync,
  chmodSync,
  constants,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { folderRules } from './platform/platforms.ts'
import { syncFolder, writeBeside } from './private-files.ts'

/** Made once per data folder; each is 32 random bytes in base64url. */
export interface DataFolderSecrets {
  readonly tokenPepper: string
  readonly secretsKey: string
  readonly auditKey: string
  /** Seed of the Ed25519 key by which agents know the gateway. */
  readonly routerKey: string
  /** Seed of the Ed25519 key that signs webhooks. */
  readonly webhookKey: string
  /** Seed of the Ed25519 key that signs the public log. */
  readonly logKey: string
}

/** `credentials.json` in the form that the command line reads (§25). */
export interface Credentials {
  readonly base_url: string
  readonly admin_token: string
  readonly operator_token: string
  readonly viewer_token: string
  readonly customer_id: string
  readonly customer_token: string
  readonly gateway_key: string
}

/** Where the first start's credentials are written. */
export interface CredentialsPlace {
  readonly credentialsFile: string
  /** Null before the first start has written them. */
  readCredentials(): Credentials | null
  writeCredentials(credentials: Credentials): void
}

export interface DataFolder extends CredentialsPlace {
  /** Absolute. */
  readonly path: string
  readonly secrets: DataFolderSecrets
}

/** The text names the file that is at fault, but not its content. */
export class DataFolderError extends Error {
  override readonly name = 'DataFolderError'
}

const firstSecrets = { tokenPepper: 'token_pepper', secretsKey: 'secrets_key', auditKey: 'audit_key' } as const
/** Folders of earlier versions do not have these secrets. */
const laterSecrets = { routerKey: 'router_key', webhookKey: 'webhook_key', logKey: 'log_key' } as const
const secretNames = { ...firstSecrets, ...laterSecrets } as const
const credentialNames = [
  'base_url',
  'admin_token',
  'operator_token',
  'viewer_token',
  'customer_id',
  'customer_token',
  'gateway_key',
] as const

function newSecret(): string {
  return randomBytes(32).toString('base64url')
}

/** Reads the texts of `names` from the file. null if the file does not exist. */
function readTexts(file: string, names: readonly string[]): Readonly<Record<string, string>> | null {
  let content: string
  try {
    content = readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ENOENT') return null
    throw new DataFolderError(`${file} cannot be read (${String((error as { code?: unknown }).code)})`)
  }
  let value: unknown
  try {
    value = JSON.parse(content)
  } catch {
    value = null
  }
  const texts = (value ?? {}) as Readonly<Record<string, unknown>>
  const absent = names.filter((name) => typeof texts[name] !== 'string' || texts[name] === '')
  if (absent.length > 0)
    throw new DataFolderError(`${file} is damaged: ${absent.join(', ')} is missing. Restore the file from a backup.`)
  chmodSync(file, 0o600)
  return texts as Readonly<Record<string, string>>
}

const secretsFileOf = (folder: string) => join(folder, 'secrets.json')
const credentialsFileOf = (folder: string) => join(folder, 'credentials.json')

/** The folder's secrets under the names of their settings, as a backup contains them. */
export function secretSettings(dir: string): Readonly<Record<string, string>> {
  const texts = readTexts(secretsFileOf(resolve(dir)), Object.values(firstSecrets)) ?? {}
  const named = Object.entries(texts).map(([name, text]) => [`SVC_${name.toUpperCase()}`, text] as const)
  return Object.fromEntries(named.filter(([, text]) => typeof text === 'string'))
}

/** Which settings a folder cannot do without. */
export const neededSecretSettings: readonly string[] = Object.values(firstSecrets).map(
  (name) => `SVC_${name.toUpperCase()}`,
)

/** Replaces the folder's secrets and credentials by restored ones. */
export function replaceDataFolder(
  dir: string,
  secrets: Readonly<Record<string, string>>,
  credentials: Credentials | null,
): void {
  const folder = resolve(dir)
  const texts = Object.entries(secrets).map(([name, text]) => [name.replace(/^SVC_/, '').toLowerCase(), text])
  renameSync(writeBeside(secretsFileOf(folder), Object.fromEntries(texts)), secretsFileOf(folder))
  if (credentials === null) rmSync(credentialsFileOf(folder), { force: true })
  else renameSync(writeBeside(credentialsFileOf(folder), credentials), credentialsFileOf(folder))
  syncFolder(folder)
}

/** null: there are none. */
export function readCredentials(dir: string): Credentials | null {
  return readTexts(credentialsFileOf(resolve(dir)), credentialNames) as Credentials | null
}

export function writeCredentials(dir: string, credentials: Credentials): void {
  const folder = resolve(dir)
  renameSync(writeBeside(credentialsFileOf(folder), credentials), credentialsFileOf(folder))
  syncFolder(folder)
}

/** Never replaces an existing file, so that two first starts at once get the secrets of one file. */
function makeSecrets(file: string): void {
  const made = Object.fromEntries(Object.values(secretNames).map((name) => [name, newSecret()]))
  const beside = writeBeside(file, made)
  try {
    linkSync(beside, file)
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'EEXIST') throw error
  } finally {
    rmSync(beside)
  }
}

const derivedFrom = (secretsKey: string, name: string) =>
  createHmac('sha256', secretsKey).update(name).digest('base64url')

/** Whether the log key can be computed from the folder's other secrets (`addLaterSecrets`). */
export const isLogKeyDerived = (secretsKeys: readonly string[], logKeys: readonly string[]): boolean =>
  secretsKeys.some((key) => logKeys.includes(derivedFrom(key, laterSecrets.logKey)))

/**
 * Adds secrets that an earlier version did not make. They are derived, not random: two starts at the same time write
 * the same values, so neither continues with a key that the file does not have.
 */
function addLaterSecrets(folder: string, file: string, texts: Readonly<Record<string, string>>) {
  const absent = Object.values(laterSecrets).filter((name) => texts[name] === undefined)
  if (absent.length === 0) return texts
  const derived = (name: string) => [name, derivedFrom(texts[firstSecrets.secretsKey] ?? '', name)]
  const all = { ...texts, ...Object.fromEntries(absent.map(derived)) }
  renameSync(writeBeside(file, all), file)
  syncFolder(folder)
  return all
}

function readSecrets(folder: string): DataFolderSecrets {
  const file = secretsFileOf(folder)
  const names = Object.values(firstSecrets)
  let texts = readTexts(file, names)
  if (texts === null) {
    makeSecrets(file)
    syncFolder(folder)
    texts = readTexts(file, names)
  }
  const all = addLaterSecrets(folder, file, texts ?? {})
  const value = (name: string) => all[name] ?? ''
  return {
    tokenPepper: value(secretNames.tokenPepper),
    secretsKey: value(secretNames.secretsKey),
    auditKey: value(secretNames.auditKey),
    routerKey: value(secretNames.routerKey),
    webhookKey: value(secretNames.webhookKey),
    logKey: value(secretNames.logKey),
  }
}

/** The system's error codes for an unusable folder, in words. */
const folderFaults: Readonly<Record<string, string>> = {
  EEXIST: 'it is a file',
  ENOTDIR: 'a part of its path is a file',
  EACCES: 'this user may not write there',
  EPERM: 'this user may not write there',
  EROFS: 'the file system is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota of this user is used up',
  ENOENT: 'no folder can be created there',
  ELOOP: 'its path leads in a circle',
  ENAMETOOLONG: 'its path is too long',
  ERR_INVALID_ARG_VALUE: 'its name is not valid',
}

/** Creates the folder if needed, closes it to other users and reads its secrets. The first start makes the secrets. */
export const openDataFolder = (dir: string): DataFolder =>
  saying(dir, (path) => ({ ...openFolder(path), path, secrets: readSecrets(path) }))

/** The same folder for credentials alone: the secrets of this gateway come from its environment. */
export const openCredentials = (dir: string): CredentialsPlace => saying(dir, openFolder)

function saying<T>(dir: string, open: (path: string) => T): T {
  try {
    return open(resolve(dir))
  } catch (error) {
    const { code } = error as { readonly code?: unknown }
    if (error instanceof DataFolderError || typeof code !== 'string') throw error
    throw new DataFolderError(
      `The data folder ${JSON.stringify(dir)} cannot be used: ${folderFaults[code] ?? code}. Set SVC_DATA_DIR to a folder that this user can write to.`,
    )
  }
}

function openFolder(path: string): CredentialsPlace {
  mkdirSync(path, { recursive: true, mode: 0o700 })
  accessSync(path, constants.W_OK | constants.X_OK)
  const { uid, gid, mode } = statSync(path)
  // If the gateway runs as root, the database's group may pass through the folder but not list it; see `db/embedded`.
  const groupPasses = uid === 0 && gid !== 0 ? mode & 0o010 : 0
  folderRules.close(path, groupPasses)
  return {
    credentialsFile: credentialsFileOf(path),
    readCredentials: () => readCredentials(path),
    writeCredentials: (credentials) => writeCredentials(path, credentials),
  }
}
