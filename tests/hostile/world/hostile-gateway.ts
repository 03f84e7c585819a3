import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { startTestGateway, type TestGateway } from '../../support/gateways/gateway.ts'
import { residentBytes } from '../../support/gateways/gateway-process.ts'
import type { FromGateway, Pulse, ToGateway } from './gateway-words.ts'
import type { Stall } from './loop-monitor.ts'
import { MarkerWatch } from './markers.ts'

/** The gateway as shipped, in a process of its own, and all that it shows of itself. */
export interface HostileGateway extends TestGateway {
  readonly hostname: string
  readonly port: number
  readonly pid: number
  readonly stalls: readonly Stall[]
  /** Markers in its log, and its lines of the level `error`. */
  readonly logFaults: string[]
  /** Ended although nobody asked for it. */
  readonly dead: boolean
  /** After this, what has stalled until now is in `stalls`. */
  pulse(options?: { readonly collect: boolean }): Promise<Pulse>
  descriptors(): number
  residentBytes(): number
  /** Processor time of the process so far, ms. */
  cpuMs(): number
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

const root = resolve(import.meta.dir, '..', '..', '..')
const main = join(import.meta.dir, 'gateway-main.ts')
/** A frozen gateway answers late; the stall itself is the finding. */
const pulseMsMax = 120_000

export function startHostileGateway(): Promise<HostileGateway> {
  return startGatewayWithPulse(impatient)
}

export async function startGatewayWithPulse(env: Readonly<Record<string, string>>): Promise<HostileGateway> {
  const watched = new WatchedProcess()
  const gateway = await startTestGateway({ env, launch: (given) => watched.launch(given) })
  const { hostname, port } = new URL(gateway.url)
  return {
    ...gateway,
    hostname,
    port: Number(port),
    stalls: watched.stalls,
    logFaults: watched.logFaults,
    get dead() {
      return watched.dead
    },
    pulse: (options) => watched.pulse(options?.collect ?? false),
    descriptors: () => readdirSync(`/proc/${watched.pid}/fd`).length,
    residentBytes: () => residentBytes(watched.pid),
    cpuMs: () => cpuMs(watched.pid),
    get pid() {
      return watched.pid
    },
  }
}

/** The system counts hundredths of a second. */
const ticksMs = 10

function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * ticksMs
}

type Child = Bun.Subprocess<'ignore', 'inherit', 'pipe'>

class WatchedProcess {
  readonly stalls: Stall[] = []
  readonly logFaults: string[] = []
  dead = false
  private child: Child | null = null
  private stopping = false
  private asked = 0
  private readonly waiting = new Map<number, (pulse: Pulse) => void>()
  private listening: (url: string) => void = () => {}

  get pid(): number {
    return this.child?.pid ?? 0
  }

  async launch(env: Readonly<Record<string, string>>): Promise<{ url: string; stop(): Promise<void> }> {
    const listening = new Promise<string>((resolve) => {
      this.listening = resolve
    })
    const child = Bun.spawn([process.execPath, main], {
      cwd: root,
      stdio: ['ignore', 'inherit', 'pipe'],
      env: { PATH: process.env.PATH ?? '', ...env },
      ipc: (word: FromGateway) => this.hear(word),
    })
    this.child = child
    const reading = this.readLog(child.stderr)
    void child.exited.then(() => {
      this.dead = !this.stopping
    })
    const url = await Promise.race([
      listening,
      child.exited.then((code) => Promise.reject(new Error(`ended: ${code}`))),
    ])
    return {
      url,
      stop: async () => {
        this.stopping = true
        child.kill('SIGTERM')
        await child.exited
        await reading
      },
    }
  }

  private hear(word: FromGateway): void {
    if (word.kind === 'listening') this.listening(word.url)
    else if (word.kind === 'stall') this.stalls.push(word.stall)
    else this.waiting.get(word.id)?.(word.pulse)
  }

  pulse(collect: boolean): Promise<Pulse> {
    const id = ++this.asked
    return new Promise((resolve, reject) => {
      const giveUp = setTimeout(() => reject(new Error('the gateway has no pulse')), pulseMsMax)
      this.waiting.set(id, (pulse) => {
        clearTimeout(giveUp)
        this.waiting.delete(id)
        resolve(pulse)
      })
      this.child?.send({ id, collect } satisfies ToGateway)
    })
  }

  private async readLog(output: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder()
    const markers = new MarkerWatch((marker) => this.logFaults.push(`marker ${marker} in the log`))
    let rest = ''
    for await (const bytes of output) {
      const text = decoder.decode(bytes, { stream: true })
      markers.push(text)
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) if (isFault(line)) this.logFaults.push(line)
    }
  }
}

/** What is no line of the log was written by somebody who should not: an error that nobody caught. */
function isFault(line: string): boolean {
  return line !== '' && (!line.startsWith('{"ts":') || line.includes('"level":"error"'))
}
