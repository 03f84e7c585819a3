import { firstStart } from '../actors/accounts/first-start.ts'
import { resealSecrets } from '../actors/accounts/reseal.ts'
import { createSealing } from '../actors/accounts/sealing.ts'
import type { GatewayParts } from '../actors/gateway-handle.ts'
import type { OpenDatabase } from '../db/client.ts'
import { startEmbedded } from '../db/embedded/embedded.ts'
import { migrateDatabase } from '../db/migrate.ts'
import {
  type CredentialsPlace,
  type DataFolder,
  type DataFolderSecrets,
  openCredentials,
  openDataFolder,
} from '../host/data-folder.ts'
import { callableHost } from '../host/own-addresses.ts'
import type { Log } from '../log.ts'
import { type Config, listOf } from '../settings/config.ts'
import type { Cleanup } from './cleanup.ts'
import { databaseFault } from './start-error.ts'

/** Lists of keys, newest first, and whether role tokens stand in the database. */
export type Keys = Pick<
  GatewayParts,
  'peppers' | 'secretsKeys' | 'auditKeys' | 'routerKeys' | 'webhookKeys' | 'logKeys' | 'roleTokensInDatabase'
>

/** Where the gateway keeps its rows and files; its tables are there. */
export interface Storage {
  readonly url: string
  /** null: with `DATABASE_URL`. */
  readonly folder: DataFolder | null
  /** Where the first start's credentials go; null: this gateway makes none. */
  readonly credentials: CredentialsPlace | null
  readonly keys: Keys
}

const given = (secret: string | null, made: string | undefined) => listOf(secret ?? made ?? '')

function keysOf(config: Config, secrets: DataFolderSecrets | undefined): Keys {
  return {
    peppers: given(config.SVC_TOKEN_PEPPER, secrets?.tokenPepper),
    secretsKeys: given(config.SVC_SECRETS_KEY, secrets?.secretsKey),
    auditKeys: given(config.SVC_AUDIT_KEY, secrets?.auditKey),
    routerKeys: given(config.SVC_ROUTER_KEY, secrets?.routerKey),
    webhookKeys: given(config.SVC_WEBHOOK_KEY, secrets?.webhookKey),
    logKeys: given(config.SVC_LOG_KEY, secrets?.logKey),
    // Those of the first start, or of `reset-admin` (§4). Given tokens take the place of the first start's.
    roleTokensInDatabase: secrets === undefined || config.SVC_ADMIN_TOKENS.length === 0,
  }
}

/** Starts the embedded PostgreSQL, unless another one is given, and migrates. */
export async function openStorage(
  config: Config,
  log: Log,
  cleanup: Cleanup,
  connectionsMax?: number,
): Promise<Storage> {
  if (config.DATABASE_URL !== null) {
    await migrateDatabase(config.DATABASE_URL).catch((error: unknown) => {
      throw databaseFault(error)
    })
    const credentials = config.SVC_BOOTSTRAP ? openCredentials(config.SVC_DATA_DIR) : null
    return { url: config.DATABASE_URL, folder: null, credentials, keys: keysOf(config, undefined) }
  }
  const folder = openDataFolder(config.SVC_DATA_DIR)
  const bound = connectionsMax === undefined ? {} : { connectionsMax }
  const embedded = await startEmbedded({ dataDir: folder.path, log, ...bound })
  cleanup.add(() => embedded.stop())
  await migrateDatabase(embedded.url)
  return { url: embedded.url, folder, credentials: folder, keys: keysOf(config, folder.secrets) }
}

/** The first start's tokens, customer and key (§25); false: there were some already. */
async function makeCredentials(
  config: Config,
  place: CredentialsPlace,
  { db }: OpenDatabase,
  { peppers, secretsKeys }: Keys,
): Promise<boolean> {
  const result = await firstStart({
    db,
    peppers,
    sealing: createSealing(secretsKeys),
    deliver: (made) =>
      place.writeCredentials({
        base_url: config.SVC_PUBLIC_URL ?? `http://${callableHost(config.SVC_HOST)}:${config.SVC_PORT}`,
        admin_token: made.adminToken,
        operator_token: made.operatorToken,
        viewer_token: made.viewerToken,
        customer_id: made.customerId,
        customer_token: made.customerToken,
        gateway_key: made.gatewayKey,
      }),
  })
  return result === 'made'
}

/** Once per start, however many processes follow. True: this was the first start, and made the credentials. */
export async function prepareStorage(
  config: Config,
  { credentials, keys }: Storage,
  database: OpenDatabase,
  log: Log,
): Promise<boolean> {
  const made =
    credentials !== null && keys.roleTokensInDatabase
      ? await makeCredentials(config, credentials, database, keys)
      : false
  await resealSecrets(database.db, keys.secretsKeys, log)
  return made
}

/** The command line finds the gateway by the credentials file; the port may be another one than at the first start. */
export function keepBaseUrl(place: CredentialsPlace | null, baseUrl: string): void {
  const kept = place?.readCredentials() ?? null
  if (kept !== null && kept.base_url !== baseUrl) place?.writeCredentials({ ...kept, base_url: baseUrl })
}
