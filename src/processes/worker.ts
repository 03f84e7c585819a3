import { join } from 'node:path'
import type { ProcessPlace } from '../actors/siblings/process-place.ts'
import { socketScheme } from '../actors/tunnels/peer-transport.ts'
import { openDatabase } from '../db/client.ts'
import { migrateDatabase } from '../db/migrate.ts'
import { logMemory } from '../host/log-memory.ts'
import { createLog } from '../log.ts'
import { type Config, readConfig } from '../settings/config.ts'
import type { Environment } from './child.ts'
import { Cleanup } from './cleanup.ts'
import { Assignment, line, linesOf, Order, readLine } from './messages.ts'
import { type Serving, serve } from './serving.ts'
import { startFault } from './start-error.ts'

/** A process whose supervisor has hung up says nothing more. */
const report = (text: string) => void process.stdout.write(text)

/** With several computers each process needs an address of its own, also the one that another takes the place of. */
function peerUrlAt(text: string, { index, peer_port: at = index }: Assignment): URL {
  const url = new URL(text)
  url.port = String(Number(url.port) + at)
  return url
}

function placeOf(config: Config, given: Assignment): ProcessPlace {
  const socketName = `${given.index}-${process.pid}.sock`
  const socket = { unix: join(given.socket_folder, socketName) }
  const { SVC_PEER_URL: peerUrl, SVC_HOST: hostname } = config
  const remote = peerUrl === null ? [] : [{ hostname, port: Number(peerUrlAt(peerUrl, given).port) }]
  return {
    index: given.index,
    socketFolder: given.socket_folder,
    socketName,
    secret: given.cluster_secret,
    doors: [socket, ...remote],
    leads: given.leads,
  }
}

function peerUrlOf({ SVC_PEER_URL: url }: Config, place: ProcessPlace, given: Assignment): string {
  return url === null ? socketScheme + join(place.socketFolder, place.socketName) : peerUrlAt(url, given).origin
}

async function serveAs(env: Environment, given: Assignment): Promise<Serving> {
  const read = readConfig(env)
  if ('faults' in read) throw new Error('the configuration has changed')
  const place = placeOf(read.config, given)
  const config = {
    ...read.config,
    SVC_PORT: given.port,
    SVC_CLUSTER_SECRET: given.cluster_secret,
    SVC_PEER_URL: peerUrlOf(read.config, place, given),
  }
  const log = createLog(config.SVC_LOG_LEVEL, (text) => process.stderr.write(text), { process: given.index })
  const cleanup = new Cleanup(log)
  try {
    // After an upgrade this is newer than its supervisor, and the first to have the migrations of its version.
    await migrateDatabase(given.database_url)
    const database = openDatabase({ url: given.database_url, connectionsMax: config.SVC_DATABASE_CONNECTIONS })
    cleanup.add(() => database.close())
    const keys = {
      peppers: given.peppers,
      secretsKeys: given.secrets_keys,
      auditKeys: given.audit_keys,
      routerKeys: given.router_keys,
      webhookKeys: given.webhook_keys,
      logKeys: given.log_keys,
      logMemory: given.data_folder === null ? null : logMemory(given.data_folder),
      roleTokensInDatabase: given.role_tokens_in_database,
    }
    return await serve({ config, log, database, place, ...keys }, cleanup)
  } catch (error) {
    await cleanup.run()
    throw error
  }
}

function readyLine({ gateway, port }: Serving): string {
  const ready = gateway.router.table().routes.filter((route) => route.ready)
  return line({ port, base_url: gateway.baseUrl(), models: [...new Set(ready.map(({ modelId }) => modelId))] })
}

/** One of the supervisor's processes: serves as it is told, and ends with its supervisor. */
export async function runWorker(env: Environment): Promise<void> {
  // Ctrl-C and the end of a terminal reach the whole group; the supervisor says what they mean.
  for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => {})
  // Once the supervisor was killed its end of the pipe is not read any more.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  const lines = linesOf(Bun.stdin.stream())
  const given = readLine(Assignment, (await lines.next()).value ?? '')
  if (given === null) process.exit(1)
  const starting = serveAs(env, given)
  const end = async (handOver: boolean) => {
    const serving = await starting.catch(() => null)
    void serving?.closed.then(() => report(line({ closed: true })))
    await serving?.stop(handOver)
    process.exit(serving === null ? 1 : 0)
  }
  process.on('SIGTERM', () => void end(true))
  starting.then(
    (serving) => report(readyLine(serving)),
    (error: unknown) => {
      report(line({ failed: startFault(error) }))
      process.exitCode = 1
      setTimeout(() => process.exit(1), lastWordsMs)
    },
  )
  for await (const text of lines) {
    const order = readLine(Order, text)?.order
    if (order === 'leave' || order === 'stop') return end(order === 'leave')
    const serving = await starting.catch(() => null)
    if (order === 'drain') serving?.drain()
    if (order === 'lead') void serving?.gateway.lead()
    if (order === 'follow') serving?.gateway.follow()
  }
  await end(false)
}

/** The pipe takes the last line within this, ms. */
const lastWordsMs = 50
