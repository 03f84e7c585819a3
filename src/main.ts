import { availableParallelism } from 'node:os'
import type { GatewayParts } from './actors/gateway-handle.ts'
import { openDatabase } from './db/client.ts'
import type { Credentials, CredentialsPlace } from './host/data-folder.ts'
import { atLauncherEnd, endWithLauncher } from './host/launcher.ts'
import { announce, localName } from './host/local-name.ts'
import { logMemory } from './host/log-memory.ts'
import { isWildcard, ownAddresses } from './host/own-addresses.ts'
import { childVariable } from './host/port-holder.ts'
import { welcome } from './host/welcome.ts'
import { createLog, type Log } from './log.ts'
import { Cleanup } from './processes/cleanup.ts'
import { checkPorts } from './processes/listening.ts'
import { StartError, startFault } from './processes/start-error.ts'
import { keepBaseUrl, openStorage, prepareStorage } from './processes/storage.ts'
import { Supervisor } from './processes/supervisor.ts'
import { type Config, processesOf, readConfig } from './settings/config.ts'
import { unknownInWords, unknownSettings } from './settings/unknown.ts'

/** Ctrl-C reaches npm, the launcher and this process, and each passes it on: what comes within this is one signal, ms. */
const sameSignalMs = 1_000
/** Connections of one process beyond its pool, and those of the supervisor, of a backup and of an operator. */
const connectionsBeside = 2
const connectionsOfOthers = 10
const embeddedConnectionsMin = 60

export interface Server {
  readonly url: string
  readonly port: number
  /** Where Ollama's interface is; null: it is off, or several processes serve it. */
  readonly ollamaUrl: string | null
  /** The processes that serve: this one, or those that it supervises. */
  readonly pids: readonly number[]
  /** New processes in the place of those that run, one after the other; null: there is only this one. */
  readonly replace: (() => Promise<void>) | null
  /** Ordered: no new work, in-flight ends within the grace, actors, database. */
  stop(): Promise<void>
}

export interface StartOptions extends Pick<GatewayParts, 'world'> {
  /** Prints no welcome text. */
  readonly quiet?: boolean
}

type Environment = Readonly<Record<string, string | undefined>>

/** All that a start is made of. */
interface Start extends StartOptions {
  readonly config: Config
  readonly env: Environment
  readonly log: Log
  readonly cleanup: Cleanup
}

/** Starts everything, in order; what was started is stopped again when a later step fails. */
export async function start(env: Environment = process.env, options: StartOptions = {}): Promise<Server> {
  const read = readConfig(env)
  if ('faults' in read)
    throw new StartError(`The configuration has faults:\n${read.faults.map((fault) => `  - ${fault}`).join('\n')}`)
  const { config } = read
  const log = createLog(config.SVC_LOG_LEVEL, (text) => process.stderr.write(text))
  for (const { name, nearest } of unknownSettings(env)) log.warn('unknown_setting', { name, nearest })
  const cleanup = new Cleanup(log)
  const processes = processesOf(config, availableParallelism())
  try {
    checkPorts(config)
    const all = { ...options, config, env, log, cleanup }
    return await (processes === 1 ? startAlone(all) : startSeveral(all, processes))
  } catch (error) {
    await cleanup.run()
    throw error
  }
}

interface Greeted {
  readonly baseUrl: string
  readonly port: number
  readonly models: readonly string[]
  readonly newKey: boolean
}

/** Bound to a wildcard, the gateway is reached by each address of this computer; one of them is the base URL. */
function otherUrls({ SVC_HOST, SVC_MDNS, SVC_PUBLIC_URL }: Config, { baseUrl, port }: Greeted): readonly string[] {
  const { hostname } = new URL(baseUrl)
  const addresses = isWildcard(SVC_HOST) && SVC_PUBLIC_URL === null ? ownAddresses() : []
  return [...(SVC_MDNS ? [localName] : []), ...addresses.filter((address) => address !== hostname)].map(
    (name) => `http://${name}:${port}`,
  )
}

function credentialsState({ SVC_ADMIN_TOKENS: given }: Config, kept: Credentials | null): 'there' | 'absent' | 'gone' {
  if (kept !== null) return 'there'
  return given.length > 0 ? 'absent' : 'gone'
}

/** Everything serves: the local network may know, and the person who started it is told. */
async function greet(all: Start, place: CredentialsPlace | null, facts: Greeted): Promise<void> {
  const { config, env, log, cleanup, quiet = false } = all
  const { baseUrl, port, models, newKey } = facts
  keepBaseUrl(place, baseUrl)
  if (config.SVC_MDNS)
    cleanup.add(await announce({ host: config.SVC_HOST, port, publicUrl: config.SVC_PUBLIC_URL, log }))
  if (quiet) return
  const kept = place?.readCredentials() ?? null
  const text = welcome({
    baseUrl,
    models,
    notes: unknownInWords(env),
    host: config.SVC_HOST,
    otherUrls: otherUrls(config, facts),
    credentials: place === null ? null : { file: place.credentialsFile, state: credentialsState(config, kept) },
    newKey: newKey ? (kept?.gateway_key ?? null) : null,
  })
  process.stdout.write(text)
}

/**
 * What serves requests is imported once there is a database: it is five sixths of the code, which a supervisor and a start that is
 * refused never need.
 */
const importServing = () => import('./processes/serving.ts')

async function startAlone(all: Start): Promise<Server> {
  const { config, log, cleanup, world } = all
  const storage = await openStorage(config, log, cleanup)
  const database = openDatabase({ url: storage.url, connectionsMax: config.SVC_DATABASE_CONNECTIONS })
  cleanup.add(() => database.close())
  const newKey = await prepareStorage(config, storage, database, log)
  const memory = storage.folder === null ? null : logMemory(storage.folder.path)
  const parts = { config, log, database, ...storage.keys, logMemory: memory, ...(world === undefined ? {} : { world }) }
  const { serve } = await importServing()
  const { gateway, port, ollamaUrl, stop } = await serve(parts, cleanup)
  const ready = gateway.router.table().routes.filter((route) => route.ready)
  const models = [...new Set(ready.map(({ modelId }) => modelId))]
  await greet(all, storage.credentials, { baseUrl: gateway.baseUrl(), port, models, newKey })
  return { url: gateway.baseUrl(), port, ollamaUrl, pids: [process.pid], replace: null, stop: () => stop(true) }
}

async function startSeveral(all: Start, processes: number): Promise<Server> {
  const { config, env, log, cleanup } = all
  // One more process than usual runs while they are replaced.
  const connections = (processes + 1) * (config.SVC_DATABASE_CONNECTIONS + connectionsBeside) + connectionsOfOthers
  const storage = await openStorage(config, log, cleanup, Math.max(embeddedConnectionsMin, connections))
  const database = openDatabase({ url: storage.url, connectionsMax: 1 })
  const newKey = await prepareStorage(config, storage, database, log).finally(() => database.close())
  const supervisor = new Supervisor({ config, env, log, storage, processes })
  await supervisor.start(cleanup)
  log.info('processes_started', { processes, port: supervisor.port })
  const { baseUrl, models, port } = supervisor
  await greet(all, storage.credentials, { baseUrl, port, models, newKey })
  let stopping: Promise<void> | null = null
  return {
    url: baseUrl,
    port,
    ollamaUrl: null,
    get pids() {
      return supervisor.pids
    },
    replace: () => supervisor.replace(),
    stop: () => {
      stopping ??= cleanup.run()
      return stopping
    },
  }
}

/** What a start that failed says. A misspelt setting may be why. */
export const failedStart = (error: unknown, env: Environment): string =>
  [...unknownInWords(env), startFault(error)].join('\n')

/** Runs until a signal ends it, also while it still starts; a second signal ends it at once. */
async function run(): Promise<void> {
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
  // In a terminal it says that the terminal is gone.
  const inTerminal = process.stdin.isTTY || process.stdout.isTTY
  const onHangUp = async () => {
    const replace = inTerminal ? null : (await starting.catch(() => null))?.replace
    if (signalledMs !== null || replace === null || replace === undefined) return onSignal()
    await replace()
  }
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, onSignal)
  process.on('SIGHUP', onHangUp)
  atLauncherEnd(() => {
    if (signalledMs === null) void onSignal()
  })
  endWithLauncher()
  try {
    await starting
  } catch (error) {
    process.stderr.write(`${failedStart(error, process.env)}\n`)
    process.exit(1)
  }
}

/** Whether a supervisor started this as one of its processes. */
export const isProcess = (): boolean => process.env[childVariable] !== undefined

/** As a program: the gateway, or one of its processes where a supervisor started this. */
export async function runProgram(): Promise<void> {
  if (!isProcess()) return run()
  const { runWorker } = await import('./processes/worker.ts')
  await runWorker(process.env)
}

if (import.meta.main) await runProgram()
