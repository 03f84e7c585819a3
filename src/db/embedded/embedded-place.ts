import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { type Account, canEnter, chooseAccount } from './embedded-account.ts'
import { databaseUrlHint, EmbeddedDatabaseError } from './embedded-fault.ts'
import { ownServer } from './own-server.ts'
import { give } from './posix-server.ts'
import type { Place } from './server-system.ts'

/** Used by root only, if the server's account cannot reach the data folder. */
const stateFolder = '/var/lib/penstock'

function readPassword(dataDir: string): string {
  const file = join(dataDir, 'postgres-password')
  if (!existsSync(file)) writeFileSync(file, randomBytes(32).toString('base64url'), { mode: 0o600, flag: 'wx' })
  return readFileSync(file, 'utf8').trim()
}

/** An existing server keeps the user that owns its files. */
function accountFor(
  link: string,
  preferNobody: boolean,
): { readonly account: Account | null; readonly shared: boolean } {
  if (process.getuid?.() !== 0) return { account: null, shared: false }
  if (existsSync(link)) {
    const { uid, gid } = statSync(link)
    if (uid !== 0) return { account: { uid, gid }, shared: uid === 65_534 }
  }
  return chooseAccount(preferNobody)
}

/** Opens the data folder itself to the account, for walking through only. Its files stay 0600 and ours. */
function openFolderTo(dataDir: string, account: Account): boolean {
  if (!canEnter(dirname(dataDir), account)) return false
  if (!canEnter(dataDir, account)) {
    chownSync(dataDir, 0, account.gid)
    chmodSync(dataDir, 0o710)
  }
  return canEnter(dataDir, account)
}

function makeHome(link: string, account: Account | null): void {
  if (account === null || openFolderTo(dirname(link), account)) {
    mkdirSync(link, { mode: 0o700 })
    give(link, account, 0o700)
    return
  }
  mkdirSync(stateFolder, { recursive: true })
  chmodSync(stateFolder, 0o711)
  const home = join(stateFolder, randomBytes(8).toString('hex'))
  mkdirSync(home, { mode: 0o700 })
  give(home, account, 0o700)
  symlinkSync(home, link)
}

/** Finds or makes the folders of the server that belongs to `dataDir`, which must exist. */
export function preparePlace(dataDir: string, preferNobody: boolean): Place {
  const root = realpathSync(dataDir)
  const link = join(root, 'postgres')
  const { account, shared } = accountFor(link, preferNobody)
  if (!existsSync(link)) makeHome(link, account)
  else if (account !== null) openFolderTo(root, account)
  const home = realpathSync(link)
  if (account !== null && !canEnter(home, account)) {
    throw new EmbeddedDatabaseError(
      `The database's user can no longer reach ${home}. Move the data folder back. ${databaseUrlHint}`,
    )
  }
  return {
    account,
    accountShared: shared,
    root,
    home,
    data: join(home, 'data'),
    reach: ownServer.reach(root, home, account),
    logFile: join(root, 'postgres.log'),
    password: readPassword(root),
    copiesFolder: account === null ? root : stateFolder,
  }
}
