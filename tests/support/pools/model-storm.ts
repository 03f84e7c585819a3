import { readFileSync } from 'node:fs'
import type { TestGateway } from '../gateways/gateway.ts'
import type { ModelFolder } from '../nodes/model-files.ts'

export interface StormOptions {
  readonly gateway: TestGateway
  readonly key: string
  readonly models: readonly string[]
  readonly requests: number
  readonly clients: number
  /** 0 to 1, the same in every run. */
  readonly random: () => number
  /** How often a client asks again, as the published clients do, when the answer says that it may help. */
  readonly retriesMax: number
  /** More of each request. */
  readonly more?: object
  /** What a good answer has in it; the first group is kept. By default what the small script says. */
  readonly said?: RegExp
  /** Called with how many requests have been answered. */
  readonly answered?: (count: number) => void
}

export interface StormReport {
  /** The models in the order in which they were first asked for. */
  readonly order: readonly string[]
  /** What each answer says: which model, which process. */
  readonly answers: readonly string[]
  readonly failures: readonly string[]
  readonly retries: number
}

const retryAfterMsMax = 2_000
const scriptSaid = /"content":"(\S+ from \d+)/

/** Clients that each ask for one model after the other, chosen at random, streamed or whole. */
export async function modelStorm(options: StormOptions): Promise<StormReport> {
  const { gateway, key, models, requests, clients, random, retriesMax, answered } = options
  const { more = {}, said: pattern = scriptSaid } = options
  const order: string[] = []
  const answers: string[] = []
  const failures: string[] = []
  let retries = 0
  const ask = async (model: string, stream: boolean): Promise<string> => {
    for (let tries = 0; ; tries++) {
      const body = { model, stream, messages: [{ role: 'user', content: 'which?' }], ...more }
      const response = await gateway.chat(key, body).catch(() => null)
      const text = (await response?.text().catch(() => '')) ?? ''
      const said = pattern.exec(text)?.[1]
      if (response?.status === 200 && said !== undefined) return said
      if (tries >= retriesMax) throw new Error(`${response?.status}: ${text.slice(0, 300)}`)
      retries++
      await Bun.sleep(Math.min(retryAfterMsMax, Number(response?.headers.get('retry-after') ?? 0.2) * 1_000))
    }
  }
  const client = async () => {
    while (order.length < requests) {
      const model = models[Math.floor(random() * models.length)] ?? ''
      order.push(model)
      await ask(model, random() < 0.5).then(
        (said) => {
          answers.push(said)
          answered?.(answers.length)
        },
        (error: unknown) => failures.push(String(error)),
      )
    }
  }
  await Promise.all(Array.from({ length: clients }, client))
  return { order, answers, failures, retries }
}

/**
 * How many loads nobody could do without who serves the requests in this order with room for `capacity` models, and knows
 * the future: Belady's rule, which lets go of the model that is needed last.
 */
export function unavoidableLoads(order: readonly string[], capacity: number): number {
  const held = new Set<string>()
  let loads = 0
  for (const [at, model] of order.entries()) {
    if (held.has(model)) continue
    loads++
    if (held.size >= capacity) {
      const next = (one: string) => {
        const found = order.indexOf(one, at)
        return found === -1 ? Number.POSITIVE_INFINITY : found
      }
      const [last = ''] = [...held].sort((a, b) => next(b) - next(a))
      held.delete(last)
    }
    held.add(model)
  }
  return loads
}

export interface MemoryWatch {
  /** Processes that were seen, by model. */
  readonly seen: ReadonlyMap<number, string>
  /** The most that were there at one time, and the most memory they took, MiB. */
  readonly processesMax: number
  readonly residentMbMax: number
  stop(): Promise<void>
}

const everyMs = 20

function residentMb(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1_024
  } catch {
    return 0
  }
}

/** Looks at the model servers of a folder all the time. */
export function watchMemory(folder: ModelFolder): MemoryWatch {
  const seen = new Map<number, string>()
  const state = { processesMax: 0, residentMbMax: 0 }
  let stopped = false
  const look = () => {
    const first = [...folder.running()].flatMap(([model, pids]) => pids.map((pid) => [pid, model] as const))
    for (const [pid, model] of first) seen.set(pid, model)
    if (first.length <= state.processesMax && first.length < 2) return
    // One look takes a while: only those count that were there from its beginning to the end of the next.
    const still = new Set([...folder.running().values()].flat())
    const both = first.filter(([pid]) => still.has(pid))
    state.processesMax = Math.max(state.processesMax, both.length)
    state.residentMbMax = Math.max(
      state.residentMbMax,
      both.reduce((mb, [pid]) => mb + residentMb(pid), 0),
    )
  }
  const watching = (async () => {
    while (!stopped) {
      look()
      await Bun.sleep(everyMs)
    }
  })()
  return {
    seen,
    get processesMax() {
      return state.processesMax
    },
    get residentMbMax() {
      return state.residentMbMax
    },
    stop: () => {
      stopped = true
      return watching
    },
  }
}
