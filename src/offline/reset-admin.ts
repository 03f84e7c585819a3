import { makeRoleToken } from '../actors/accounts/first-start.ts'
import { openDatabase } from '../db/client.ts'
import { deleteRoleTokens } from '../db/queries/accounts/accounts.ts'
import { endSessionsOfRole, revokeAdminsOfRole } from '../db/queries/accounts/operators.ts'
import { readCredentials, secretSettings, writeCredentials } from '../host/data-folder.ts'
import { type Environment, listOf } from '../settings/config.ts'
import { databaseFailure, OfflineError, offlineSettings, openStorage } from './storage.ts'

export interface ResetAdmin {
  readonly adminToken: string
  /** The number of admin tokens in the database that stopped working. */
  readonly ended: number
  /** The file with the new token, or null. */
  readonly credentialsFile: string | null
}

/**
 * A new admin token for the holder of the data folder, or `DATABASE_URL` with the pepper. Those made before end, named
 * ones too, and so do the sessions of admins, except what stands in `SVC_ADMIN_TOKENS`. Gateways that run know it within
 * seconds.
 */
export async function resetAdmin(env: Environment): Promise<ResetAdmin> {
  const settings = offlineSettings(env)
  if (settings.DATABASE_URL === null && settings.SVC_ADMIN_TOKENS.length > 0) {
    throw new OfflineError('This gateway takes its admin tokens from SVC_ADMIN_TOKENS alone. Put a new one there.')
  }
  const storage = await openStorage(settings)
  const pepper =
    settings.SVC_TOKEN_PEPPER ??
    (storage.dataDir === null ? undefined : secretSettings(storage.dataDir).SVC_TOKEN_PEPPER)
  const database = openDatabase({ url: storage.url, connectionsMax: 1 })
  try {
    if (pepper === undefined)
      throw new OfflineError('SVC_TOKEN_PEPPER is required. Set the one that the gateways have.')
    const made = await database.db.transaction(async (tx) => {
      const now = new Date()
      const named = await revokeAdminsOfRole(tx, 'admin', now)
      await endSessionsOfRole(tx, 'admin', now)
      const ended = named + (await deleteRoleTokens(tx, 'admin'))
      const adminToken = await makeRoleToken(tx, listOf(pepper), 'admin')
      return { ended, adminToken }
    })
    return { ...made, credentialsFile: keep(storage.dataDir, made.adminToken) }
  } catch (error) {
    throw databaseFailure(error)
  } finally {
    await database.close()
    await storage.close()
  }
}

/** Keeps the command line of the embedded gateway working. */
function keep(dataDir: string | null, adminToken: string): string | null {
  const held = dataDir === null ? null : readCredentials(dataDir)
  if (dataDir === null || held === null) return null
  writeCredentials(dataDir, { ...held, admin_token: adminToken })
  return `${dataDir}/credentials.json`
}
