import { PlacedCalls } from '../../../../src/actors/placement/placed-calls.ts'
import { loadReported } from '../../../../src/machines/placement/reading.ts'
import { joinQueue, leaveQueue } from '../../../../src/machines/placement/slot-line.ts'
import { nowMs as epochMs, seeded } from '../../rules/routes.ts'
import { Agenda } from './agenda.ts'
import { blockTokens, Machine } from './machine.ts'
import { type LoadName, loads, type Plan, plan } from './plan.ts'
import { type RuleName, rules, type SimMachine, type SimRequest } from './rules.ts'

export interface Outcome {
  /** Seconds to the first token. */
  readonly mean: number
  readonly p50: number
  readonly p95: number
  /** Share of the blocks asked for that were cached. */
  readonly hits: number
}

/** Runs until the horizon; the same seed gives every rule the same conversations. `change`: beside what the load says. */
export function simulate(rule: RuleName, load: LoadName, seed: number, change: Partial<Plan> = {}): Outcome {
  const simulation = new Simulation(rule, { ...plan, ...loads[load], ...change }, seed)
  // The gateway's code asks what time it is.
  const { now } = Date
  Date.now = () => simulation.nowMs()
  try {
    return simulation.run()
  } finally {
    Date.now = now
  }
}

interface Conversation {
  readonly name: string
  readonly random: () => number
  readonly turns: number
  blocks: readonly number[]
  turn: number
}

const pollS = 5
const lagS = 0.01
const hiccupS = 0.5
const tailMost = 40

class Simulation {
  private now = 0
  private nextBlock = 1
  private hits = 0
  private asked = 0
  private conversations = 0
  private readonly firstTokens: number[] = []
  private readonly agenda = new Agenda()
  private readonly placed = new PlacedCalls(() => {})
  private readonly lastServer = new Map<string, SimMachine>()
  private readonly machines: readonly SimMachine[]
  private readonly systems: readonly (readonly number[])[]
  private readonly random: () => number
  private readonly arrivals: () => number
  private readonly choose: (request: SimRequest) => SimMachine | null
  private line: readonly SimRequest[] = []

  constructor(
    rule: RuleName,
    private readonly plan: Plan,
    private readonly seed: number,
  ) {
    this.random = seeded(seed + 1_000)
    this.arrivals = seeded(seed)
    this.machines = Array.from({ length: plan.nodes }, (_, at) => new Machine<SimRequest>(at, plan))
    this.systems = Array.from({ length: plan.systems }, () => this.fresh(plan.systemTokens))
    this.choose = rules[rule]({
      machines: this.present.bind(this),
      random: this.random,
      lastServer: this.lastServer,
      placed: this.placed,
      now: () => this.now,
      nowMs: () => this.nowMs(),
    })
    const { cacheTold, tells } = plan
    for (const { route, cacheTokens } of this.machines)
      if (cacheTold !== null) this.placed.caches.of('m').reported(route.profileId, cacheTokens * cacheTold)
    if (tells === 'load' || this.plan.events) this.agenda.at(pollS, () => this.poll())
  }

  nowMs(): number {
    return epochMs + Math.round(this.now * 1_000)
  }

  run(): Outcome {
    this.agenda.at(0, () => this.arrive())
    while (this.agenda.size > 0) {
      const event = this.agenda.next()
      this.now = event.at
      if (this.now > this.plan.horizon * 1.5) break
      event.run()
    }
    const sorted = this.firstTokens.toSorted((a, b) => a - b)
    const share = (part: number) => sorted[Math.floor(sorted.length * part)] ?? Number.NaN
    const mean = sorted.reduce((sum, time) => sum + time, 0) / sorted.length
    return { mean, p50: share(0.5), p95: share(0.95), hits: this.hits / this.asked }
  }

  private present(): readonly SimMachine[] {
    const last = this.machines.at(-1)
    return last === undefined || last.joinsAt <= this.now ? this.machines : this.machines.slice(0, -1)
  }

  private poll(): void {
    const { tells, events } = this.plan
    for (const { route, ends, waiting, load, cache } of this.machines) {
      if (tells === 'load') loadReported(route.load.reading, { busy: ends.length, queued: waiting.length }, load)
      if (events && cache.full) this.placed.caches.of('m').holds(route.profileId, cache.size * blockTokens)
    }
    if (this.now < this.plan.horizon) this.agenda.at(this.now + pollS, () => this.poll())
  }

  private fresh(tokens: number): readonly number[] {
    return Array.from({ length: Math.max(1, Math.round(tokens / blockTokens)) }, () => this.nextBlock++)
  }

  private arrive(): void {
    const { systems, systemTokens, zipf, rate, bursts, unique, turns, horizon } = this.plan
    const system = Math.min(systems - 1, Math.floor(systems * this.arrivals() ** zipf))
    const id = this.conversations++
    const random = seeded(this.seed * 7_919 + id)
    const isUnique = unique > 0 && random() < unique
    const blocks = isUnique ? this.fresh(systemTokens) : (this.systems[system] ?? [])
    this.submit({ name: `c${id}`, random, turns: isUnique ? 1 : turns, blocks, turn: 0 })
    const swell = bursts === 0 ? 1 : Math.floor(this.now / 30) % 4 === 0 ? bursts : 0.4
    const gap = -Math.log(1 - this.arrivals()) / (rate * swell)
    if (this.now + gap < horizon) this.agenda.at(this.now + gap, () => this.arrive())
  }

  private submit(conversation: Conversation): void {
    const { userTokens, outTokens, think, tail } = this.plan
    const { random } = conversation
    const length = tail === 0 ? 0.5 + random() : Math.min(tailMost, ((1 - random()) ** (-1 / tail) * (tail - 1)) / tail)
    const blocks = conversation.blocks.concat(this.fresh(userTokens * length))
    const tokens = outTokens * (0.5 + random())
    const answer = this.fresh(tokens)
    const request: SimRequest = {
      at: this.now,
      blocks,
      answer,
      outTokens: tokens,
      conversation: conversation.name,
      placedAt: 0,
      firstAt: 0,
      matched: 0,
      done: () => {
        conversation.blocks = blocks.concat(answer)
        conversation.turn++
        if (conversation.turn >= conversation.turns) return
        this.agenda.at(this.now + think * (0.5 + random()), () => this.submit(conversation))
      },
      work: null,
      awaits: null,
      patientUntil: null,
    }
    if (!this.place(request)) this.line = [...this.line, request]
  }

  /** False: it waits on. */
  private place(request: SimRequest): boolean {
    if (request.awaits !== null) leaveQueue(request.awaits)
    request.awaits = null
    const wasPatient = request.patientUntil !== null
    const machine = this.choose(request)
    if (machine === null) {
      if (request.awaits !== null) joinQueue(request.awaits)
      if (request.patientUntil !== null && !wasPatient) {
        this.agenda.at(request.patientUntil, () => {
          if (this.line.includes(request)) this.place(request)
        })
      }
      return false
    }
    this.line = this.line.filter((other) => other !== request)
    this.lastServer.set(request.conversation, machine)
    machine.view.touch([...request.blocks, ...request.answer])
    request.placedAt = this.now
    machine.waiting.push(request)
    this.admit(machine)
    return true
  }

  /** A slot is free: who waits for it, or for any, looks first. */
  private wake({ route }: SimMachine): void {
    const isFor = ({ awaits }: SimRequest) => awaits === null || awaits.profileId === route.profileId
    for (const request of [...this.line.filter(isFor), ...this.line.filter((other) => !isFor(other))]) {
      if (this.place(request)) return
    }
  }

  private admit(machine: SimMachine): void {
    const { hiccups, interference, warmup } = this.plan
    while (machine.hasSlot && machine.waiting.length > 0) {
      const request = machine.waiting.shift() as SimRequest
      request.matched = machine.cache.matched(request.blocks)
      this.hits += request.matched
      this.asked += request.blocks.length
      const late = hiccups > 0 && this.random() < hiccups ? -Math.log(1 - this.random()) * hiccupS : 0
      const readS = machine.readS(request.blocks, request.matched, this.now) + interference * (machine.ends.length + 1)
      const first = Math.max(this.now, machine.readUntil) + readS + lagS + late
      machine.readUntil = first
      const end = first + machine.writeS(request.outTokens)
      machine.ends.push(end)
      machine.cache.touch(request.blocks)
      if (request.at > warmup) this.firstTokens.push(first - request.at)
      this.agenda.at(first, () => this.firstTokenOf(request, machine))
      this.agenda.at(end, () => this.end(request, machine, end))
    }
  }

  private firstTokenOf(request: SimRequest, { route }: SimMachine): void {
    request.firstAt = this.now
    if (request.work !== null) this.placed.spoke(route, { work: request.work, timed: true })
  }

  private end(request: SimRequest, machine: SimMachine, end: number): void {
    const { route } = machine
    machine.ends.splice(machine.ends.indexOf(end), 1)
    machine.cache.touch([...request.blocks, ...request.answer])
    if (request.work !== null) {
      const durationMs = (this.now - request.placedAt) * 1_000
      const { load } = route
      load.inFlight = machine.load
      load.durationEwmaMs = load.durationEwmaMs === null ? durationMs : 0.8 * load.durationEwmaMs + 0.2 * durationMs
      const answer = {
        ttftMs: (request.firstAt - request.placedAt) * 1_000,
        durationMs,
        promptTokens: request.blocks.length * blockTokens,
        completionTokens: request.answer.length * blockTokens,
        cachedTokens: this.plan.reports ? request.matched * blockTokens : null,
      }
      this.placed.ended(route, { work: request.work, timed: true }, answer)
    }
    request.done()
    this.admit(machine)
    this.wake(machine)
  }
}

/** The means over the seeds. */
export function outcomeOf(
  rule: RuleName,
  load: LoadName,
  seeds: readonly number[],
  change: Partial<Plan> = {},
): Outcome {
  const outcomes = seeds.map((seed) => simulate(rule, load, seed, change))
  const mean = (of: (outcome: Outcome) => number) => outcomes.reduce((sum, one) => sum + of(one), 0) / seeds.length
  return {
    mean: mean((one) => one.mean),
    p50: mean((one) => one.p50),
    p95: mean((one) => one.p95),
    hits: mean((one) => one.hits),
  }
}
