import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Options } from './options.ts'
import { circumstances } from './results.ts'
import { cpuSeconds, launch, type Program, saidBy, stopAll, temporaryFolder, until } from './rig.ts'
import { markdown, median } from './table.ts'
import { type Admin, adminOf, model, startGateway } from './targets.ts'

const largeModel = 'large'
const megabytesDefault = 15
/** How many large answers are asked for at once. */
const loadsDefault = [60, 200]
const neighbours = 4
/** Before a large load, and without one, ms. */
const quietMs = 4_000
const sampleMs = 10
/** Between two requests of a neighbour, ms. */
const pauseMs = 10
const MB = 1_000_000

interface Way {
  readonly name: string
  readonly customers: number
  /** The node says beforehand how large its answer is. */
  readonly declared: boolean
}
const ways: readonly Way[] = [
  { name: 'one customer', customers: 1, declared: true },
  { name: 'one customer, length not told', customers: 1, declared: false },
  { name: '20 customers', customers: 20, declared: true },
  { name: '20 customers, length not told', customers: 20, declared: false },
]

/** The large answers of one moment, and what the others felt. */
interface Load {
  readonly answered: number
  readonly refused: number
  readonly broken: number
  readonly growthMB: number
  readonly quietMs: number
  readonly loadedMs: number
  readonly seconds: number
  readonly othersFailed: number
  readonly gatewayCpuSeconds: number
}

interface Rig {
  readonly url: string
  readonly pid: number
  readonly large: readonly string[]
  readonly small: readonly string[]
}

async function customerKey(admin: Admin): Promise<string> {
  const { customer_id: id } = await admin<{ readonly customer_id: string }>('POST', '/customers', {
    display_name: 'bench',
    gateway_policy: { min_privacy_class: 'public' },
  })
  const policy = { allowed_models: [model, largeModel], min_privacy_class: 'public' }
  const key = { name: 'bench', model_policy: policy }
  return (await admin<{ readonly gateway_key: string }>('POST', `/customers/${id}/keys`, key)).gateway_key
}

/** A gateway, a node that every customer may use, and their keys. */
async function rigOf({ customers, declared }: Way, megabytes: number): Promise<Rig> {
  const nodes = [largeModel, model].map((name) =>
    launch([process.execPath, join(import.meta.dir, 'rig', 'large-node.ts')], {
      env: { MODEL: name, MEGABYTES: String(name === largeModel ? megabytes : 0), DECLARED: String(declared) },
    }),
  )
  const folder = temporaryFolder()
  const data = join(folder, 'data')
  const { program, url } = await startGateway(data, join(folder, 'gateway.log'), null, {
    SVC_ADMIN_RPM_PER_TOKEN: '100000',
  })
  const admin = adminOf(url, join(data, 'credentials.json'))
  const { customer_id } = await admin<{ readonly customer_id: string }>('POST', '/customers', { display_name: 'owner' })
  const public_ = { visibility: 'public', privacy_class: 'public', node_class: 'gpu' }
  for (const node of nodes) {
    const [nodeUrl] = await saidBy(node, /http\S+/)
    const { node_id } = await admin<{ readonly node_id: string }>('POST', '/nodes', {
      customer_id,
      url: nodeUrl,
      ...public_,
    })
    await until('the node to be ready', async () => {
      const { state } = await admin<{ readonly state: string }>('GET', `/nodes/${node_id}`)
      return state === 'ready'
    })
  }
  const keys: string[] = []
  for (let at = 0; at < customers + neighbours; at++) keys.push(await customerKey(admin))
  return {
    url: `${url}/v1/api/chat/completions`,
    pid: program.pid,
    large: keys.slice(neighbours),
    small: keys.slice(0, neighbours),
  }
}

const residentMB = (pid: number) =>
  (Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1_024) / MB

interface Times {
  readonly times: readonly number[]
  readonly failed: number
}

/** Small requests of others, one after the other, until it is stopped; resolves with how long each took, ms. */
function small({ url, small: keys }: Rig): { stop(): Promise<Times> } {
  const times: number[] = []
  let failed = 0
  let running = true
  const ask = async (key: string) => {
    const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'hi' }] })
    while (running) {
      const fromMs = performance.now()
      const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` }
      const response = await fetch(url, { method: 'POST', headers, body })
      await response.text()
      if (response.status === 200) times.push(performance.now() - fromMs)
      else failed++
      await Bun.sleep(pauseMs)
    }
  }
  const all = Promise.all(keys.map(ask))
  return {
    stop: async () => {
      running = false
      await all
      return { times, failed }
    },
  }
}

function largeClients({ url, large }: Rig, count: number): Program {
  const keys = Array.from({ length: count }, (_, at) => large[at % large.length] ?? '')
  const file = join(import.meta.dir, 'rig', 'large-clients.ts')
  return launch([process.execPath, file], { env: { URL: url, KEYS: keys.join(',') } })
}

async function loaded(rig: Rig, count: number): Promise<Load> {
  const quiet = small(rig)
  await Bun.sleep(quietMs)
  const quietTimes = await quiet.stop()
  const before = residentMB(rig.pid)
  let most = before
  const watch = setInterval(() => {
    most = Math.max(most, residentMB(rig.pid))
  }, sampleMs)
  const cpuBefore = cpuSeconds(rig.pid)
  const fromMs = performance.now()
  const others = small(rig)
  const said = await saidBy(largeClients(rig, count), /ends (\{.*\})/)
  const seconds = (performance.now() - fromMs) / 1_000
  const loadedTimes = await others.stop()
  const gatewayCpuSeconds = cpuSeconds(rig.pid) - cpuBefore
  clearInterval(watch)
  const ends = JSON.parse(said[1] ?? '{}') as Readonly<Record<string, number>>
  const { answered = 0, '429': refused = 0 } = ends
  return {
    answered,
    refused,
    broken: count - answered - refused,
    growthMB: most - before,
    quietMs: median(quietTimes.times),
    loadedMs: median(loadedTimes.times),
    othersFailed: loadedTimes.failed,
    gatewayCpuSeconds,
    seconds,
  }
}

const row = (name: string, count: number, load: Load): readonly string[] => [
  name,
  String(count),
  String(load.answered),
  String(load.refused),
  String(load.broken),
  load.growthMB.toFixed(0),
  load.seconds.toFixed(1),
  load.gatewayCpuSeconds.toFixed(1),
  load.quietMs.toFixed(1),
  load.loadedMs.toFixed(1),
  (load.loadedMs / load.quietMs).toFixed(2),
  String(load.othersFailed),
]

/** What large answers that are asked for at once take of the gateway's memory, and what other customers notice of them. */
export async function benchMemory(
  _options: Options,
  megabytes = megabytesDefault,
  loads: readonly number[] = loadsDefault,
): Promise<string> {
  const rows: (readonly string[])[] = []
  try {
    for (const way of ways) {
      for (const count of loads) {
        const rig = await rigOf(way, megabytes)
        const load = await loaded(rig, count)
        rows.push(row(way.name, count, load))
        process.stderr.write(`${rows.at(-1)?.join(' · ')}\n`)
        await stopAll()
      }
    }
  } finally {
    await stopAll()
  }
  const head = [
    'answers asked for by',
    'at once',
    'answered',
    '429',
    'broken',
    'growth MB',
    's',
    'CPU s',
    'others p50 ms, quiet',
    'during it',
    '÷',
    'others failed',
  ]
  const load = `whole answers of ${megabytes} MB, asked for at once, and ${neighbours} other customers with small requests`
  return ['## Memory', circumstances(load), markdown(head, rows)].join('\n\n')
}
