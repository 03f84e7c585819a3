import type { Database } from '../../db/client.ts'
import {
  getCustomer,
  insertCustomer,
  insertKey,
  insertRoleTokens,
  lockFirstStart,
  readRoleTokens,
  updateCustomer,
} from '../../db/queries/accounts/accounts.ts'
import { type CustomerId, newId } from '../../ids.ts'
import { displayPrefix, roleTokenMark } from '../../secrets.ts'
import type { Role } from './access.ts'
import { mintToken, mintWebhookSecret } from './minting.ts'
import type { Sealing } from './sealing.ts'

/** The raw credentials that the first start makes. They go into `credentials.json` and nowhere else (§25). */
export interface FirstCredentials {
  readonly adminToken: string
  readonly operatorToken: string
  readonly viewerToken: string
  readonly customerId: CustomerId
  readonly customerToken: string
  readonly gatewayKey: string
}

export interface FirstStartOptions {
  readonly db: Database
  /** Newest first. */
  readonly peppers: readonly string[]
  readonly sealing: Sealing
  /** Writes the file to the disk. If it throws, the first start has made nothing. */
  readonly deliver: (credentials: FirstCredentials) => void | Promise<void>
}

/** The customer that owns the nodes which the gateway discovers by itself. */
export const localCustomerId: CustomerId = 'local'

/**
 * With the embedded database and no role token in it: makes one of each role, the customer `local` and a gateway key.
 * `kept`: there were role tokens already.
 *
 * The file is written before the commit. Ended between the two, the database is as empty as before, and the next start
 * makes new credentials and replaces the file; ended after the commit, the file is there. The other order would leave
 * a database whose tokens are lost.
 */
export async function firstStart(options: FirstStartOptions): Promise<'made' | 'kept'> {
  const { db, peppers, deliver } = options
  return db.transaction(async (tx) => {
    await lockFirstStart(tx)
    if ((await readRoleTokens(tx)).length > 0) return 'kept'
    const admin = await makeRoleToken(tx, peppers, 'admin')
    const operator = await makeRoleToken(tx, peppers, 'operator')
    const viewer = await makeRoleToken(tx, peppers, 'viewer')
    const customerToken = await makeLocalCustomer(tx, options)
    const key = mintToken('gateway', peppers)
    await insertKey(tx, {
      keyId: newId('key'),
      customerId: localCustomerId,
      keyHash: key.hash,
      displayPrefix: displayPrefix(key.token),
      name: 'first key',
      nodeScope: null,
      modelPolicy: null,
      expiresAt: null,
    })
    await deliver({
      adminToken: admin,
      operatorToken: operator,
      viewerToken: viewer,
      customerId: localCustomerId,
      customerToken,
      gatewayKey: key.token,
    })
    return 'made'
  })
}

/** Makes a role token and returns it raw. `reset-admin` uses it when every admin token is lost. */
export async function makeRoleToken(db: Database, peppers: readonly string[], role: Role): Promise<string> {
  const { token, hash } = mintToken(role, peppers)
  await insertRoleTokens(db, [{ tokenHash: hash, role, mark: roleTokenMark(peppers[0] ?? '', hash, role) }])
  return token
}

async function makeLocalCustomer(tx: Database, { peppers, sealing }: FirstStartOptions): Promise<string> {
  const { token, hash } = mintToken('customer', peppers)
  // The customer may already exist if only the role tokens were removed from the database.
  if ((await getCustomer(tx, localCustomerId)) !== null) {
    await updateCustomer(tx, localCustomerId, { tokenHash: hash })
    return token
  }
  await insertCustomer(tx, {
    customerId: localCustomerId,
    displayName: 'local',
    gatewayPolicy: null,
    tokenHash: hash,
    webhookSecretSealed: sealing.seal('webhook_secret', mintWebhookSecret()),
  })
  return token
}
