import { firstStart } from './actors/first-start.ts'
import { startGateway } from './actors/gateway.ts'
import { createLog, failureName, type Log } from './actors/log.ts'
import { createSealing } from './actors/sealing.ts'
import { product } from './brand.ts'
import { type Config, readConfig } from './config.ts'
import { type DataFolder, DataFolderError, openDataFolder } from './data-folder.ts'
import { openDatabase } from './db/client.ts'
import { type EmbeddedDatabase, EmbeddedDatabaseError, startEmbedded } from './db/embedded.ts'
import { migrateDatabase } from './db/migrate.ts'
import { createApp } from './http/app.ts'
import { welcome } from './welcome.ts'

/** A fault of the set-up that the operator can mend: its text is all they need. */
export class StartError extends Error {
  override readonly name = 'StartError'
}

export interface Server {
  readonly url: string
  readonly port: number
  /** Ordered: no new work, in-flight ends within the grace, actors, database. */
  stop(): Promise<void>
}

interface Storage {
  readonly url: string
  readonly folder: DataFolder | null
  readonly embedded: EmbeddedDatabase | null
}

async function openStorage(config: Config, log: Log): Promise<Storage> {
  if (config.DATABASE_URL !== null) return { url: config.DATABASE_URL, folder: null, embedded: null }
  const folder = openDataFolder(config.SVC_DATA_DIR)
  const embedded = await startEmbedded({ dataDir: folder.path, log })
  return { url: embedded.url, folder, embedded }
}

const listOf = (secret: string | null, made: string | undefined) =>
  secret === null ? [made ?? ''] : secret.split(',').map((part) => part.trim())

/** Starts everything, in order; what was started is stopped again when a later step fails. `quiet`: prints no welcome. */
export async function start(
  env: Readonly<Record<string, string | undefined>> = process.env,
  { quiet = false }: { readonly quiet?: boolean } = {},
): Promise<Server> {
  const read = readConfig(env)
  if ('faults' in read)
    throw new StartError(`The configuration has faults:\n${read.faults.map((fault) => `  - ${fault}`).join('\n')}`)
  const { config } = read
  const log = createLog(config.SVC_LOG_LEVEL, (text) => process.stderr.write(text))
  const undo: (() => Promise<unknown> | unknown)[] = [() => log.flush()]
  const stop = async () => {
    for (const step of undo.splice(0).reverse()) {
      await Promise.resolve(step()).catch((error: unknown) => log.error('stop', { failure: failureName(error) }))
    }
  }
  try {
    return await startAll(config, log, undo, stop, quiet)
  } catch (error) {
    await stop()
    throw error
  }
}

async function startAll(
  config: Config,
  log: Log,
  undo: (() => Promise<unknown> | unknown)[],
  stopAll: () => Promise<void>,
  quiet: boolean,
): Promise<Server> {
  const storage = await openStorage(config, log)
  undo.push(() => storage.embedded?.stop())
  await migrateDatabase(storage.url)
  const database = openDatabase({ url: storage.url, connectionsMax: config.SVC_DATABASE_CONNECTIONS })
  undo.push(() => database.close())
  const made = storage.folder?.secrets
  const peppers = listOf(config.SVC_TOKEN_PEPPER, made?.tokenPepper)
  const secretsKeys = listOf(config.SVC_SECRETS_KEY, made?.secretsKey)
  const auditKeys = listOf(config.SVC_AUDIT_KEY, made?.auditKey)
  const roleTokensInDatabase = storage.folder !== null && config.SVC_ADMIN_TOKENS.length === 0
  const first =
    storage.folder !== null && roleTokensInDatabase
      ? await firstStart({
          db: database.db,
          peppers,
          sealing: createSealing(secretsKeys),
          deliver: (made) =>
            storage.folder?.writeCredentials({
              base_url: config.SVC_PUBLIC_URL ?? `http://${config.SVC_HOST}:${config.SVC_PORT}`,
              admin_token: made.adminToken,
              operator_token: made.operatorToken,
              viewer_token: made.viewerToken,
              customer_id: made.customerId,
              customer_token: made.customerToken,
              gateway_key: made.gatewayKey,
            }),
        })
      : 'kept'
  const gateway = await startGateway({ config, log, database, peppers, secretsKeys, auditKeys, roleTokensInDatabase })
  undo.push(() => gateway.stop())
  const app = createApp(gateway)
  app.listen({ hostname: config.SVC_HOST, port: config.SVC_PORT })
  const { server } = app
  if (server === null) throw new StartError('The HTTP server did not start')
  const port = server.port ?? config.SVC_PORT
  undo.push(() => server.stop(true))
  await gateway.listening(port)
  log.info('listening', { host: config.SVC_HOST, port })
  if (!quiet) process.stdout.write(welcome({ gateway, folder: storage.folder, first: first === 'made' }))
  let stopping: Promise<void> | null = null
  const stopOrderly = async () => {
    gateway.beginStop()
    log.info('stopping')
    const drained = server.stop()
    await Promise.race([drained, Bun.sleep(config.SVC_SHUTDOWN_GRACE_MS)])
    await stopAll()
  }
  return {
    url: gateway.baseUrl(),
    port,
    stop: () => {
      stopping ??= stopOrderly()
      return stopping
    },
  }
}

const expected = (error: unknown): error is Error =>
  error instanceof StartError || error instanceof DataFolderError || error instanceof EmbeddedDatabaseError

/** Runs until a signal ends it; a second signal ends it at once. */
export async function run(): Promise<void> {
  let server: Server | null = null
  let signals = 0
  const onSignal = async () => {
    signals++
    if (signals > 1) process.exit(1)
    await server?.stop()
    process.exit(0)
  }
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  try {
    server = await start()
  } catch (error) {
    const text = expected(error) ? error.message : `${product} could not start (${failureName(error)})`
    process.stderr.write(`${text}\n`)
    process.exit(1)
  }
}

if (import.meta.main) await run()
