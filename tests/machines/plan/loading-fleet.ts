import { type GoodAnswer, PlacedCalls } from '../../../src/actors/placement/placed-calls.ts'
import { loadMsOf, noteLoad, noteMemory } from '../../../src/machines/placement/loads.ts'
import { ewma } from '../../../src/machines/placement/moving-mean.ts'
import type { Work } from '../../../src/machines/placement/reading.ts'
import { ModelDemand, noDemand, rateOf, watchedSpan } from '../../../src/machines/plan/demand.ts'
import { weighEvictions } from '../../../src/machines/plan/evictions.ts'
import { planMemory } from '../../../src/machines/plan/memory-plan.ts'
import { type MemoryHolder, roomFor } from '../../../src/machines/plan/model-memory.ts'
import type { PlanPlace, PlanProblem } from '../../../src/machines/plan/problem.ts'
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
  /** From a change at a machine until the gateway knows of it. */
  readonly tellS: number
  /** Loads at one time share the disk: with n of them, one lasts n times as long. First tokens are late by up to so much. */
  readonly lateS: number
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
const firstTokenS = 0.02
/** Of every call; no server has it in its cache. */
const prompt = { units: 400, blocks: [], first: 1 }

interface Call {
  readonly model: number
  readonly atS: number
  readonly work: Work | null
}

/** What a machine says of its models, as it was when it said it. */
interface Report {
  readonly loaded: boolean
  readonly loadingSinceMs: number | null
}

class Server {
  state: 'away' | 'loading' | 'loaded' = 'away'
  readonly route: Route
  lastUsedMs = 0
  /** At work, or waiting for the load. */
  calls = 0
  loadingSinceMs: number | null = null
  queued = false
  told: Report = { loaded: false, loadingSinceMs: null }
  readonly waiting: Call[] = []

  constructor(
    readonly model: string,
    readonly host: number,
    slots: number,
  ) {
    this.route = route(`${host}_${model}`, { modelId: model, loaded: false, slotsTotal: slots })
    this.route.load.reading.cold = true
  }

  get holder(): MemoryHolder {
    const holds = this.state === 'away' ? 'away' : this.state === 'loaded' && this.calls === 0 ? 'idle' : 'working'
    return {
      id: this.model,
      memoryMb: { memory: modelMb },
      group: null,
      pinned: false,
      holds,
      lastUsedMs: this.lastUsedMs,
    }
  }

  get report(): Report {
    return { loaded: this.state === 'loaded', loadingSinceMs: this.loadingSinceMs }
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
  private readonly placed = new PlacedCalls(() => {})

  constructor(private readonly spec: FleetSpec) {
    this.random = seeded(spec.seed)
    this.models = Array.from({ length: spec.models }, (_, at) => `m${at}`)
    this.servers = Array.from({ length: spec.hosts }, (_, host) =>
      this.models.map((model) => new Server(model, host, spec.slots)),
    ).flat()
    this.demands = this.models.map(() => new ModelDemand(epochMs))
  }

  run(): this {
    // The gateway's code asks what time it is.
    const { now } = Date
    Date.now = () => this.nowMs
    try {
      return this.runs()
    } finally {
      Date.now = now
    }
  }

  private runs(): this {
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
    return epochMs + Math.round(this.nowS * 1_000)
  }

  /** The next call of a model; each quarter of a second where nobody asks for it now. */
  private next(at: number): void {
    const perS = this.spec.rates.findLast(({ fromS }) => fromS <= this.nowS)?.perS[at] ?? 0
    const gapS = perS === 0 ? 0.25 : -Math.log(1 - this.random()) / perS
    this.agenda.at(this.nowS + gapS, () => {
      if (perS > 0) this.call(at, this.nowS)
      this.next(at)
    })
  }

  private call(model: number, atS: number): void {
    if (atS === this.nowS) this.demands[model]?.add('calls', 1, this.nowMs)
    const modelId = this.models[model] ?? ''
    const own = this.servers.filter((server) => server.model === modelId)
    const wanted = request({ modelId, nowMs: this.nowMs, prompt })
    const placement = place(table(...own.map((server) => server.route)), wanted)
    const server = placement.kind === 'placed' ? own.find((one) => one.route === placement.route) : undefined
    const { load } = server?.route ?? {}
    // One request has a model loaded; the others wait for it, and hold no slot.
    if (placement.kind !== 'placed' || server === undefined || (load?.reading.cold === true && load.inFlight > 0)) {
      this.agenda.at(this.nowS + againS, () => this.call(model, atS))
      return
    }
    const call = { model, atS, work: takePlace(placement, wanted, this.random) }
    const isCold = server.route.load.reading.cold
    server.route.load.inFlight++
    this.placed.begun(server.route, { work: call.work, timed: true })
    if (isCold) this.weigh(server.host)
    server.calls++
    server.waiting.push(call)
    if (server.state === 'loaded') this.serve(server)
    else this.want(server)
  }

  private here(host: number): readonly Server[] {
    return this.servers.filter((server) => server.host === host)
  }

  /** What others would wait for a model that gives way. */
  private weigh(host: number): void {
    const hosted = this.here(host).map(({ model: id, route: { load } }) => {
      return {
        id,
        memoryMb: { memory: modelMb },
        group: null,
        pinned: false,
        models: [
          {
            ...load,
            elsewhere: this.servers.some(
              (one) => one.model === id && one.host !== host && !one.route.load.reading.cold,
            ),
          },
        ],
      }
    })
    weighEvictions(hosted, { memory: this.spec.memory }, this.nowMs)
  }

  /** The machine tells the gateway, which hears it later. */
  private changed(host: number): void {
    const fromS = this.nowS
    const reports = this.here(host).map(({ report }) => report)
    this.agenda.at(this.nowS + this.spec.tellS, () => {
      for (const [at, server] of this.here(host).entries()) {
        const report = reports[at]
        if (report === undefined) continue
        const { route: one, told } = server
        server.told = report
        Object.assign(one, { loaded: report.loaded })
        noteMemory(one.load.reading, report.loaded, told.loaded, this.nowMs, epochMs + fromS * 1_000)
        noteLoad(one.load.reading, report.loadingSinceMs, one.load.inFlight > 0)
      }
      this.weigh(host)
    })
  }

  private serve(server: Server): void {
    const { route: one } = server
    for (const call of server.waiting.splice(0)) {
      const { atS, model, work } = call
      if (this.nowS > atS) {
        this.waits.push({ model: server.model, atS, waitS: this.nowS - atS })
        this.demands[model]?.add('waited', 1, this.nowMs)
        this.demands[model]?.add('waitMs', (this.nowS - atS) * 1_000, this.nowMs)
      }
      const sentMs = work?.atMs ?? this.nowMs
      const firstS = firstTokenS + this.random() * this.spec.lateS
      let ttftMs = 0
      this.agenda.at(this.nowS + firstS, () => {
        ttftMs = this.nowMs - sentMs
        this.placed.spoke(one, { work, timed: true })
      })
      this.agenda.at(this.nowS + firstS + this.spec.callS, () => {
        one.load.inFlight--
        server.calls--
        server.lastUsedMs = this.nowMs
        const durationMs = this.nowMs - sentMs
        const answer = { ttftMs, durationMs, promptTokens: 100, completionTokens: 100, cachedTokens: null }
        this.ended(one, work, answer)
        this.giveRoom(server.host)
      })
    }
  }

  private ended(one: Route, work: Work | null, answer: GoodAnswer): void {
    one.load.durationEwmaMs = ewma(
      one.load.durationEwmaMs,
      work?.concurrency === 0 ? answer.durationMs - (answer.ttftMs ?? 0) : answer.durationMs,
    )
    this.placed.ended(one, { work, timed: true }, answer)
  }

  private want(server: Server): void {
    if (server.state !== 'away' || server.queued) return
    server.queued = true
    server.loadingSinceMs = this.nowMs
    this.changed(server.host)
    this.giveRoom(server.host)
  }

  /** As the agent does it: who has waited longest gets the room of those without work. */
  private giveRoom(host: number): void {
    const here = this.here(host)
    const queued = here
      .filter((one) => one.queued)
      .toSorted((a, b) => (a.loadingSinceMs ?? 0) - (b.loadingSinceMs ?? 0))
    const holders = () => here.map(({ holder }) => holder)
    for (const server of queued) {
      const room = roomFor(server.holder, holders(), { memory: this.spec.memory })
      if (room.kind === 'wait') return
      if (room.kind === 'evict') for (const other of here) if (room.ids.includes(other.model)) this.away(other)
      this.load(server)
    }
  }

  private load(server: Server): void {
    server.queued = false
    server.state = 'loading'
    this.loads++
    this.loadedAt.push({ model: server.model, host: server.host, atS: this.nowS })
    const others = this.servers.filter(({ state }) => state === 'loading').length
    const slower = this.spec.lateS === 0 ? 1 : others * (0.5 + this.random())
    this.changed(server.host)
    this.agenda.at(this.nowS + this.spec.loadS * slower, () => {
      server.state = 'loaded'
      server.loadingSinceMs = null
      server.lastUsedMs = this.nowMs
      this.serve(server)
      this.changed(server.host)
      this.giveRoom(server.host)
    })
  }

  private away(server: Server): void {
    server.state = 'away'
    this.changed(server.host)
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
        ({ told, ...server }): PlanPlace => ({
          model: this.models.indexOf(server.model),
          host: server.host,
          upstreamModelId: server.model,
          memoryMb: { memory: modelMb },
          group: null,
          pinned: false,
          holds: told.loaded ? 'loaded' : told.loadingSinceMs === null ? 'away' : 'loading',
          loadMs: loadMsOf(server.route.load.reading, null),
          lastUsedMs: server.lastUsedMs,
        }),
      ),
    }
  }

  /** As `act` does it: at most one load per node at a time. */
  private plan(): void {
    const { moves } = planMemory(this.problem())
    const busy = new Set(this.servers.filter(({ told }) => told.loadingSinceMs !== null).map(({ host }) => host))
    for (const { load, unload } of moves) {
      const server = this.servers[load]
      if (server === undefined || busy.has(server.host)) continue
      busy.add(server.host)
      for (const at of unload) {
        const one = this.servers[at]
        if (one?.state === 'loaded' && one.calls === 0) this.away(one)
      }
      this.want(server)
    }
    this.agenda.at(this.nowS + planEveryS, () => this.plan())
  }
}
