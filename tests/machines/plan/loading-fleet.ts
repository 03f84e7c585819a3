import { evictionMs, loadAwaited, loadMsOf, loadSeen, noteMemory } from '../../../src/machines/placement/loads.ts'
import { ModelDemand, noDemand, rateOf, watchedSpan } from '../../../src/machines/plan/demand.ts'
import { planMemory } from '../../../src/machines/plan/memory-plan.ts'
import type { PlanPlace, PlanProblem } from '../../../src/machines/plan/problem.ts'
import { type MemoryHolder, roomFor } from '../../../src/machines/rules/model-memory.ts'
import { place, takePlace } from '../../../src/machines/rules/placement.ts'
import type { Route } from '../../../src/machines/rules/routing.ts'
import { Agenda } from '../placement/fleet/agenda.ts'
import { nowMs as epochMs, request, route, seeded, table } from '../rules/routes.ts'

/** Machines of one memory each and models that do not all fit into one of them, in virtual time: seconds. */
export interface FleetSpec {
  readonly hosts: number
  /** MB; every model takes 1,000. */
  readonly memory: number
  readonly models: number
  readonly loadS: number
  readonly callS: number
  readonly slots: number
  /** Calls per second for each model, from then on. */
  readonly rates: readonly { readonly fromS: number; readonly perS: readonly number[] }[]
  readonly planned: boolean
  readonly untilS: number
  readonly seed: number
}

export interface Waited {
  readonly model: string
  readonly atS: number
  readonly waitS: number
}

const planEveryS = 60
const againS = 0.1
const modelMb = 1_000
/** Of every call; no server has it in its cache. */
const prompt = { units: 400, blocks: [], first: 1 }

class Server {
  state: 'away' | 'loading' | 'loaded' = 'away'
  readonly route: Route
  lastUsedMs = 0
  wanted = false
  readonly waiting: { readonly atS: number }[] = []

  constructor(
    readonly model: string,
    readonly host: number,
    slots: number,
  ) {
    this.route = route(`${host}_${model}`, { modelId: model, loaded: false, slotsTotal: slots })
    this.route.load.reading.cold = true
  }

  get holder(): MemoryHolder {
    const holds =
      this.state === 'away' ? 'away' : this.state === 'loaded' && this.route.load.inFlight === 0 ? 'idle' : 'working'
    return {
      id: this.model,
      memoryMb: { memory: modelMb },
      group: null,
      pinned: false,
      holds,
      lastUsedMs: this.lastUsedMs,
    }
  }
}

/** Runs the fleet with the gateway's own rules of placement, of memory and of the plan. */
export class LoadingFleet {
  loads = 0
  readonly waits: Waited[] = []
  readonly loadedAt: { readonly model: string; readonly host: number; readonly atS: number }[] = []
  private nowS = 0
  private readonly agenda = new Agenda()
  private readonly servers: readonly Server[]
  private readonly demands: readonly ModelDemand[]
  private readonly random: () => number
  private readonly models: readonly string[]

  constructor(private readonly spec: FleetSpec) {
    this.random = seeded(spec.seed)
    this.models = Array.from({ length: spec.models }, (_, at) => `m${at}`)
    this.servers = Array.from({ length: spec.hosts }, (_, host) =>
      this.models.map((model) => new Server(model, host, spec.slots)),
    ).flat()
    this.demands = this.models.map(() => new ModelDemand(epochMs))
  }

  run(): this {
    for (const [at] of this.models.entries()) this.next(at)
    if (this.spec.planned) this.agenda.at(planEveryS, () => this.plan())
    while (this.agenda.size > 0) {
      const event = this.agenda.next()
      this.nowS = event.at
      if (this.nowS > this.spec.untilS) break
      event.run()
    }
    return this
  }

  /** Models in memory at the end, by host. */
  inMemory(): readonly (readonly string[])[] {
    return Array.from({ length: this.spec.hosts }, (_, host) =>
      this.servers.filter((server) => server.host === host && server.state === 'loaded').map(({ model }) => model),
    )
  }

  private get nowMs(): number {
    return epochMs + this.nowS * 1_000
  }

  /** The next call of a model; each quarter of a second where nobody asks for it now. */
  private next(at: number): void {
    const perS = this.spec.rates.findLast(({ fromS }) => fromS <= this.nowS)?.perS[at] ?? 0
    const gapS = perS === 0 ? 0.25 : -Math.log(1 - this.random()) / perS
    this.agenda.at(this.nowS + gapS, () => {
      if (perS > 0) this.call(at, { atS: this.nowS })
      this.next(at)
    })
  }

  private call(at: number, call: { readonly atS: number }): void {
    if (call.atS === this.nowS) this.demands[at]?.add('calls', 1, this.nowMs)
    const modelId = this.models[at] ?? ''
    const own = this.servers.filter(({ model }) => model === modelId)
    for (const server of own) this.tells(server)
    const wanted = request({ modelId, nowMs: this.nowMs, prompt })
    const placement = place(table(...own.map((server) => server.route)), wanted)
    const server = placement.kind === 'placed' ? own.find((one) => one.route === placement.route) : undefined
    if (server === undefined) {
      this.agenda.at(this.nowS + againS, () => this.call(at, call))
      return
    }
    const { load } = server.route
    // One request has a model loaded; the others wait for it, and hold no slot.
    if (load.reading.cold && load.inFlight > 0) {
      this.agenda.at(this.nowS + againS, () => this.call(at, call))
      return
    }
    if (placement.kind === 'placed') takePlace(placement, wanted, this.random)
    load.inFlight++
    loadAwaited(load.reading, this.nowMs)
    server.waiting.push(call)
    if (server.state === 'loaded') this.serve(server)
    else this.want(server)
  }

  /** As a poll does: what others would wait for a model that gives way. */
  private tells(server: Server): void {
    const { reading } = server.route.load
    const here = this.servers.filter(({ host }) => host === server.host)
    const room = roomFor(
      server.holder,
      here.map(({ holder }) => holder),
      { memory: this.spec.memory },
    )
    const others = here.filter(({ state }) => state === 'loaded')
    const waits = others.map((other) => evictionMs(other.route.load.reading, this.nowMs))
    reading.evictedWaitMs = !reading.cold || room.kind === 'free' || waits.length === 0 ? 0 : Math.min(...waits)
  }

  private serve(server: Server): void {
    for (const { atS } of server.waiting.splice(0)) {
      if (this.nowS > atS) {
        this.waits.push({ model: server.model, atS, waitS: this.nowS - atS })
        const at = this.models.indexOf(server.model)
        this.demands[at]?.add('waited', 1, this.nowMs)
        this.demands[at]?.add('waitMs', (this.nowS - atS) * 1_000, this.nowMs)
      }
      this.agenda.at(this.nowS + this.spec.callS, () => {
        server.route.load.inFlight--
        server.lastUsedMs = this.nowMs
      })
    }
  }

  /** As the agent does it: room first, of those without work, then the load. */
  private want(server: Server): void {
    if (server.state !== 'away' || server.wanted) return
    const here = this.servers.filter(({ host }) => host === server.host)
    const room = roomFor(
      server.holder,
      here.map(({ holder }) => holder),
      { memory: this.spec.memory },
    )
    if (room.kind === 'wait') {
      server.wanted = true
      this.agenda.at(this.nowS + againS, () => {
        server.wanted = false
        this.want(server)
      })
      return
    }
    if (room.kind === 'evict') for (const other of here) if (room.ids.includes(other.model)) this.away(other)
    server.state = 'loading'
    this.loads++
    this.loadedAt.push({ model: server.model, host: server.host, atS: this.nowS })
    server.route.load.reading.loadStartedAtMs ??= this.nowMs
    this.agenda.at(this.nowS + this.spec.loadS, () => {
      server.state = 'loaded'
      server.lastUsedMs = this.nowMs
      Object.assign(server.route, { loaded: true })
      loadSeen(server.route.load.reading, this.nowMs)
      this.serve(server)
    })
  }

  private away(server: Server): void {
    server.state = 'away'
    Object.assign(server.route, { loaded: false })
    noteMemory(server.route.load.reading, false, true, this.nowMs)
  }

  private problem(): PlanProblem {
    const span = watchedSpan(epochMs, this.nowMs)
    return {
      models: this.models.map((modelId, at) => {
        const sums = this.demands[at]?.sums(this.nowMs) ?? noDemand
        const perS = rateOf(sums, span)
        const { calls, waited, waitMs, turnedAway } = sums
        const demand = { perS, pastPerS: null, calls, waited, waitMs, turnedAway }
        return { modelId, demand, fixed: 0, durationMs: this.spec.callS * 1_000, slots: this.spec.slots }
      }),
      hosts: Array.from({ length: this.spec.hosts }, (_, host) => ({
        nodeId: String(host),
        name: String(host),
        budgetsMb: { memory: this.spec.memory },
        modelsMax: 1,
      })),
      places: this.servers.map(
        (server): PlanPlace => ({
          model: this.models.indexOf(server.model),
          host: server.host,
          upstreamModelId: server.model,
          memoryMb: { memory: modelMb },
          group: null,
          pinned: false,
          holds: server.state,
          loadMs: loadMsOf(server.route.load.reading, null),
          lastUsedMs: server.lastUsedMs,
        }),
      ),
    }
  }

  /** As `act` does it: at most one load per node at a time. */
  private plan(): void {
    const { moves } = planMemory(this.problem())
    const busy = new Set(this.servers.filter(({ state }) => state === 'loading').map(({ host }) => host))
    for (const { load, unload } of moves) {
      const server = this.servers[load]
      if (server === undefined || busy.has(server.host)) continue
      busy.add(server.host)
      const idle = unload.map((at) => this.servers[at]).filter((one) => one?.route.load.inFlight === 0)
      for (const one of idle) if (one !== undefined) this.away(one)
      this.want(server)
    }
    this.agenda.at(this.nowS + planEveryS, () => this.plan())
  }
}
