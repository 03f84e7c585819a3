import { resolve } from 'node:path'
import { freePort } from '../../support/gateways/free-port.ts'
import { startTestGateway, type TestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { firstMatch } from '../../support/gateways/gateway-process.ts'
import { enrollmentToken } from '../../support/nodes/agents.ts'
import { clusterSecret } from '../../support/peer-gateway.ts'
import { promptly } from '../../support/run/pace.ts'
import { AgentHost } from './agent-host.ts'
import { readEventsForLeaks } from './leaks.ts'
import type { Stall } from './loop-monitor.ts'
import { ProcessWatch } from './process-watch.ts'
import type { Pulse } from './process-words.ts'
import { type Connection, connectionOf, type Way } from './ways.ts'

/** The gateway as shipped, in processes of its own, and all that it shows of itself. */
export interface HostileGateway extends TestGateway {
  readonly hostname: string
  readonly port: number
  readonly pid: number
  readonly way: Way
  /** Every gateway on its database. */
  readonly urls: readonly string[]
  /** Where nodes dial in. */
  readonly dialUrl: string
  /** Where its processes listen for each other: a folder of sockets below this one. */
  readonly folder: string
  /** Connects a model server, by its way unless another connection is named, and waits until it can be called. */
  join(node: Joining, connection?: Connection): Promise<Joined>
  readonly stalls: readonly Stall[]
  /** What should not be in a log or on the console's stream, and lines of the level `error`. */
  readonly logFaults: string[]
  /** A process has ended although nobody asked for it. */
  readonly dead: boolean
  /** After this, what has stalled until now is in `stalls`. */
  pulse(options?: { readonly collect: boolean }): Promise<Pulse>
  descriptors(): number
  /** Those that have joined by `join`, in a process that counts among the gateway's. */
  agents(): number
  residentBytes(): number
  /** Processor time of all processes so far, ms. */
  cpuMs(): number
}

export interface Joining {
  readonly url: string
  readonly apiKey: string
  /** The customer's id. */
  readonly owner: string
  readonly visibility: 'private' | 'public'
}

export interface Joined {
  readonly nodeId: string
  /** Of the agent before it; null: there is none. */
  readonly agentUrl: string | null
}

/** The shortest deadlines that may be set: a hostile node is mostly one that makes others wait. */
export const impatient = {
  SVC_LOG_LEVEL: 'debug',
  SVC_METRICS_PUBLIC: 'true',
  SVC_POLL_INTERVAL_MS: '250',
  SVC_PROBE_TIMEOUT_MS: '1500',
  SVC_STALE_AFTER_MS: '60000',
  SVC_OFFLINE_AFTER_MS: '120000',
  SVC_HOLD_DOWN_MS: '100',
  SVC_EJECTION_MS: '100',
  SVC_TTFT_TIMEOUT_MS: '1000',
  SVC_TOTAL_TIMEOUT_MS: '1500',
  SVC_INTER_CHUNK_TIMEOUT_MS: '1000',
  SVC_SLOW_CLIENT_TIMEOUT_MS: '1000',
  SVC_FINISH_HOLD_MS: '100',
  SVC_HEADER_COMMIT_MS: '300',
  SVC_ADMIN_RPM_PER_TOKEN: '1000000',
  SVC_PUBLIC_RPM_PER_IP: '1000000',
  SVC_AUTH_FAILURES_PER_MINUTE: '10000',
}

/** For nodes that take their time on a busy machine: what is looked at there is not a deadline. */
export const patient = {
  ...impatient,
  SVC_TTFT_TIMEOUT_MS: '30000',
  SVC_TOTAL_TIMEOUT_MS: '60000',
  SVC_INTER_CHUNK_TIMEOUT_MS: '30000',
}

/** Where the processor is shared, a node that behaves may be as late as one that does not: then the deadlines are longer. */
const deadlines = [
  'SVC_PROBE_TIMEOUT_MS',
  'SVC_TTFT_TIMEOUT_MS',
  'SVC_TOTAL_TIMEOUT_MS',
  'SVC_INTER_CHUNK_TIMEOUT_MS',
] as const
const timesMax = 3

function pacedDeadlines(): Readonly<Record<string, string>> {
  const times = Math.min(timesMax, promptly(1))
  return Object.fromEntries(deadlines.map((name) => [name, String(Math.round(Number(impatient[name]) * times))]))
}

const main = resolve(import.meta.dir, '../../../src/main.ts')
const urlLine = /OpenAI base (http:\/\/\S+?)\/v1(?:\/api)?\s/

export async function startHostileGateway(way: Way = 'direct'): Promise<HostileGateway> {
  const gateway = await startGatewayWithPulse({ ...impatient, ...pacedDeadlines() }, way)
  await watchConsole(gateway)
  return gateway
}

const ownEnv = (way: Way): Readonly<Record<string, string>> => {
  if (way === 'processes') return { SVC_PROCESSES: '2' }
  if (way !== 'peer') return {}
  const port = freePort()
  const url = `http://127.0.0.1:${port}`
  return { SVC_PORT: String(port), SVC_PUBLIC_URL: url, SVC_PEER_URL: url, SVC_CLUSTER_SECRET: clusterSecret }
}

export async function startGatewayWithPulse(
  env: Readonly<Record<string, string>>,
  way: Way = 'direct',
): Promise<HostileGateway> {
  const watch = new ProcessWatch()
  const launch = async (given: Readonly<Record<string, string>>) => {
    const ollamaUrl = `http://127.0.0.1:${freePort()}`
    const child = watch.spawn(main, { SVC_OLLAMA_LISTEN: new URL(ollamaUrl).host, ...given })
    const url = (await firstMatch(child.stdout, urlLine))[1] ?? ''
    return { url, ollamaUrl, stop: () => Promise.resolve() }
  }
  const gateway = await startTestGateway({ env: { ...env, ...ownEnv(way) }, launch })
  const beside = { env: { ...env, ...ownEnv(way) }, launch, beside: gateway }
  const other = way === 'peer' ? await startTestGateway(beside) : null
  return watched(gateway, other, way, watch)
}

function watched(gateway: TestGateway, other: TestGateway | null, way: Way, watch: ProcessWatch): HostileGateway {
  const { hostname, port } = new URL(gateway.url)
  const [pid = 0] = watch.pids
  const dialUrl = (other ?? gateway).url
  const agents = new AgentHost(watch)
  return {
    ...gateway,
    hostname,
    port: Number(port),
    pid,
    way,
    urls: other === null ? [gateway.url] : [gateway.url, other.url],
    dialUrl,
    folder: watch.folder,
    join: joins(gateway, dialUrl, way, agents),
    stalls: watch.stalls,
    logFaults: watch.logFaults,
    get dead() {
      return watch.dead
    },
    pulse: (options) => watch.pulse(options?.collect ?? false),
    descriptors: () => watch.descriptors(),
    agents: () => agents.asked,
    residentBytes: () => watch.residentBytes(),
    cpuMs: () => watch.cpuMs(),
    stop: async () => {
      await watch.stop()
      await gateway.stop()
    },
  }
}

function joins(gateway: TestGateway, dialUrl: string, way: Way, agents: AgentHost): HostileGateway['join'] {
  let joined = 0
  const byHttp = async ({ url, apiKey, owner, visibility }: Joining): Promise<Joined> => {
    const whose = { customer_id: owner, visibility, privacy_class: 'public', node_class: 'gpu' }
    const made = await gateway.admin<{ node_id: string }>('POST', '/v1/admin/nodes', { url, api_key: apiKey, ...whose })
    return { nodeId: made.node_id, agentUrl: null }
  }
  const byAgent = async ({ url, apiKey, owner, visibility }: Joining): Promise<Joined> => {
    const { enrollment_token: token } = await enrollmentToken(gateway, owner, { visibility, privacyClass: 'public' })
    const { nodeId, url: agentUrl } = await agents.start({ gatewayUrl: dialUrl, token, runtimeUrl: url, apiKey })
    return { nodeId, agentUrl }
  }
  return async (joining, connection = connectionOf(way, joined++)) => {
    const made = await (connection === 'http' ? byHttp : byAgent)(joining)
    await waitFor(`node ${made.nodeId}`, async () => {
      return (await gateway.admin<{ state: string }>('GET', `/v1/admin/nodes/${made.nodeId}`)).state === 'ready'
    })
    return made
  }
}

/** Hears all that the operators' page is told, to the gateway's end. */
async function watchConsole({ url, tokens, logFaults }: HostileGateway): Promise<void> {
  const response = await fetch(`${url}/v1/admin/inspect`, { headers: { 'x-svc-admin-token': tokens.viewer } })
  if (response.status !== 200 || response.body === null) throw new Error(`the console's stream: ${response.status}`)
  // The gateway ends, and its streams with it.
  readEventsForLeaks(response.body, (fault) => logFaults.push(fault)).catch(() => {})
}
