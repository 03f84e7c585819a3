import { randomFrom } from '../../../bench/conversations.ts'
import { chatBytes, type Heard, speak } from '../../hostile/world/asker.ts'
import { newMarker } from '../../hostile/world/markers.ts'
import { chatFaults, type Fault } from '../../hostile/world/verdict.ts'
import { waitFor } from '../gateways/gateway.ts'
import type { SoakPool } from './soak-pool.ts'

export const soakKinds = ['whole', 'stream', 'mixture', 'paid', 'paid stream', 'tunnel', 'job'] as const
export type SoakKind = (typeof soakKinds)[number]

/** How often each is drawn, of 100. */
const shares: Readonly<Record<SoakKind, number>> = {
  whole: 28,
  stream: 28,
  mixture: 8,
  paid: 10,
  'paid stream': 10,
  tunnel: 10,
  job: 6,
}
const leavingShare = 0.1
const leavingMsMax = 80
const thinkMs = 60
const jobMsMax = 60_000
const quietMs = 60_000

/** How requests ended: `answered`, `left`, or the code or status of a refusal. */
export type Outcomes = Map<string, number>

function drawKind(random: () => number): SoakKind {
  let at = random() * 100
  for (const kind of soakKinds) {
    at -= shares[kind]
    if (at < 0) return kind
  }
  return 'whole'
}

const bodies: Readonly<Record<Exclude<SoakKind, 'job'>, object>> = {
  whole: { model: 'a' },
  stream: { model: 'a', stream: true },
  mixture: {
    model: 'x',
    svc: { mixture: { strategy: 'vote', experts: [{ model: 'a' }, { model: 'b' }, { model: 'c' }] } },
  },
  paid: { model: 'paid', max_tokens: 20 },
  'paid stream': { model: 'paid', max_tokens: 20, stream: true },
  tunnel: { model: 'sealed', stream: true },
}

const outcomeOf = ({ end, answers: [answer] }: Heard): string => {
  if (end === 'left') return 'left'
  const code = /"error":\{.*?"code":"(\w+)"/.exec(answer?.body ?? '')?.[1]
  return code ?? (answer?.status === 200 ? 'answered' : String(answer?.status))
}

/** So many clients, each with one request at a time, until it is stopped. */
export class SoakLoad {
  readonly outcomes: Outcomes = new Map()
  readonly faults: Fault[] = []
  requests = 0
  private open = 0
  private gate: Promise<void> | null = null
  private running = true
  private readonly random: () => number
  private readonly clients: Promise<unknown>

  constructor(
    private readonly pool: SoakPool,
    clients: number,
    seed: number,
  ) {
    this.random = randomFrom(seed)
    this.clients = Promise.all(Array.from({ length: clients }, () => this.client()))
  }

  /** Asks so many times, one after the other at each of `clients`, and as fast as it goes. */
  static async fill({ gateway, customer }: SoakPool, clients: number, requests: number): Promise<void> {
    let left = requests
    const ask = async () => {
      while (left-- > 0) {
        const body = JSON.stringify({ ...bodies.whole, messages: [{ role: 'user', content: newMarker() }] })
        await speak(gateway, { writes: [chatBytes(gateway, customer.key, body)] })
      }
    }
    await Promise.all(Array.from({ length: clients }, ask))
  }

  private async client(): Promise<void> {
    while (this.running) {
      await this.gate
      this.open++
      const kind = drawKind(this.random)
      const outcome = await (kind === 'job' ? this.job() : this.chat(kind))
      this.open--
      this.requests++
      const name = `${kind}: ${outcome}`
      this.outcomes.set(name, (this.outcomes.get(name) ?? 0) + 1)
      await Bun.sleep(thinkMs * 2 * this.random())
    }
  }

  private async chat(kind: Exclude<SoakKind, 'job'>): Promise<string> {
    const { gateway, customer, payer } = this.pool
    const marker = newMarker()
    const body = { ...bodies[kind], messages: [{ role: 'user', content: marker }] }
    const { key } = kind.startsWith('paid') ? payer : customer
    const leaves = this.random() < leavingShare
    const heard = await speak(gateway, {
      writes: [chatBytes(gateway, key, JSON.stringify(body))],
      ...(leaves ? { leaveAfterMs: leavingMsMax * this.random() } : {}),
    })
    this.faults.push(...chatFaults(heard, [marker]))
    return outcomeOf(heard)
  }

  private async job(): Promise<string> {
    const { jobs, agent } = this.pool
    const { nodeId, node } = agent
    const signal = AbortSignal.timeout(jobMsMax)
    const chat = { messages: [{ role: 'user', content: 'sealed' }] }
    try {
      const job = await jobs.submit({ nodeId, fingerprint: node.fingerprint, modelId: 'sealed', chat, signal })
      const { status } = await jobs.wait(job, { pollMs: 100, signal })
      return status === 'completed' ? 'answered' : status
    } catch (error) {
      const { code, name } = error as { code?: unknown; name?: unknown }
      return String(code ?? name)
    }
  }

  /** Nobody asks while `work` runs. */
  async paused<T>(work: () => Promise<T>): Promise<T> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.gate = promise
    await waitFor('all to have their answers', () => this.open === 0, quietMs)
    try {
      return await work()
    } finally {
      this.gate = null
      resolve()
    }
  }

  async stop(): Promise<void> {
    this.running = false
    await this.clients
  }
}
