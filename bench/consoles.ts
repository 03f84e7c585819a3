import { join } from 'node:path'
import { consolesPerTokenMax } from '../src/actors/console/console-seats.ts'
import { newToken } from '../src/secrets.ts'
import { type CaseName, cases } from './cases.ts'
import { columns, show } from './columns.ts'
import { check, errorsOf, measure, type Rig, type Sample, warmUp } from './measure.ts'
import type { Options } from './options.ts'
import { circumstances } from './results.ts'
import { build, startMock, stopAll, temporaryFolder, until } from './rig.ts'
import { markdown, median } from './table.ts'
import { type Admin, adminOf, model, ordinary, startGateway, type Target } from './targets.ts'

export const consolesOpen = 50
const measured: readonly CaseName[] = ['json1', 'json64', 'stream', 'short']
const settleMs = 150

interface Gateway {
  readonly url: string
  /** Enough for the consoles, of which one token may have a few. */
  readonly viewerTokens: readonly string[]
  readonly target: Target
}

async function furnish(admin: Admin, nodeUrl: string): Promise<string> {
  const { customer_id } = await admin<{ readonly customer_id: string }>('POST', '/customers', { display_name: 'bench' })
  const key = { name: 'bench', model_policy: { allowed_models: [model] } }
  const made = await admin<{ readonly gateway_key: string }>('POST', `/customers/${customer_id}/keys`, key)
  const node = { customer_id, url: nodeUrl, visibility: 'private', privacy_class: 'private', node_class: 'gpu' }
  const { node_id } = await admin<{ readonly node_id: string }>('POST', '/nodes', node)
  await until('the node to be ready', async () => {
    const { state } = await admin<{ readonly state: string }>('GET', `/nodes/${node_id}`)
    return state === 'ready'
  })
  return made.gateway_key
}

async function gatewayBefore(nodeUrl: string, cpu: string | null): Promise<Gateway> {
  const folder = temporaryFolder()
  const data = join(folder, 'data')
  const viewerTokens = Array.from({ length: Math.ceil(consolesOpen / consolesPerTokenMax) }, () => newToken('viewer'))
  const env = { SVC_VIEWER_TOKENS: viewerTokens.join(',') }
  const { program, url } = await startGateway(data, join(folder, 'gateway.log'), cpu, env)
  const credentials = join(data, 'credentials.json')
  const key = await furnish(adminOf(url, credentials), nodeUrl)
  const chat = `${url}/v1/api/chat/completions`
  const target: Target = {
    ...ordinary,
    name: 'Penstock',
    url: chat,
    key,
    pid: program.pid,
    sidePids: () => [],
    stop: program.stop,
  }
  return { url, viewerTokens, target }
}

/** Consoles that read all they are sent; resolves when each has its snapshot. Returns what closes them. */
async function openConsoles({ url, viewerTokens }: Gateway, count: number): Promise<() => void> {
  const ending = new AbortController()
  const opened = Array.from({ length: count }, async (_, at) => {
    const response = await fetch(`${url}/v1/admin/inspect`, {
      headers: { 'x-svc-admin-token': viewerTokens[at % viewerTokens.length] ?? '' },
      signal: ending.signal,
    })
    if (response.status !== 200 || response.body === null) throw new Error(`a console was answered ${response.status}`)
    const reader = response.body.getReader()
    await reader.read()
    const drain = async (): Promise<void> => {
      while (!(await reader.read()).done);
    }
    drain().catch(() => {})
  })
  await Promise.all(opened)
  return () => ending.abort()
}

/** Samples of the same index belong to the same round. */
export interface ConsoleSamples {
  readonly none: readonly Sample[]
  readonly many: readonly Sample[]
}

/** With consoles divided by without, within each round, then the median; what disturbs a round disturbs both. */
export function consoleRows(name: CaseName, { none, many }: ConsoleSamples): readonly string[][] {
  return cases[name].columns
    .filter((column) => !column.endsWith('All'))
    .map((column) => {
      const { head, of } = columns[column]
      const ratio = median(many.map((sample, round) => of(sample) / of(none[round] ?? sample)))
      const errors = [...none, ...many].reduce((sum, sample) => sum + errorsOf(sample), 0)
      const [without, withThem] = [median(none.map(of)), median(many.map(of))]
      return [`${name}: ${head}`, show(column, without), show(column, withThem), ratio.toFixed(2), String(errors)]
    })
}

async function compareCase(rig: Rig, gateway: Gateway, name: CaseName, options: Options): Promise<ConsoleSamples> {
  const samples = { none: [] as Sample[], many: [] as Sample[] }
  for (let round = 0; round < options.rounds; round++) {
    // Nobody is always first.
    const turns = round % 2 === 0 ? (['none', 'many'] as const) : (['many', 'none'] as const)
    for (const turn of turns) {
      const close = await openConsoles(gateway, turn === 'many' ? consolesOpen : 0)
      samples[turn].push(await measure(rig, gateway.target, cases[name], options.secs))
      close()
      process.stderr.write(`${name} ${round + 1} ${turn === 'many' ? consolesOpen : 0} consoles\n`)
      await Bun.sleep(settleMs)
    }
  }
  return samples
}

export async function compareConsoles(options: Options): Promise<string> {
  const rows: string[][] = []
  try {
    const loadCpu = options.pin?.loadCpu ?? null
    const rig: Rig = { loadgen: build('loadgen'), mock: await startMock(loadCpu), pin: options.pin }
    const gateway = await gatewayBefore(rig.mock.url(0), options.pin?.proxyCpu ?? null)
    await check(rig, gateway.target)
    process.stderr.write('warming up …\n')
    await warmUp(rig, gateway.target, options.warmupSecs)
    for (const name of measured.filter((each) => options.cases.includes(each)))
      rows.push(...consoleRows(name, await compareCase(rig, gateway, name, options)))
  } finally {
    await stopAll()
  }
  const load = `${options.rounds} rounds of ${options.secs} s; the consoles read in the process of the bench, on the same machine`
  const head = ['case', 'no console', `${consolesOpen} consoles`, 'with ÷ without', 'errors']
  return ['## Consoles', circumstances(load), markdown(head, rows)].join('\n\n')
}
