import { accessSync, constants, existsSync, readdirSync, statfsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { openDatabase } from '../db/client.ts'
import { EmbeddedDatabaseError } from '../db/embedded/embedded.ts'
import { findPackage } from '../db/embedded/embedded-binaries.ts'
import { within } from '../deadline.ts'
import { descriptors } from '../host/descriptors.ts'
import { isLoopback } from '../host/loopback.ts'
import { isWildcard, ownAddresses } from '../host/own-addresses.ts'
import { failureName } from '../log.ts'
import { discoverHere } from '../polling/discover-here.ts'
import { faultAt, placesOf } from '../processes/listening.ts'
import { type Environment, readConfig, readSettings, type Settings } from '../settings/config.ts'
import { unknownInWords } from '../settings/unknown.ts'

/** `note`: it works, and somebody may want to know. `bad`: a start fails, or soon will. */
export interface Finding {
  readonly check: string
  readonly state: 'good' | 'note' | 'bad'
  /** Full sentences, with what mends it. */
  readonly says: string
}

type Verdict = Omit<Finding, 'check'>
const good = (says: string): Verdict => ({ state: 'good', says })
const note = (says: string): Verdict => ({ state: 'note', says })
const bad = (says: string): Verdict => ({ state: 'bad', says })

const agentPort = 7071
const databaseWaitMs = 5_000
const GiB = 1024 ** 3
/** Below this a database soon has no room. */
const freeBytesMin = 2 * GiB
/** Each stream takes two, one to the client and one to the node. */
const descriptorsMin = 4_096

/** What is wrong is told by its own check; the others go on with the default. */
function readable(env: Environment): Settings {
  const valid = Object.entries(env).filter(([name, value]) => readSettings({ [name]: value }).faults.length === 0)
  return readSettings(Object.fromEntries(valid)).settings
}

function settingsVerdict(env: Environment): Verdict {
  const read = readConfig(env)
  if ('faults' in read) return bad(`${read.faults.join('. ')}.`)
  const odd = unknownInWords(env, 'command')
  return odd.length === 0 ? good('The settings are valid.') : note(odd.join(' '))
}

function programVerdict(bunVersion: string): Verdict {
  return Bun.version === bunVersion
    ? good(`Bun ${Bun.version} runs, the version that Penstock is tested with.`)
    : note(`Bun ${Bun.version} runs, but Penstock is tested with ${bunVersion}. Start it with: npm start.`)
}

/** The folder itself, or the nearest one above in which it would be made. */
function nearestFolder(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : nearestFolder(dirname(path))
}

function storageVerdict({ DATABASE_URL, SVC_DATA_DIR }: Settings): Verdict {
  if (DATABASE_URL !== null) return good('The data is in the PostgreSQL of DATABASE_URL.')
  const folder = resolve(SVC_DATA_DIR)
  try {
    const there = nearestFolder(folder)
    accessSync(there, constants.W_OK)
    readdirSync(there)
    const { bavail, bsize } = statfsSync(there)
    const free = `${((bavail * bsize) / GiB).toFixed(1)} GiB are free`
    if (bavail * bsize < freeBytesMin) return bad(`The data folder ${folder} needs more room: only ${free}.`)
    return good(`The data folder ${folder} can be ${there === folder ? 'written' : 'made'}; ${free}.`)
  } catch (error) {
    return bad(`The data folder ${folder} cannot be written (${failureName(error)}). Set SVC_DATA_DIR to another one.`)
  }
}

async function databaseVerdict({ DATABASE_URL: url }: Settings): Promise<Verdict> {
  if (url === null) return embeddedVerdict()
  try {
    const database = openDatabase({ url, connectionsMax: 1 })
    try {
      const [row] = await within(databaseWaitMs, database.sql`select current_setting('server_version') as version`)
      return good(`PostgreSQL ${String(row?.version)} answers at DATABASE_URL.`)
    } finally {
      await database.close()
    }
  } catch (error) {
    return bad(
      `The PostgreSQL of DATABASE_URL does not answer (${failureName(error)}). Is it started, and are its address, user and password right?`,
    )
  }
}

function embeddedVerdict(): Verdict {
  try {
    return good(`The embedded PostgreSQL ${findPackage().version} is installed.`)
  } catch (error) {
    return bad(error instanceof EmbeddedDatabaseError ? error.message : `${failureName(error)}.`)
  }
}

/** `isGateway`: whether what holds the port answers as a gateway does. It holds its other one, too. */
async function portVerdict(settings: Settings, isGateway: DoctorInputs['isGateway']): Promise<Verdict> {
  const { SVC_HOST, SVC_PORT } = settings
  const places = placesOf(settings)
  const faults = places.flatMap((place) => faultAt(place) ?? [])
  const host = isWildcard(SVC_HOST) ? '127.0.0.1' : SVC_HOST
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${SVC_PORT}`
  const inUse = SVC_PORT !== 0 && faults[0]?.code === 'EADDRINUSE'
  if (inUse && (await isGateway(url))) return good(`A gateway runs on port ${SVC_PORT}.`)
  if (faults.length > 0) return bad(faults.map(({ says }) => says).join(' '))
  if (SVC_PORT === 0) return good('The gateway takes any free port.')
  return good(places.map(({ port }) => `Port ${port} is free for the gateway.`).join(' '))
}

/** A gateway that runs may have been started with other settings than this command. */
const isReachable = (url: string) => !isLoopback(new URL(url).hostname)

function addressVerdict({ SVC_HOST, SVC_PUBLIC_URL }: Settings, runsAt: string | null): Verdict {
  if (SVC_PUBLIC_URL !== null) return good('Clients reach the gateway by SVC_PUBLIC_URL.')
  if (runsAt !== null && isReachable(runsAt)) return good(`Other devices reach the gateway that runs, at ${runsAt}.`)
  if (isLoopback(SVC_HOST)) {
    return note('Only programs on this computer reach the gateway. To let other devices in, set SVC_HOST=0.0.0.0.')
  }
  const addresses = isWildcard(SVC_HOST) ? ownAddresses() : [SVC_HOST]
  if (addresses.length === 0) return note('This computer has no address in a network, so no other one reaches it.')
  return good(`Other devices reach the gateway at ${addresses.join(', ')}, without TLS.`)
}

function descriptorsVerdict(): Verdict {
  const { max } = descriptors
  if (max >= descriptorsMin) return good('This user may open enough files and connections.')
  return note(
    `This user may open only ${max} files and connections at once. Raise it for many clients: ulimit -n 65536.`,
  )
}

async function serversVerdict({ SVC_PORT }: Settings): Promise<Verdict> {
  const found = await discoverHere([SVC_PORT, agentPort])
  if (found.length > 0) {
    return good(
      `Model servers on this computer: ${found.map(({ port, module }) => `${module.kind} on port ${port}`).join(', ')}.`,
    )
  }
  return note(
    'No model server answers on the usual ports of this computer. Start one (Ollama, llama.cpp, vLLM, LM Studio), or add one elsewhere: ./penstock nodes add URL.',
  )
}

function agentVerdict(): Verdict {
  const place = { hostname: '127.0.0.1', port: agentPort, hostSetting: '--listen', portSetting: '--listen' }
  return faultAt(place) === null
    ? good(`Port ${agentPort} is free for a node agent.`)
    : note(`Port ${agentPort} is in use: by a node agent, or choose another port for one with --listen.`)
}

export interface DoctorInputs {
  readonly env: Environment
  /** The version of Bun that the checkout names. */
  readonly bunVersion: string
  readonly isGateway: (url: string) => Promise<boolean>
  /** The gateway that the other commands would talk to; null: unknown. */
  readonly baseUrl: string | null
}

/** All that a start and a node need of this computer. Changes nothing; never rejects for what it looks at. */
export async function examine({ env, bunVersion, isGateway, baseUrl }: DoctorInputs): Promise<readonly Finding[]> {
  const settings = readable(env)
  const runs = async () => baseUrl !== null && (await isGateway(baseUrl))
  const addresses = async () => addressVerdict(settings, (await runs()) ? baseUrl : null)
  const checks: readonly (readonly [string, () => Verdict | Promise<Verdict>])[] = [
    ['settings', () => settingsVerdict(env)],
    ['program', () => programVerdict(bunVersion)],
    ['storage', () => storageVerdict(settings)],
    ['database', () => databaseVerdict(settings)],
    ['port', () => portVerdict(settings, isGateway)],
    ['addresses', addresses],
    ['descriptors', descriptorsVerdict],
    ['servers', () => serversVerdict(settings)],
    ['agent', agentVerdict],
  ]
  return Promise.all(checks.map(async ([check, look]) => ({ check, ...(await look()) })))
}
