import { closeSync, mkdirSync, openSync, readFileSync, truncateSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { Pull, PullList } from '../src/protocol/wire/nodes/pulls.ts'
import { settings } from '../src/settings/table.ts'
import { ggufFile } from '../tests/support/nodes/gguf-file.ts'
import { type BenchGateway, benchGateway, runtimeNode, targetOf } from './agents.ts'
import { type CaseName, cases } from './cases.ts'
import { check, errorsOf, measure, type Rig, type Sample, warmUp } from './measure.ts'
import type { Options } from './options.ts'
import { circumstances } from './results.ts'
import { build, launch, RigError, root, saidBy, startMock, stopAll, temporaryFolder, until } from './rig.ts'
import { markdown, median } from './table.ts'
import { freePort, type Target } from './targets.ts'

/** What passes the gateway beside the requests: nothing, a copy at the bound that is shipped, a copy without a bound. */
const turnNames = ['no copy', 'bounded', 'unbounded'] as const
type Turn = (typeof turnNames)[number]

const measured: readonly CaseName[] = ['stream', 'short']
const unboundedBytes = 10_000_000_000
/** Larger than what passes in all rounds; most of it is a hole in the file. */
const modelBytes = 6_000_000_000
const bytesOfMb = 1_000_000
const settleMs = 150
/** Of Linux's clock of processor time, ms. */
const tickMs = 10

interface Copying {
  readonly gateway: BenchGateway
  readonly target: Target
  readonly from: string
  readonly to: string
}

/** An agent that only dials out, as most in homes are. */
async function agent({ url, admin, customerId }: BenchGateway, models: readonly object[], more: readonly string[]) {
  const folder = join(temporaryFolder(), 'node')
  mkdirSync(folder, { mode: 0o700 })
  writeFileSync(join(folder, 'models.json'), JSON.stringify({ memory_mb: 64_000, models }))
  const { enrollment_token: token } = await admin<{ readonly enrollment_token: string }>('POST', '/enrollment-tokens', {
    ...{ customer_id: customerId, name: 'bench', visibility: 'private', node_class: 'gpu' },
    ...{ privacy_class: 'private', endpoint_url_allowed: false },
  })
  const program = launch([
    ...[process.execPath, join(root, 'src/cli/main.ts'), 'node', '--gateway', url, '--token', token],
    ...['--data-dir', folder, '--listen', `127.0.0.1:${freePort()}`, '--no-discover', ...more],
  ])
  const [, nodeId = ''] = await saidBy(program, /This node is .*?(node_\w+)/)
  return nodeId
}

function largeModel(): string {
  const path = join(temporaryFolder(), 'large.gguf')
  const file = openSync(path, 'w')
  writeSync(file, ggufFile(100_000))
  closeSync(file)
  truncateSync(path, modelBytes)
  return path
}

async function start(rig: Rig, env: Readonly<Record<string, string>>, path: string): Promise<Copying> {
  const gateway = await benchGateway(env)
  const target = await targetOf(gateway, await runtimeNode(gateway, rig.mock.url(0)))
  // Any hash will do: it is compared at the end of a copy, and no copy ends here.
  const files = [{ path, sha256: '0'.repeat(64) }]
  const from = await agent(
    gateway,
    [{ id: 'large', command: ['false', '{port}'], memory_mb: 1, files }],
    ['--give-models'],
  )
  const command = JSON.stringify(['false', '{file}', '{port}'])
  const to = await agent(gateway, [], ['--pull-from', 'nodes', '--pull-command', command])
  return { gateway, target, from, to }
}

/** Resolves when its first bytes have come. */
async function beginCopy({ gateway: { admin }, from, to }: Copying) {
  let pull: Pull | null = null
  await until('the copy to be ordered', async () => {
    const body = { model: 'large', to }
    pull = (await admin<{ readonly pull: Pull }>('POST', `/nodes/${from}/models/copy`, body)).pull
    return true
  })
  const id = (pull as Pull | null)?.pull_id ?? ''
  const look = async () => {
    const { pulls } = await admin<PullList>('GET', `/nodes/${to}/pulls`)
    const found = pulls.find(({ pull_id }) => pull_id === id)
    if (found?.state === 'failed' || found?.state === 'done') throw new RigError(`the copy is over: ${found.failure}`)
    return found?.bytes_done ?? 0
  }
  const before = await look()
  await until('its bytes', async () => (await look()) > before)
  const beganMs = performance.now()
  const began = await look()
  return async () => {
    const mbPerSecond = ((await look()) - began) / bytesOfMb / ((performance.now() - beganMs) / 1_000)
    await admin('POST', `/nodes/${to}/pulls/${id}/cancel`)
    return mbPerSecond
  }
}

/** Processor time of a process, ms. */
function cpuMs(pid: number): number {
  const [, rest = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
  const fields = rest.split(' ')
  return (Number(fields[11]) + Number(fields[12])) * tickMs
}

/** Alone it goes as fast as it can: what it takes of the gateway says how much of it stands beside requests at the bound, on any machine. */
async function costMs(copying: Copying, secs: number): Promise<number> {
  const { pid } = copying.gateway
  const [beforeMs, beganMs] = [cpuMs(pid), performance.now()]
  const end = await beginCopy(copying)
  await Bun.sleep(secs * 1_000)
  const mb = ((await end()) * (performance.now() - beganMs)) / 1_000
  return (cpuMs(pid) - beforeMs) / mb
}

function costInWords(costs: readonly number[]): string {
  const each = median(costs)
  const share = (each * (settings.SVC_COPY_BYTES_PER_SECOND.default / bytesOfMb)) / 10
  return `A copied MB costs the gateway ${each.toFixed(1)} ms of processor time: at the bound, copies take ${share.toFixed(0)} % of one core.`
}

interface Measured {
  readonly sample: Sample
  readonly mbPerSecond: number
}

async function measureTurn(rig: Rig, copying: Copying, turn: Turn, name: CaseName, secs: number): Promise<Measured> {
  const end = turn === 'no copy' ? null : await beginCopy(copying)
  const sample = await measure(rig, copying.target, cases[name], secs)
  return { sample, mbPerSecond: (await end?.()) ?? 0 }
}

function rows(name: CaseName, results: ReadonlyMap<Turn, readonly Measured[]>): string[][] {
  const without = results.get('no copy') ?? []
  return turnNames.map((turn) => {
    const all = results.get(turn) ?? []
    const at = (of: (one: Measured) => number | undefined) => median(all.map((one) => of(one) ?? Number.NaN))
    const p99 = ({ sample }: Measured) => (sample.ttft?.p99 ?? Number.NaN) / 1_000
    // Within each round: what disturbs a round disturbs both.
    const ratio = median(all.map((one, round) => p99(one) / p99(without[round] ?? one)))
    return [
      `${name}: ${turn}`,
      at(({ sample }) => (sample.ttft?.p50 ?? Number.NaN) / 1_000).toFixed(1),
      at(p99).toFixed(1),
      ratio.toFixed(2),
      at(({ sample }) => sample.rps).toFixed(0),
      turn === 'no copy' ? '–' : at(({ mbPerSecond }) => mbPerSecond).toFixed(0),
      String(all.reduce((sum, { sample }) => sum + errorsOf(sample), 0)),
    ]
  })
}

/** Two agents and the gateway between them, and requests of others through the same process. */
export async function benchCopies(options: Options): Promise<string> {
  const lines: string[][] = []
  const costs: number[] = []
  try {
    const rig: Rig = { loadgen: build('loadgen'), mock: await startMock(null), pin: null }
    const path = largeModel()
    const bounded = await start(rig, {}, path)
    const unbounded = await start(rig, { SVC_COPY_BYTES_PER_SECOND: String(unboundedBytes) }, path)
    for (const { target } of [bounded, unbounded]) {
      await check(rig, target)
      await warmUp(rig, target, options.warmupSecs)
    }
    for (let round = 0; round < options.rounds; round++) costs.push(await costMs(bounded, options.secs))
    for (const name of measured.filter((each) => options.cases.includes(each))) {
      const results = new Map<Turn, Measured[]>(turnNames.map((turn) => [turn, []]))
      for (let round = 0; round < options.rounds; round++) {
        for (const at of turnNames.keys()) {
          const turn = turnNames[(round + at) % turnNames.length] ?? 'no copy'
          const copying = turn === 'unbounded' ? unbounded : bounded
          results.get(turn)?.push(await measureTurn(rig, copying, turn, name, options.secs))
          process.stderr.write(`${name} ${round + 1} ${turn}\n`)
          await Bun.sleep(settleMs)
        }
      }
      lines.push(...rows(name, results))
    }
  } finally {
    await stopAll()
  }
  const load = `${options.rounds} rounds of ${options.secs} s; gateways, agents, node and load share the machine`
  const head = ['case', 'first token p50 ms', 'p99 ms', 'p99 ÷ no copy', 'requests/s', 'copy MB/s', 'errors']
  return ['## Copies of models', circumstances(load), markdown(head, lines), costInWords(costs)].join('\n\n')
}
