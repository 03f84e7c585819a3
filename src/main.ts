import type { AnyElysia } from 'elysia'
import { firstStart } from './actors/accounts/first-start.ts'
import { resealSecrets } from './actors/accounts/reseal.ts'
import { createSealing } from './actors/accounts/sealing.ts'
import { startGateway } from './actors/gateway.ts'
import type { GatewayParts, RunningGateway } from './actors/gateway-handle.ts'
import { SettlementPackagesError } from './actors/money/chain.ts'
import { product } from './brand.ts'
import { type OpenDatabase, openDatabase } from './db/client.ts'
import { type EmbeddedDatabase, EmbeddedDatabaseError, startEmbedded } from './db/embedded/embedded.ts'
import { migrateDatabase } from './db/migrate.ts'
import { type DataFolder, DataFolderError, openDataFolder } from './host/data-folder.ts'
import { descriptors } from './host/descriptors.ts'
import { callableHost, isWildcard, ownAddresses } from './host/own-addresses.ts'
import { welcome } from './host/welcome.ts'
import { createApp } from './http/app.ts'
import { watchDescriptors } from './listener/descriptor-watch.ts'
import { createLog, failureName, type Log } from './log.ts'
import { type Config, listOf, readConfig } from './settings/config.ts'
import { unknownSettings } from './settings/unknown.ts'

/** The last events of streams may take so long to leave, ms. */
const lastBytesMs = 500
/** Ctrl-C reaches npm, the launcher and this process, and each passes it on: what comes within this is one signal, ms. */
const sameSignalMs = 1_000

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

const given = (secret: string | null, made: string | undefined) => listOf(secret ?? made ?? '')

/** What a port that cannot be taken is called in words, and which setting mends it. */
const listenFaults: Readonly<Record<string, (config: Config) => string>> = {
  EADDRINUSE: ({ SVC_PORT }) => `Port ${SVC_PORT} is in use. Stop what listens there, or set SVC_PORT to another port.`,
  EACCES: ({ SVC_PORT }) => `Port ${SVC_PORT} may not be taken by this user. Set SVC_PORT to one above 1023.`,
  EADDRNOTAVAIL: () => 'SVC_HOST is no address of this machine.',
}

function listenError(error: unknown, config: Config): unknown {
  const fault = listenFaults[failureName(error)]
  return fault === undefined ? error : new StartError(fault(config))
}

/** Before anything is made: a first start that fails later would have made credentials that nobody was shown. */
function checkPort(config: Config): void {
  if (!config.embedded || config.SVC_PORT === 0) return
  const address = { hostname: config.SVC_HOST, port: config.SVC_PORT, exclusive: true }
  try {
    Bun.listen({ ...address, socket: { data() {} } }).stop(true)
  } catch (error) {
    throw listenError(error, config)
  }
}

function listen(app: AnyElysia, config: Config): Bun.Server<unknown> {
  try {
    // Processes on one PostgreSQL may share a port (§26); two with databases of their own must not.
    app.listen({ hostname: config.SVC_HOST, port: config.SVC_PORT, reusePort: !config.embedded })
  } catch (error) {
    throw listenError(error, config)
  }
  if (app.server === null) throw new StartError('The HTTP server did not start')
  return app.server
}

/** Resolves when every request that was taken has its answer, or after `boundMs`. Open WebSockets do not count (seen). */
async function answered(server: Bun.Server<unknown>, boundMs: number): Promise<void> {
  const until = performance.now() + boundMs
  while (server.pendingRequests > 0 && performance.now() < until) await Bun.sleep(10)
}

/** The command line finds the gateway by the credentials file; the port may be another one than at the first start. */
function keepBaseUrl(folder: DataFolder | null, baseUrl: string): void {
  const kept = folder?.readCredentials() ?? null
  if (kept !== null && kept.base_url !== baseUrl) folder?.writeCredentials({ ...kept, base_url: baseUrl })
}

export interface StartOptions extends Pick<GatewayParts, 'world'> {
  /** Prints no welcome. */
  readonly quiet?: boolean
}

/** Starts everything, in order; what was started is stopped again when a later step fails. */
export async function start(
  env: Readonly<Record<string, string | undefined>> = process.env,
  options: StartOptions = {},
): Promise<Server> {
  const read = readConfig(env)
  if ('faults' in read)
    throw new StartError(`The configuration has faults:\n${read.faults.map((fault) => `  - ${fault}`).join('\n')}`)
  const { config } = read
  const log = createLog(config.SVC_LOG_LEVEL, (text) => process.stderr.write(text))
  for (const { name, nearest } of unknownSettings(env)) log.warn('unknown_setting', { name, nearest })
  const undo: (() => Promise<unknown> | unknown)[] = [() => log.flush()]
  const stop = async () => {
    for (const step of undo.splice(0).reverse()) {
      await Promise.resolve(step()).catch((error: unknown) => log.error('stop', { failure: failureName(error) }))
    }
  }
  try {
    return await startAll(config, log, undo, stop, options)
  } catch (error) {
    await stop()
    throw error
  }
}

/** The first start's tokens, customer and key (§25); false: there were some already. */
async function makeCredentials(
  config: Config,
  folder: DataFolder,
  { db }: OpenDatabase,
  keys: { readonly peppers: readonly string[]; readonly secretsKeys: readonly string[] },
): Promise<boolean> {
  const result = await firstStart({
    db,
    peppers: keys.peppers,
    sealing: createSealing(keys.secretsKeys),
    deliver: (made) =>
      folder.writeCredentials({
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

/** Bound to a wildcard it is reached by each address of this computer; one of them is `baseUrl`. */
function otherUrls({ config, baseUrl }: RunningGateway): readonly string[] {
  if (!isWildcard(config.SVC_HOST) || config.SVC_PUBLIC_URL !== null) return []
  const { port, hostname } = new URL(baseUrl())
  return ownAddresses()
    .filter((address) => address !== hostname)
    .map((address) => `http://${address}:${port}`)
}

function greeting(config: Config, gateway: RunningGateway, folder: DataFolder | null, newKey: boolean): string {
  const ready = gateway.router.table().routes.filter((route) => route.ready)
  return welcome({
    baseUrl: gateway.baseUrl(),
    host: config.SVC_HOST,
    otherUrls: otherUrls(gateway),
    models: [...new Set(ready.map(({ modelId }) => modelId))],
    credentialsFile: folder?.credentialsFile ?? null,
    credentialsGone: folder !== null && config.SVC_ADMIN_TOKENS.length === 0 && folder.readCredentials() === null,
    newKey: newKey ? (folder?.readCredentials()?.gateway_key ?? null) : null,
  })
}

async function startAll(
  config: Config,
  log: Log,
  undo: (() => Promise<unknown> | unknown)[],
  stopAll: () => Promise<void>,
  { quiet = false, world }: StartOptions,
): Promise<Server> {
  checkPort(config)
  const storage = await openStorage(config, log)
  undo.push(() => storage.embedded?.stop())
  await migrateDatabase(storage.url)
  const database = openDatabase({ url: storage.url, connectionsMax: config.SVC_DATABASE_CONNECTIONS })
  undo.push(() => database.close())
  const secrets = storage.folder?.secrets
  const peppers = given(config.SVC_TOKEN_PEPPER, secrets?.tokenPepper)
  const secretsKeys = given(config.SVC_SECRETS_KEY, secrets?.secretsKey)
  const auditKeys = given(config.SVC_AUDIT_KEY, secrets?.auditKey)
  const routerKeys = given(config.SVC_ROUTER_KEY, secrets?.routerKey)
  const webhookKeys = given(config.SVC_WEBHOOK_KEY, secrets?.webhookKey)
  // Those of the first start, or of `reset-admin` (§4). Given tokens take the place of the first start's.
  const roleTokensInDatabase = storage.folder === null || config.SVC_ADMIN_TOKENS.length === 0
  const made =
    storage.folder !== null && roleTokensInDatabase
      ? await makeCredentials(config, storage.folder, database, { peppers, secretsKeys })
      : false
  await resealSecrets(database.db, secretsKeys, log)
  const gateway = await startGateway({
    config,
    log,
    database,
    peppers,
    secretsKeys,
    auditKeys,
    routerKeys,
    webhookKeys,
    roleTokensInDatabase,
    ...(world === undefined ? {} : { world }),
  })
  undo.push(() => gateway.stop())
  const server = listen(createApp(gateway), config)
  const port = server.port ?? config.SVC_PORT
  undo.push(() => server.stop(true))
  undo.push(watchDescriptors(descriptors, { server: () => server, log }))
  await gateway.listening(port)
  keepBaseUrl(storage.folder, gateway.baseUrl())
  log.info('listening', { host: config.SVC_HOST, port })
  if (!quiet) process.stdout.write(greeting(config, gateway, storage.folder, made))
  let stopping: Promise<void> | null = null
  const stopOrderly = async () => {
    gateway.beginStop()
    log.info('stopping')
    await gateway.handOver()
    const drained = server.stop()
    await answered(server, config.SVC_SHUTDOWN_GRACE_MS)
    await gateway.endCalls()
    gateway.endTunnels()
    await Promise.race([drained, Bun.sleep(lastBytesMs)])
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
  [StartError, DataFolderError, EmbeddedDatabaseError, SettlementPackagesError].some((kind) => error instanceof kind)

/** Runs until a signal ends it, also while it still starts; a second signal ends it at once. */
export async function run(): Promise<void> {
  const starting = start()
  let signalledMs: number | null = null
  const onSignal = async () => {
    const nowMs = performance.now()
    if (signalledMs !== null) {
      if (nowMs - signalledMs > sameSignalMs) process.exit(1)
      return
    }
    signalledMs = nowMs
    const server = await starting.catch(() => null)
    await server?.stop()
    process.exit(server === null ? 1 : 0)
  }
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, onSignal)
  try {
    await starting
  } catch (error) {
    const text = expected(error) ? error.message : `${product} could not start (${failureName(error)})`
    process.stderr.write(`${text}\n`)
    process.exit(1)
  }
}

if (import.meta.main) await run()
