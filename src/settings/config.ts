import { isIP } from 'node:net'
import { isLoopback } from '../host/loopback.ts'
import { packetTarget } from '../host/magic-packet.ts'
import { readSeed } from '../secrets.ts'
import { dayMs, secondMs } from '../time.ts'
import { settlementFaults } from './config-settlement.ts'
import { ollamaFaults } from './ollama.ts'
import type { Setting } from './setting.ts'
import { signInFaults } from './sign-in.ts'
import { type SettingName, settings } from './table.ts'
import { tokenNameFaults } from './token-names.ts'

type ValueOf<S extends Setting> = S extends { kind: 'number' }
  ? number
  : S extends { kind: 'flag' }
    ? boolean
    : S extends { kind: 'wei' }
      ? bigint
      : S extends { kind: 'list' }
        ? readonly string[]
        : S extends { kind: 'choice'; of: readonly (infer C)[] }
          ? C
          : S extends { kind: 'text'; default: string }
            ? string
            : string | null

export type Settings = { readonly [N in SettingName]: ValueOf<(typeof settings)[N]> }

export interface Config extends Settings {
  /** True without `DATABASE_URL`. Then this process runs its own PostgreSQL in the data folder. */
  readonly embedded: boolean
}

export type ConfigResult = { readonly config: Config } | { readonly faults: readonly string[] }

const isWei = (text: string) => /^(0|[1-9][0-9]{0,77})$/.test(text) && BigInt(text) < 2n ** 256n

function read(name: string, setting: Setting, raw: string | undefined): unknown | Error {
  const text = raw?.trim()
  if (text === undefined || text === '') {
    if (setting.kind === 'list') return []
    return setting.kind === 'secret' ? null : setting.default
  }
  switch (setting.kind) {
    case 'text':
    case 'secret':
      return text
    case 'list':
      return text
        .split(',')
        .map((part) => part.trim())
        .filter((part) => part !== '')
    case 'flag':
      return text === 'true' || text === 'false' ? text === 'true' : new Error(`${name} must be true or false`)
    case 'wei':
      return isWei(text) ? BigInt(text) : new Error(`${name} must be a whole amount of wei`)
    case 'choice':
      return setting.of.includes(text) ? text : new Error(`${name} must be one of ${setting.of.join(', ')}`)
    case 'number': {
      const value = /^[0-9]{1,12}$/.test(text) ? Number(text) : Number.NaN
      return value >= setting.min && value <= setting.max
        ? value
        : new Error(`${name} must be a whole number from ${setting.min} to ${setting.max}`)
    }
  }
}

/** The values of a secret that may hold several, newest first. */
export function listOf(secret: string): readonly string[] {
  return secret.split(',').map((part) => part.trim())
}

/** As a browser writes it: scheme, host, and a port where it is not the usual one. */
/** Desktop programs that are web pages inside, as Obsidian: the URL standard gives such schemes no origin, browsers do. */
const appOrigin = /^(?:app|capacitor):\/\/[a-z0-9.-]{1,253}$/

function isOrigin(text: string): boolean {
  if (appOrigin.test(text)) return true
  return URL.canParse(text) && /^https?:/.test(text) && new URL(text).origin === text
}

function isNetwork(text: string): boolean {
  const [address = '', bits, more] = text.split('/')
  const version = isIP(address)
  if (version === 0 || more !== undefined) return false
  return bits === undefined || (/^[0-9]{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128))
}

/** Agents accept no longer list. */
const routerKeysMax = 8

/** Checks the form of settings whose kind does not say enough. */
function formFaults(settings: Settings): string[] {
  const { SVC_ROUTER_KEY, SVC_ENDPOINT_NETWORKS, SVC_WAKE_ADDRESSES, SVC_TRUSTED_PROXIES, SVC_CORS_ORIGINS } = settings
  const faults: string[] = []
  if (SVC_ROUTER_KEY !== null && listOf(SVC_ROUTER_KEY).some((seed) => readSeed(seed) === null)) {
    faults.push('SVC_ROUTER_KEY must be a list of 32-byte seeds in base64 or hex')
  }
  if (SVC_ROUTER_KEY !== null && listOf(SVC_ROUTER_KEY).length > routerKeysMax) {
    faults.push(`SVC_ROUTER_KEY may hold at most ${routerKeysMax} seeds`)
  }
  if (!SVC_WAKE_ADDRESSES.every((address) => packetTarget(address) !== null)) {
    faults.push('SVC_WAKE_ADDRESSES must be a list of IPv4 addresses like 192.168.1.255:9')
  }
  if (!SVC_ENDPOINT_NETWORKS.every(isNetwork)) {
    faults.push('SVC_ENDPOINT_NETWORKS must be a list of networks like 10.0.0.0/8')
  }
  if (!SVC_CORS_ORIGINS.every(isOrigin)) {
    faults.push('SVC_CORS_ORIGINS must be a list of origins like https://chat.example,http://localhost:3000')
  }
  if (!SVC_TRUSTED_PROXIES.every(isNetwork)) {
    faults.push('SVC_TRUSTED_PROXIES must be a list of addresses or networks like 127.0.0.1,10.0.0.0/8')
  }
  if (settings.SVC_MDNS && isLoopback(settings.SVC_HOST)) {
    faults.push('SVC_MDNS needs SVC_HOST=0.0.0.0 or an address that other devices reach')
  }
  const { OTEL_EXPORTER_OTLP_ENDPOINT: collector } = settings
  if (collector !== null && !/^https?:\/\/\S+$/.test(collector)) {
    faults.push('OTEL_EXPORTER_OTLP_ENDPOINT must be a URL like http://127.0.0.1:4318')
  }
  return [
    ...faults,
    ...ollamaFaults(settings),
    ...signInFaults(settings),
    ...tokenNameFaults(settings.SVC_TOKEN_NAMES),
    ...clusterFaults(settings),
    ...processFaults(settings),
    ...webhookFaults(settings),
  ]
}

const secretCharactersMin = 16
export const processesMax = 64

/** How many processes serve. */
export function processesOf({ SVC_PROCESSES: text }: Pick<Settings, 'SVC_PROCESSES'>, cores: number): number {
  return text === 'auto' ? Math.min(processesMax, Math.max(1, cores - 1)) : Number(text)
}

function processFaults({ SVC_PROCESSES: text, SVC_PEER_URL: url, SVC_PORT }: Settings): string[] {
  const count = /^[0-9]{1,2}$/.test(text) ? Number(text) : text === 'auto' ? 1 : 0
  if (count < 1 || count > processesMax)
    return [`SVC_PROCESSES must be a whole number from 1 to ${processesMax}, or auto`]
  const several = text !== '1' && url !== null && URL.canParse(url)
  if (!several) return []
  const port = Number(new URL(url).port)
  const tooHigh = port + processesMax > portMax
  return port === 0 || tooHigh || (SVC_PORT >= port && SVC_PORT <= port + processesMax)
    ? [
        `SVC_PEER_URL must name a port with ${processesMax} free ones behind it, and not SVC_PORT, where SVC_PROCESSES is more than 1`,
      ]
    : []
}

const portMax = 65_535

function clusterFaults({ SVC_CLUSTER_SECRET: secret, SVC_PEER_URL: url }: Settings): string[] {
  const faults: string[] = []
  if ((secret === null) !== (url === null)) faults.push('SVC_CLUSTER_SECRET and SVC_PEER_URL must be set together')
  if (secret !== null && secret.length < secretCharactersMin) {
    faults.push(`SVC_CLUSTER_SECRET must have at least ${secretCharactersMin} characters`)
  }
  if (url !== null && !/^https?:\/\/[^/?#@]+\/?$/.test(url))
    faults.push('SVC_PEER_URL must be a URL like http://10.0.0.2:7070')
  return faults
}

const instantPattern = /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,3})?Z$/
/** Meanwhile an INSERT into the database is enough to forge a receipt. */
const plainDaysMax = 30

function plainUntilFaults(text: string | null): string[] {
  if (text === null) return []
  const untilMs = instantPattern.test(text) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(untilMs)) return ['SVC_LOG_PLAIN_UNTIL must be a time like 2026-11-25T12:00:00Z']
  const tooLate = untilMs > Date.now() + plainDaysMax * dayMs
  return tooLate ? [`SVC_LOG_PLAIN_UNTIL may be at most ${plainDaysMax} days from now`] : []
}

function webhookFaults({
  SVC_WEBHOOK_KEY,
  SVC_WEBHOOK_PORTS,
  SVC_ROUTER_KEY,
  SVC_LOG_KEY,
  SVC_LOG_WITNESSES,
  SVC_LOG_PLAIN_UNTIL,
}: Settings): string[] {
  const faults: string[] = plainUntilFaults(SVC_LOG_PLAIN_UNTIL)
  const logSeeds = SVC_LOG_KEY === null ? [] : listOf(SVC_LOG_KEY)
  if (logSeeds.some((seed) => readSeed(seed) === null)) {
    faults.push('SVC_LOG_KEY must be a list of 32-byte seeds in base64 or hex')
  }
  if (SVC_LOG_WITNESSES.some((text) => !/^\S+ +https?:\/\/\S+$/.test(text.trim()))) {
    faults.push('SVC_LOG_WITNESSES must be a list of `KEY URL`')
  }
  const others = [SVC_ROUTER_KEY, SVC_WEBHOOK_KEY].flatMap((keys) => (keys === null ? [] : listOf(keys)))
  if (logSeeds.some((seed) => others.includes(seed))) {
    faults.push('SVC_LOG_KEY must be another key than SVC_ROUTER_KEY and SVC_WEBHOOK_KEY')
  }
  const routerSeeds = SVC_ROUTER_KEY === null ? [] : listOf(SVC_ROUTER_KEY)
  if (SVC_WEBHOOK_KEY !== null && listOf(SVC_WEBHOOK_KEY).some((seed) => routerSeeds.includes(seed))) {
    faults.push('SVC_WEBHOOK_KEY and SVC_ROUTER_KEY must be different keys')
  }
  if (SVC_WEBHOOK_KEY !== null && listOf(SVC_WEBHOOK_KEY).some((seed) => readSeed(seed) === null)) {
    faults.push('SVC_WEBHOOK_KEY must be a list of 32-byte seeds in base64 or hex')
  }
  if (!SVC_WEBHOOK_PORTS.every((port) => /^[0-9]{1,5}$/.test(port) && Number(port) >= 1 && Number(port) <= 65_535)) {
    faults.push('SVC_WEBHOOK_PORTS must be a list of ports')
  }
  return faults
}

/** Secrets without which no gateway with DATABASE_URL starts. `ops/new-secrets.sh` makes them. */
export const requiredSecrets = [
  'SVC_TOKEN_PEPPER',
  'SVC_SECRETS_KEY',
  'SVC_AUDIT_KEY',
  'SVC_ROUTER_KEY',
  'SVC_WEBHOOK_KEY',
  'SVC_LOG_KEY',
] as const

export type Environment = Readonly<Record<string, string | undefined>>

/** Checks each setting by itself, for programs beside a gateway that need only a few. No fault shows a value. */
export function readSettings(env: Environment): { readonly settings: Settings; readonly faults: readonly string[] } {
  const faults: string[] = []
  const values: Record<string, unknown> = {}
  for (const [name, setting] of Object.entries(settings)) {
    const value = read(name, setting, env[name])
    if (value instanceof Error) faults.push(value.message)
    else values[name] = value
  }
  return { settings: values as unknown as Settings, faults }
}

/** Settings that have another default with `DATABASE_URL`: other gateways and a load balancer stand beside this one. */
const withDatabase = ({ SVC_DEMO, SVC_DRAIN_MS }: Environment) => ({
  ...(SVC_DEMO ? {} : { SVC_DEMO: 'never' as const }),
  ...(SVC_DRAIN_MS?.trim() ? {} : { SVC_DRAIN_MS: 5 * secondMs }),
})

/** Reads and checks the whole environment; all faults are reported at once, none of them shows a value. */
export function readConfig(env: Environment): ConfigResult {
  const read = readSettings(env)
  const faults = [...read.faults]
  const config = {
    ...read.settings,
    ...(env.DATABASE_URL?.trim() ? withDatabase(env) : {}),
  }
  const embedded = config.DATABASE_URL === null
  if (!embedded) {
    for (const name of requiredSecrets) {
      if (config[name] === null) faults.push(`${name} is required with DATABASE_URL`)
    }
    if (config.SVC_ADMIN_TOKENS.length === 0 && !config.SVC_BOOTSTRAP) {
      faults.push('SVC_ADMIN_TOKENS is required with DATABASE_URL, unless SVC_BOOTSTRAP is true')
    }
  }
  if (config.SVC_OFFLINE_AFTER_MS <= config.SVC_STALE_AFTER_MS) {
    faults.push('SVC_OFFLINE_AFTER_MS must be more than SVC_STALE_AFTER_MS')
  }
  faults.push(...formFaults(config))
  faults.push(...settlementFaults(config))
  return faults.length > 0 ? { faults } : { config: { ...config, embedded } }
}
