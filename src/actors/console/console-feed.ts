import type { Clock } from '../../clock.ts'
import { type Loop, loop } from '../../host/loop.ts'
import { failureName, type Log } from '../../log.ts'
import type { InspectEvents, LiveNode, MachineCounts, Transition } from '../../protocol/wire/admin/inspect.ts'
import { isoTime } from '../../time.ts'
import type { Inspector } from '../telemetry/inspect.ts'
import type { Transition as Moved } from '../telemetry/transition-ring.ts'
import { ConsoleClient } from './console-client.ts'
import { type DurableChart, DurableCounts } from './durable-counts.ts'
import type { TrafficSeries } from './traffic.ts'

export interface ConsoleFeedOptions {
  readonly inspector: Inspector
  readonly traffic: TrafficSeries
  readonly nodes: () => readonly LiveNode[]
  /**
   * By statechart. The feed reads their rows while a console is open: every few seconds, and sooner when something
   * moves.
   */
  readonly durable: Readonly<Record<string, DurableChart>>
  readonly log: Log
  readonly clock?: Clock
}

export interface OpenConsole {
  readonly role: InspectEvents['hello']['role']
  readonly name: InspectEvents['hello']['name']
  /** True once the caller's session or token has ended: so does the stream. */
  readonly isGone: () => boolean
  /** Called when the console was ended because it fell behind. What waits for it must not wait for ever. */
  readonly dropped: () => void
  /** Called once, whatever ended the console. */
  readonly ended: () => void
}

/**
 * Everything that moves within this time becomes one event, so that many transitions cost one encoding for all
 * consoles.
 */
const coalesceMs = 100
const poolTicks = 10
/** How often the feed asks whether each console may still be open. */
const goneTicks = 5
const rowsTicks = { moved: 10, quiet: 50 } as const
export const heartbeatMs = 10_000
const heartbeatTicks = heartbeatMs / coalesceMs
/** How many transitions one event has. Faster ones are counted and not listed. */
export const transitionsPerEventMax = 500

const encoder = new TextEncoder()
const heartbeat = encoder.encode(': alive\n\n')
function encoded<E extends keyof InspectEvents>(event: E, data: InspectEvents[E]): Uint8Array {
  return encoder.encode(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
}

const nothing = { live: new Map<string, number>(), entered: new Map<string, number>(), version: 0 }
const onWire = ({ at, ...moved }: Moved): Transition => ({ ...moved, at: isoTime(at) })

/** The one live stream of the operators' consoles. */
export class ConsoleFeed {
  private readonly clients = new Map<ConsoleClient, OpenConsole>()
  private pending: Moved[] = []
  private skipped = 0
  /** What the consoles heard last: versions of the counts by statechart, and nodes by id. */
  private readonly versions = new Map<string, number>()
  private sent = new Map<string, string>()
  private durable: ReadonlyMap<string, DurableCounts> = new Map()
  /** The versions of the counts when the rows of a statechart were read last. */
  private readonly readAt = new Map<string, number>()
  private ticks = 0
  private readonly ticking: Loop
  private readonly endings: (() => void)[] = []
  private stopped = false
  /** The snapshot is valid until the next event. Consoles that connect at the same time share it. */
  private shot: Uint8Array | null = null

  constructor(private readonly options: ConsoleFeedOptions) {
    this.ticking = loop({ everyMs: coalesceMs, run: () => this.tick(), clock: options.clock })
  }

  get size(): number {
    return this.clients.size
  }

  /** Returns null if the gateway is stopping. `ConsoleSeats` bounds how many are open. */
  open(console: OpenConsole): ReadableStream<Uint8Array> | null {
    if (this.stopped) return null
    // Pending changes are sent first, so that they do not come again after a snapshot that contains them.
    this.tell()
    // This comes after `tell`, which may drop the last console and thereby stop the feed.
    if (this.clients.size === 0) this.begin()
    const hello = encoded('hello', { role: console.role, name: console.name, heartbeat_ms: heartbeatMs })
    this.shot ??= this.snapshot()
    const client: ConsoleClient = new ConsoleClient(Buffer.concat([hello, this.shot]), () => this.remove(client))
    this.clients.set(client, console)
    return client.stream
  }

  /** The transitions of one statechart, or of one of its instances, newest first, at most `limit`. */
  history(machine: string, id: string | null, limit: number): readonly Transition[] {
    const found = this.options.inspector.recent(machine).filter((moved) => id === null || moved.id === id)
    return found.slice(-limit).reverse().map(onWire)
  }

  /** Ends all consoles and accepts no new ones. */
  stop(): void {
    this.stopped = true
    const last = encoded('end', { reason: 'shutdown' })
    for (const [client, { ended }] of this.clients) {
      client.end(last)
      ended()
    }
    this.clients.clear()
    this.cease()
  }

  private begin(): void {
    this.shot = null
    const { inspector, traffic, durable } = this.options
    this.durable = new Map(
      Object.entries(durable).map(([machine, chart]) => [
        machine,
        new DurableCounts(chart, () => this.atWork(machine)),
      ]),
    )
    this.ticking.start()
    this.endings.push(
      inspector.subscribe((moved) => this.note(moved)),
      traffic.subscribe((point) => this.send(encoded('traffic', point))),
    )
    this.sent = new Map(this.options.nodes().map((node) => [node.node_id, JSON.stringify(node)]))
    for (const [machine, { version }] of inspector.counts()) this.versions.set(machine, version)
    this.readRows(true)
  }

  private cease(): void {
    void this.ticking.stop()
    for (const end of this.endings.splice(0)) end()
    this.pending = []
    this.skipped = 0
    this.ticks = 0
  }

  private remove(client: ConsoleClient): void {
    this.clients.get(client)?.ended()
    this.clients.delete(client)
    if (this.clients.size === 0) this.cease()
  }

  private *atWork(machine: string): Generator<readonly [string, string]> {
    for (const [{ id }, state] of this.options.inspector.counts().get(machine)?.running ?? []) yield [id, state]
  }

  private note(moved: Moved): void {
    this.durable.get(moved.machine)?.moved(moved.id, moved.to)
    if (this.pending.length < transitionsPerEventMax) this.pending.push(moved)
    else this.skipped++
  }

  private tick(): void {
    this.ticks++
    if (this.ticks % goneTicks === 0) this.endGone()
    this.tell()
    if (this.ticks % poolTicks === 0) this.tellPool()
    if (this.ticks % rowsTicks.moved === 0) this.readRows(this.ticks % rowsTicks.quiet === 0)
    if (this.ticks % heartbeatTicks === 0) this.send(heartbeat)
  }

  private tell(): void {
    const machines = this.changedCounts()
    if (this.pending.length === 0 && machines.length === 0) return
    const transitions = this.pending.map(onWire)
    const { skipped } = this
    this.pending = []
    this.skipped = 0
    this.send(encoded('transitions', { transitions, machines, skipped }))
  }

  private changedCounts(): MachineCounts[] {
    const changed: MachineCounts[] = []
    for (const machine of this.machines()) {
      const version = this.versionOf(machine)
      if (this.versions.get(machine) === version) continue
      this.versions.set(machine, version)
      changed.push(this.countsOf(machine))
    }
    return changed
  }

  private versionOf(machine: string): number {
    return (this.options.inspector.counts().get(machine) ?? nothing).version
  }

  private machines(): ReadonlySet<string> {
    return new Set([...this.options.inspector.counts().keys(), ...this.durable.keys()])
  }

  private countsOf(machine: string): MachineCounts {
    const { live: running, entered } = this.options.inspector.counts().get(machine) ?? nothing
    const live = this.durable.get(machine)?.live() ?? running
    const states = new Set([...live.keys(), ...entered.keys()])
    return {
      machine,
      states: [...states].map((state) => ({ state, live: live.get(state) ?? 0, entered: entered.get(state) ?? 0 })),
    }
  }

  private tellPool(): void {
    const now = new Map<string, string>()
    const changed: LiveNode[] = []
    for (const node of this.options.nodes()) {
      const text = JSON.stringify(node)
      now.set(node.node_id, text)
      if (this.sent.get(node.node_id) !== text) changed.push(node)
    }
    const removed = [...this.sent.keys()].filter((id) => !now.has(id))
    this.sent = now
    if (changed.length > 0 || removed.length > 0) this.send(encoded('pool', { changed, removed }))
  }

  /** With `all` it also reads charts that have not moved since the last read. */
  private readRows(all: boolean): void {
    for (const [machine, counts] of this.durable) {
      const version = this.versionOf(machine)
      if (counts.reading || (!all && this.readAt.get(machine) === version)) continue
      this.readAt.set(machine, version)
      const before = JSON.stringify([...counts.live()])
      const note = () => {
        // The next tick sends the change, as if the chart itself had moved.
        if (JSON.stringify([...counts.live()]) !== before) this.versions.delete(machine)
      }
      const failed = (error: unknown) =>
        this.options.log.warn('resting_counts', { machine, failure: failureName(error) })
      counts.read().then(note, failed)
    }
  }

  private snapshot(): Uint8Array {
    const { nodes, traffic } = this.options
    return encoded('snapshot', {
      generated_at: isoTime(Date.now()),
      machines: [...this.machines()].map((machine) => this.countsOf(machine)),
      nodes: nodes(),
      traffic: traffic.points(),
    })
  }

  private send(bytes: Uint8Array): void {
    if (bytes !== heartbeat) this.shot = null
    for (const client of this.clients.keys()) if (!client.send(bytes)) this.end(client, 'slow_client')
    if (this.clients.size === 0) this.cease()
  }

  private endGone(): void {
    for (const [client, { isGone }] of this.clients) if (isGone()) this.end(client, 'signed_out')
    if (this.clients.size === 0) this.cease()
  }

  private end(client: ConsoleClient, reason: InspectEvents['end']['reason']): void {
    const console = this.clients.get(client)
    this.clients.delete(client)
    client.end(encoded('end', { reason }))
    console?.dropped()
    console?.ended()
  }
}
