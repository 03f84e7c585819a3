import { batch, signal } from '@preact/signals'
import type {
  InspectEvents,
  LiveNode,
  MachineCounts,
  TrafficPoint,
  Transition,
} from '../../protocol/wire/admin/inspect.ts'
import { callAdmin, Refusal, sessionOver, whyOf } from './api.ts'
import { eventsOf } from './event-stream.ts'
import { role, signOut, token, who } from './session.ts'

export type Connection =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'open' }
  /** `retryAt`: Unix ms. */
  | { readonly kind: 'lost'; readonly why: string; readonly sinceMs: number; readonly retryAtMs: number }

/** The same number of points as on the server. */
const trafficPointsMax = 180
const retryMs = { first: 1_000, max: 30_000 } as const
/** Heartbeats that may be missed before the line counts as dead. */
const heartbeatsMissedMax = 2.5

export const connection = signal<Connection>({ kind: 'connecting' })
/** False until the first snapshot, so that a view shows that it is loading. */
export const hasSnapshot = signal(false)
/** Grows with every snapshot, so that views read again after a lost connection. */
export const snapshots = signal(0)
export const machines = signal<ReadonlyMap<string, MachineCounts>>(new Map())
export const liveNodes = signal<ReadonlyMap<string, LiveNode>>(new Map())
export const traffic = signal<readonly TrafficPoint[]>([])
/** Each batch as it comes; a view that shows histories appends them to what it has read. */
export const moved = signal<readonly Transition[]>([])

type Handlers = { readonly [E in keyof InspectEvents]: (data: InspectEvents[E]) => void }
let heartbeatMs = 10_000

function countMachines(changed: readonly MachineCounts[]): void {
  if (changed.length === 0) return
  machines.value = new Map([...machines.value, ...changed.map((counts) => [counts.machine, counts] as const)])
}

const handlers: Handlers = {
  hello: (data) => {
    heartbeatMs = data.heartbeat_ms
    role.value = data.role
    who.value = data.name
  },
  snapshot: (data) => {
    machines.value = new Map(data.machines.map((counts) => [counts.machine, counts]))
    liveNodes.value = new Map(data.nodes.map((node) => [node.node_id, node]))
    traffic.value = data.traffic
    connection.value = { kind: 'open' }
    hasSnapshot.value = true
    snapshots.value++
  },
  transitions: (data) => {
    countMachines(data.machines)
    moved.value = data.transitions
  },
  pool: ({ changed, removed }) => {
    const next = new Map(liveNodes.value)
    for (const node of changed) next.set(node.node_id, node)
    for (const id of removed) next.delete(id)
    liveNodes.value = next
  },
  traffic: (point) => {
    traffic.value = [...traffic.value, point].slice(-trafficPointsMax)
  },
  end: ({ reason }) => {
    if (reason === 'signed_out') return signOut(sessionOver)
    throw new Error(reason === 'shutdown' ? 'The gateway is stopping' : 'This page fell behind')
  },
}

function handle(event: string, data: string): void {
  const handler = (handlers as Readonly<Record<string, (data: unknown) => void>>)[event]
  if (handler !== undefined) batch(() => handler(JSON.parse(data)))
}

/** Resolves when the stream ended; throws what ended it. */
async function follow(signal: AbortSignal, opened: () => void): Promise<void> {
  const silence = new AbortController()
  let late: ReturnType<typeof setTimeout> | undefined
  const alive = () => {
    clearTimeout(late)
    late = setTimeout(() => silence.abort(new Error('The gateway is silent')), heartbeatMs * heartbeatsMissedMax)
  }
  alive()
  try {
    const response = await callAdmin('/v1/admin/inspect', { signal: AbortSignal.any([signal, silence.signal]) })
    opened()
    if (response.body === null) return
    for await (const { event, data } of eventsOf(response.body, alive)) handle(event, data)
  } finally {
    clearTimeout(late)
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof Refusal || error instanceof TypeError) return whyOf(error)
  return error instanceof Error && error.message !== '' ? error.message : 'The connection broke'
}

/** Ends a wait early, when the operator asks to try at once. */
let wake = () => {}
export const retryNow = (): void => wake()

function waitFor(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    wake = resolve
    signal.addEventListener('abort', () => resolve(), { once: true })
    signal.addEventListener('abort', () => clearTimeout(timer), { once: true })
  })
}

/** Follows the gateway as long as somebody is signed in. Returns what ends it. */
export function followGateway(): () => void {
  const ending = new AbortController()
  const { signal } = ending
  const run = async () => {
    let delayMs: number = retryMs.first
    let sinceMs = 0
    while (!signal.aborted && token.value !== null) {
      try {
        await follow(signal, () => {
          delayMs = retryMs.first
          sinceMs = 0
        })
        throw new Error('The gateway ended the stream')
      } catch (error) {
        if (signal.aborted || token.value === null) return
        sinceMs ||= Date.now()
        // The pause is random, so that the consoles of a restarted gateway do not come back at one moment.
        const pauseMs = delayMs * (0.75 + Math.random() / 2)
        connection.value = { kind: 'lost', why: reasonOf(error), sinceMs, retryAtMs: Date.now() + pauseMs }
        await waitFor(pauseMs, signal)
        delayMs = Math.min(retryMs.max, delayMs * 2)
      }
    }
  }
  void run()
  return () => {
    ending.abort()
    batch(() => {
      connection.value = { kind: 'connecting' }
      hasSnapshot.value = false
      moved.value = []
      machines.value = new Map()
      liveNodes.value = new Map()
      traffic.value = []
    })
  }
}
