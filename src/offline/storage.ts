import { EmbeddedDatabaseError, reachEmbedded } from '../db/embedded/embedded.ts'
import { DatabaseNewerError } from '../db/migrate.ts'
import { type Environment, readSettings, type Settings } from '../settings/config.ts'

/** The text is for the operator and contains no secret. */
export class OfflineError extends Error {
  override readonly name = 'OfflineError'
}

/** The database of a gateway, whether the gateway runs or not. */
export interface OfflineStorage {
  readonly url: string
  /** null: `DATABASE_URL`. */
  readonly dataDir: string | null
  close(): Promise<void>
}

const silent = { info: () => {}, warn: () => {} }

/**
 * Reads only the settings that a command needs, because a computer that makes backups does not have a gateway's
 * environment.
 */
export function offlineSettings(env: Environment): Settings {
  const { settings, faults } = readSettings(env)
  if (faults.length > 0) throw new OfflineError(`The configuration has faults: ${faults.join('; ')}`)
  return settings
}

export async function openStorage({ DATABASE_URL, SVC_DATA_DIR }: Settings): Promise<OfflineStorage> {
  if (DATABASE_URL !== null) return { url: DATABASE_URL, dataDir: null, close: async () => {} }
  const embedded = await reachEmbedded({ dataDir: SVC_DATA_DIR, log: silent })
  return { url: embedded.url, dataDir: SVC_DATA_DIR, close: embedded.stop }
}

const codeOf = (error: unknown) => (error as { readonly code?: unknown } | null)?.code

/** An error of the driver can name hosts and values, so only its code is shown. */
export function databaseFailure(error: unknown): unknown {
  const code = codeOf(error)
  if (error instanceof DatabaseNewerError) return new OfflineError(error.message)
  if (error instanceof EmbeddedDatabaseError || typeof code !== 'string') return error
  return new OfflineError(`The database cannot be used (${code}).`)
}
