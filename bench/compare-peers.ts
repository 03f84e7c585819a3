import { type CaseName, cases } from './cases.ts'
import { type ColumnName, columns, show } from './columns.ts'
import { check, errorsOf, measure, type Rig, type Sample, warmUp } from './measure.ts'
import type { Options } from './options.ts'
import { isInstalled, type Peer, peers, startPeer } from './peers.ts'
import { circumstances } from './results.ts'
import { build, cpuSeconds, startMock, stopAll } from './rig.ts'
import { markdown, median } from './table.ts'
import { gatewayOn, startRaw, type Target } from './targets.ts'

const compared: readonly CaseName[] = ['json1', 'json64', 'stream', 'short']
/** A gateway is at rest when it takes less of a core than this, over so long. */
const restCores = 0.05
const lookMs = 250
const restMsMax = 30_000
/** The node answers on eight ports: three are taken, one is its own. */
const freeMockPorts = 4
/** The first one is divided by each of the others. */
const own = 'Penstock'

const allCpu: Partial<Record<ColumnName, string>> = {
  cpuRequestAll: 'CPU s/1,000 req, all processes',
  cpuChunkAll: 'CPU µs/chunk, all processes',
}

type ByTarget = ReadonlyMap<string, readonly Sample[]>

/** Each has the machine to itself while it is measured; the others wait, with the connections that they keep. */
async function startAll(rig: Rig, installed: readonly Peer[]): Promise<readonly Target[]> {
  const cpu = rig.pin?.proxyCpu ?? null
  const targets = [await gatewayOn([rig.mock.url(2)], { cpu })(), await startRaw(rig.mock, cpu)]
  for (const [at, peer] of installed.entries())
    targets.push(await startPeer(peer, rig.mock.url(3 + (at % freeMockPorts)), cpu))
  return targets
}

/** One that was asked for more than it can do works on for seconds, on the CPU of the next. */
async function rest(target: Target): Promise<void> {
  const used = () => [target.pid, ...target.sidePids()].reduce((sum, pid) => sum + cpuSeconds(pid), 0)
  for (const began = performance.now(); performance.now() - began < restMsMax; ) {
    const before = used()
    await Bun.sleep(lookMs)
    if (used() - before < (restCores * lookMs) / 1_000) return
  }
}

async function roundsOf(rig: Rig, targets: readonly Target[], name: CaseName, options: Options): Promise<ByTarget> {
  const samples = new Map<string, Sample[]>(targets.map((target) => [target.name, []]))
  for (let round = 0; round < options.rounds; round++) {
    for (const [at] of targets.entries()) {
      const target = targets[(at + round) % targets.length] as Target
      const sample = await measure(rig, target, cases[name], options.secs)
      samples.get(target.name)?.push(sample)
      process.stderr.write(
        `${name} ${round + 1} ${target.name}: ${sample.rps.toFixed(0)}/s, ${errorsOf(sample)} errors\n`,
      )
      await rest(target)
    }
  }
  return samples
}

/** Penstock divided by it, within each round, then the median. */
function times(samples: ByTarget, name: string, column: ColumnName): string {
  const { of } = columns[column]
  const theirs = samples.get(name) ?? []
  const value = median((samples.get(own) ?? []).map((sample, round) => of(sample) / of(theirs[round] ?? sample)))
  return name === own || !Number.isFinite(value) ? '' : value.toFixed(2)
}

function tableOf(name: CaseName, samples: ByTarget): string {
  const { about, columns: all } = cases[name]
  // A server's work may be that of its children.
  const shown = all.filter((column) => column !== 'cpuRequest' && column !== 'cpuChunk')
  const leading = shown[0] ?? 'rps'
  const rows = [...samples].map(([target, rounds]) => [
    target,
    ...shown.map((column) => show(column, median(rounds.map(columns[column].of)))),
    times(samples, target, leading),
    String(rounds.reduce((sum, sample) => sum + errorsOf(sample), 0)),
  ])
  const headOf = (column: ColumnName) => allCpu[column] ?? columns[column].head
  const head = ['', ...shown.map(headOf), `${own} ÷ it, ${columns[leading].head}`, 'errors']
  return `### ${name}: ${about}\n\n${markdown(head, rows)}`
}

/** Other gateways in the same run, those that are installed here. */
export async function comparePeers(options: Options): Promise<string> {
  const [installed, absent] = [peers.filter(isInstalled), peers.filter((peer) => !isInstalled(peer))]
  for (const { name, install } of absent) process.stderr.write(`${name} is not installed: ${install}\n`)
  const { pin, rounds, secs, warmupSecs } = options
  const rig: Rig = { loadgen: build('loadgen'), mock: await startMock(pin?.loadCpu ?? null), pin }
  try {
    const targets = await startAll(rig, installed)
    for (const target of targets) {
      await check(rig, target)
      await warmUp(rig, target, warmupSecs)
    }
    const tables: string[] = []
    for (const name of options.cases.filter((one) => compared.includes(one))) {
      tables.push(tableOf(name, await roundsOf(rig, targets, name, options)))
    }
    const how = `${rounds} rounds of ${secs} s after ${warmupSecs} s of warm-up each · ${pin === null ? 'not pinned' : 'gateways on one CPU, node and load on the other'}`
    const missing = absent.length === 0 ? [] : [`Not installed: ${absent.map(({ name }) => name).join(', ')}.`]
    return ['## Peers', circumstances(how), ...missing, ...tables].join('\n\n')
  } finally {
    await stopAll()
  }
}
