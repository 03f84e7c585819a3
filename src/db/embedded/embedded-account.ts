import { spawnSync } from 'node:child_process'
import { realpathSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/** The system user the database runs as: PostgreSQL refuses to run as root. */
export interface Account {
  readonly uid: number
  readonly gid: number
}

const accountName = 'penstock-postgres'
/** `nobody` on every Linux. */
const nobody: Account = { uid: 65_534, gid: 65_534 }

function lookUp(name: string): Account | null {
  const uid = spawnSync('id', ['-u', name], { encoding: 'utf8' })
  const gid = spawnSync('id', ['-g', name], { encoding: 'utf8' })
  if (uid.status !== 0 || gid.status !== 0) return null
  return { uid: Number(uid.stdout), gid: Number(gid.stdout) }
}

function makeAccount(): Account | null {
  const found = lookUp(accountName)
  if (found !== null) return found
  const flags = ['--system', '--user-group', '--no-create-home', '--home-dir', '/nonexistent']
  spawnSync('useradd', [...flags, '--shell', '/usr/sbin/nologin', accountName], { stdio: 'ignore' })
  return lookUp(accountName)
}

export interface AccountChoice {
  readonly account: Account
  /** True for `nobody`, which other programs on the computer may also use. */
  readonly shared: boolean
}

/** Only for root: a system user of its own where one can be made, else `nobody` (§25). */
export function chooseAccount(preferNobody: boolean): AccountChoice {
  const own = preferNobody ? null : makeAccount()
  return own === null ? { account: nobody, shared: true } : { account: own, shared: false }
}

function allows(path: string, account: Account, bit: 1 | 4): boolean {
  const { uid, gid, mode } = statSync(path)
  const shift = uid === account.uid ? 6 : gid === account.gid ? 3 : 0
  return (mode & (bit << shift)) !== 0
}

/** True when the account may walk through every folder above `path`, and through `path` itself. */
export function canEnter(path: string, account: Account): boolean {
  for (let folder = realpathSync(path); ; folder = dirname(folder)) {
    if (!allows(folder, account, 1)) return false
    if (folder === dirname(folder)) return true
  }
}

/** True when the account may read the file and walk to it. */
export function canRead(file: string, account: Account): boolean {
  return allows(file, account, 4) && canEnter(dirname(realpathSync(file)), account)
}
