import { spawn } from 'node:child_process'
import type { Case } from './cases.ts'
import { type Mock, onCpu } from './rig.ts'
import type { Target } from './targets.ts'

/** µs. */
export interface Spread {
  readonly p50: number
  readonly p99: number
}

/** One line of bench/rig/loadgen.c, and how long an abort took. */
export interface Sample {
  /** Requests answered as they should be. */
  readonly ok: number
  readonly rps: number
  readonly chunks_s: number
  readonly err: { readonly connect: number; readonly status: number; readonly short: number; readonly reset: number }
  /** The first answer that was not as it should be. */
  readonly bad?: string
  readonly open: number
  readonly lat: Spread
  readonly ttft?: Spread
  readonly added?: Spread
  readonly cpu_us_req?: number
  readonly cpu_us_chunk?: number
  /** Of the processes beside the target. */
  readonly cpu2_us_req?: number
  readonly cpu2_us_chunk?: number
  readonly rss0_mb?: number
  readonly rss_end_mb?: number
  readonly let_go_ns: string
  /** Of the load generator itself. */
  readonly self_cpu_pct: number
  /** From the first client that closed to the last stream that the node saw closed; Infinity: it reads on for nobody. */
  readonly abortMs?: number
}

/** Sent with every request, to every target alike: the gateway must take it out. */
const routing = '"svc":{"job_id":"bench-job","dispatch_mode":"pooled_sync"}'
const longestMs = 120_000
const abortWaitMs = 10_000

function loadgen(program: string, target: Target, load: readonly string[], cpu: string | null): Promise<string> {
  const side = target.sidePids()
  const extra = target.routed ? ['--extra', routing] : []
  const headers = target.headers.flatMap((line) => ['--header', line])
  const what = ['--url', target.url, '--model', target.model, '--key', target.key, ...extra, ...headers]
  const watched = ['--pids', String(target.pid), ...(side.length > 0 ? ['--pids2', side.join(',')] : [])]
  const [command = '', ...args] = onCpu(cpu, [program, ...what, ...watched, ...load])
  return new Promise((done, fail) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], timeout: longestMs, killSignal: 'SIGKILL' })
    let said = ''
    let complaint = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      complaint += text
    })
    child.on('error', fail)
    child.on('close', (code) => {
      if (code === 0) done(said)
      else fail(new Error(`loadgen on ${target.name}: ${code ?? 'killed'} ${complaint}`))
    })
  })
}

export interface Rig {
  readonly loadgen: string
  readonly mock: Mock
  readonly pin: { readonly proxyCpu: string; readonly loadCpu: string } | null
}

/** The direct client sits where the proxies sit, so that it too crosses from one CPU to the other. */
const clientCpu = ({ pin }: Rig, target: Target) =>
  pin === null ? null : target.name === 'direct' ? pin.proxyCpu : pin.loadCpu

export async function measure(rig: Rig, target: Target, what: Case, secs: number): Promise<Sample> {
  const duration = String(Math.max(secs, what.secsMin ?? 0))
  const said = await loadgen(rig.loadgen, target, [...what.load, '--secs', duration], clientCpu(rig, target))
  const sample = JSON.parse(said) as Sample
  if (what.hold === undefined) return sample
  return { ...sample, abortMs: await abortMs(rig.mock, BigInt(sample.let_go_ns)) }
}

async function abortMs(mock: Mock, letGoNs: bigint): Promise<number> {
  const endMs = performance.now() + abortWaitMs
  while (performance.now() < endMs) {
    const stats = await mock.stats()
    if (stats.open_streams === 0) return Number(BigInt(stats.last_abort_ns) - letGoNs) / 1e6
    await Bun.sleep(5)
  }
  return Number.POSITIVE_INFINITY
}

export const errorsOf = ({ err }: Sample): number => err.connect + err.status + err.short + err.reset

/** Parts of a warm-up and their share of its time. */
const warmups: readonly (readonly [readonly string[], number])[] = [
  [['--mode', 'json', '--conns', '64'], 0.4],
  [['--mode', 'json', '--conns', '8', '--pad', '100000'], 0.15],
  [['--mode', 'stream', '--conns', '64', '--n', '20', '--us', '1000'], 0.3],
  [['--mode', 'stream', '--conns', '64', '--n', '5', '--us', '0'], 0.15],
]
/** Measured on a busy machine: 20,000 requests in, the JIT still took a third of the CPU. */
const warmupRequests = 50_000
const warmupTurnsMax = 4

/** It is the requests that warm a JIT, not the time: where something else takes the CPU, more turns follow. */
export async function warmUp(rig: Rig, target: Target, secs: number): Promise<void> {
  if (secs === 0) return
  let answered = 0
  for (let turn = 0; turn < warmupTurnsMax && answered < warmupRequests; turn++) {
    for (const [load, share] of warmups) {
      const paced = [...load, '--warm', '0', '--secs', String(secs * share)]
      const said = await loadgen(rig.loadgen, target, paced, clientCpu(rig, target))
      answered += (JSON.parse(said) as Sample).ok
    }
  }
}

export const headersOf = ({ key, headers }: Target): Headers =>
  new Headers([
    ['authorization', `Bearer ${key}`],
    ['content-type', 'application/json'],
    ...headers.map((line) => line.split(': ', 2) as [string, string]),
  ])

/** Throws unless the target answers as the node does, in one body and as a stream. */
export async function check(rig: Rig, target: Target): Promise<void> {
  for (const stream of [false, true]) {
    const chunks = 3
    const answer = await fetch(target.url, {
      method: 'POST',
      headers: headersOf(target),
      body: `{"model":"${target.model}","messages":[{"role":"user","content":"[[bench n=${chunks} tok=4]] hello"}],"stream":${stream}${target.routed ? `,${routing}` : ''}}`,
    })
    const text = await answer.text()
    const marks = text.match(/@t\d{19}@/g)?.length ?? 0
    const whole = stream ? marks === chunks && text.includes('[DONE]') : marks === 1
    if (answer.status !== 200 || !whole)
      throw new Error(`${target.name} does not answer: ${answer.status} ${text.slice(0, 300)}`)
    if (target.name === 'Penstock' && (await rig.mock.lastBody()).includes('"svc"'))
      throw new Error('Penstock sent svc to the node')
  }
}
