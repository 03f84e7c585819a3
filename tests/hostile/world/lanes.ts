import fc from 'fast-check'
import { Floor } from './floor.ts'
import type { HostileGateway } from './hostile-gateway.ts'
import { chargedForNothing, descriptorsAtRest, restFaults } from './rest.ts'
import type { Fault, FaultKind } from './verdict.ts'

/** One place from which the gateway is attacked, one batch of cases after the other. */
export interface Lane<B> {
  readonly name: string
  readonly batches: fc.Arbitrary<B>
  /** One name a case, for the table. */
  kinds(batch: B): readonly string[]
  /** Runs the cases at once; what must not be. */
  play(batch: B): Promise<readonly Fault[]>
  /** Nobody asks any more: idle connections are closed. */
  rest(): Promise<void>
  stop(): void
  /** Ids of requests that were answered with an error. */
  readonly unserved: string[]
  /** Well-behaved requests that were asked again. */
  readonly retried: number
  /** Requests that heard what their own customer should have heard before. */
  readonly outOfStep: number
}

// A lane of any kind: the runner looks into no batch.
export type AnyLane = {
  [K in keyof Lane<unknown>]: K extends 'batches' | 'kinds' | 'play' ? unknown : Lane<unknown>[K]
}

export interface RunOptions {
  readonly seed: number
  /** All lanes together. */
  readonly casesMax: number
  /** A run that has played fewer goes on, however late it is. */
  readonly casesMin?: number
  readonly untilMs?: number
  /** Everything must be at rest after so many cases. */
  readonly restEvery: number
  /** Runs the one counterexample of a failure again. */
  readonly path?: string
  /** Told at each rest. */
  readonly rested?: (cases: number) => void
}

export interface RunReport {
  readonly cases: number
  readonly byKind: ReadonlyMap<string, number>
  readonly faults: ReadonlyMap<FaultKind, number>
  readonly retried: number
  readonly outOfStep: number
  readonly rests: number
  readonly worstMs: number
  /** What went wrong, the smallest case that shows it, and how to run it again. */
  readonly failures: readonly string[]
}

/** What the heap may have grown by at rest, all processes together: code that became warm, and its own breathing. */
const heapBytesMore = 64 * 1024 * 1024
/** A frozen gateway makes every try slow: what was found by then is told. */
const shrinkMsMax = 60_000
const portionRuns = 100

const told = (faults: readonly Fault[]) => faults.map(({ kind, detail }) => `${kind}: ${detail}`).join('\n  ')

/** Lets all lanes run side by side, each with a seed of its own. */
export async function runLanes(
  gateway: HostileGateway,
  lanes: readonly AnyLane[],
  options: RunOptions,
): Promise<RunReport> {
  const run = new Run(gateway, lanes as unknown as readonly Lane<unknown>[], options)
  return run.all()
}

class Run {
  private readonly floor = new Floor()
  private readonly byKind = new Map<string, number>()
  private readonly faults = new Map<FaultKind, number>()
  private readonly failures: string[] = []
  /** Seen beside others, and not when the lane was alone. */
  private readonly doubtful: string[] = []
  private cases = 0
  private rests = 0
  private nextRest: number
  private descriptorsMax = 0
  private failing: Lane<unknown> | null = null
  private restless = false

  constructor(
    private readonly gateway: HostileGateway,
    private readonly lanes: readonly Lane<unknown>[],
    private readonly options: RunOptions,
  ) {
    this.nextRest = options.restEvery
  }

  async all(): Promise<RunReport> {
    this.descriptorsMax = await descriptorsAtRest(this.gateway)
    const { heapBytes: before } = await this.gateway.pulse({ collect: true })
    await Promise.all(this.lanes.map((lane, at) => this.lane(lane, at)))
    if (this.failures.length === 0) await this.rest()
    if (this.failures.length === 0) await this.weigh(before)
    if (this.failures.length === 0) this.failures.push(...this.doubtful)
    const { worstMs } = await this.gateway.pulse()
    return {
      cases: this.cases,
      byKind: this.byKind,
      faults: this.faults,
      retried: this.lanes.reduce((sum, { retried }) => sum + retried, 0),
      outOfStep: this.lanes.reduce((sum, { outOfStep }) => sum + outOfStep, 0),
      rests: this.rests,
      worstMs,
      failures: this.failures,
    }
  }

  private get over(): boolean {
    const { casesMax, casesMin = 0, untilMs = Number.POSITIVE_INFINITY } = this.options
    const late = this.cases >= casesMin && performance.now() >= untilMs
    return this.restless || this.cases >= casesMax || late
  }

  /** In portions, so that a lane can end where it is. */
  private async lane(lane: Lane<unknown>, at: number): Promise<void> {
    const { seed, path } = this.options
    for (let portion = 0; !this.over && this.failing === null; portion++) {
      const property = fc.asyncProperty(lane.batches, (batch) => this.batch(lane, batch))
      const own = path === undefined ? Math.imul(seed + 1, 7_919 * (at + 1)) + portion : seed
      const details = await fc.check(property, {
        seed: own,
        numRuns: portionRuns,
        ...(path === undefined ? {} : { path }),
      })
      if (details.failed) return this.failed(lane, at, own, details)
      if (path !== undefined) return
    }
  }

  private failed(lane: Lane<unknown>, at: number, seed: number, details: fc.RunDetails<[unknown]>): void {
    const { errorInstance: error, counterexample, counterexamplePath } = details
    const why = error instanceof Error ? error.message : String(error)
    const again = `HOSTILE_WAY=${this.gateway.way} HOSTILE_LANE=${at} HOSTILE_SEED=${seed} HOSTILE_PATH=${counterexamplePath}`
    this.failures.push(`${lane.name}: ${why}\n  case: ${fc.stringify(counterexample)}\n  again: ${again}`)
  }

  private shrinkUntilMs = Number.POSITIVE_INFINITY

  private async batch(lane: Lane<unknown>, batch: unknown): Promise<void> {
    if (this.failing === lane) return this.shrink(lane, batch)
    if (this.failing !== null || this.over) return
    const faults = await this.floor.shared(() => this.play(lane, batch))
    if (this.failing !== null) return
    if (faults.length > 0) return this.doubt(lane, batch, faults)
    if (this.cases >= this.nextRest) {
      this.nextRest = this.cases + this.options.restEvery
      await this.floor.alone(() => this.rest())
    }
  }

  /** What went wrong may be another lane's doing: the one that fails alone is at fault. */
  private async doubt(lane: Lane<unknown>, batch: unknown, seen: readonly Fault[]): Promise<void> {
    this.count(seen)
    await this.floor.alone(async () => {
      if (this.failing !== null) return
      const faults = await this.play(lane, batch)
      if (faults.length === 0) {
        this.doubtful.push(`${lane.name}, not alone: ${told(seen)}\n  case: ${fc.stringify(batch)}`)
        return
      }
      this.failing = lane
      this.shrinkUntilMs = performance.now() + shrinkMsMax
      throw new Error(told(faults))
    })
  }

  private async shrink(lane: Lane<unknown>, batch: unknown): Promise<void> {
    if (performance.now() > this.shrinkUntilMs) return
    const faults = await this.floor.alone(() => this.play(lane, batch))
    if (faults.length > 0) throw new Error(told(faults))
  }

  private async play(lane: Lane<unknown>, batch: unknown): Promise<readonly Fault[]> {
    const kinds = lane.kinds(batch)
    this.cases += kinds.length
    for (const kind of kinds) this.byKind.set(kind, (this.byKind.get(kind) ?? 0) + 1)
    const before = this.gateway.stalls.length
    const faults = [...(await lane.play(batch))]
    if (this.gateway.dead) return [...faults, { kind: 'dead', detail: 'the process has ended' }]
    await this.gateway.pulse()
    for (const { ownMs, wallMs } of this.gateway.stalls.slice(before)) {
      faults.push({ kind: 'stall', detail: `${Math.round(ownMs)} ms of its own, ${Math.round(wallMs)} ms in all` })
    }
    return faults
  }

  private count(faults: readonly Fault[]): void {
    for (const kind of new Set(faults.map((one) => one.kind))) {
      this.faults.set(kind, (this.faults.get(kind) ?? 0) + 1)
    }
  }

  private async rest(): Promise<void> {
    if (this.failing !== null || this.restless) return
    this.rests++
    this.options.rested?.(this.cases)
    const faults = await this.atRest().catch((error: unknown) => [
      { kind: 'not at rest' as const, detail: String(error) },
    ])
    if (faults.length === 0) return
    this.restless = true
    this.count(faults)
    this.failures.push(`after ${this.cases} cases of HOSTILE_SEED=${this.options.seed}: ${told(faults)}`)
  }

  /** Whatever was sent, nothing of it is kept. */
  private async weigh(before: number): Promise<void> {
    const { heapBytes } = await this.gateway.pulse({ collect: true })
    if (heapBytes - before <= heapBytesMore) return
    const grown: Fault = { kind: 'memory', detail: `${heapBytes - before} bytes more on the heap at rest` }
    this.count([grown])
    this.failures.push(`after ${this.cases} cases of HOSTILE_SEED=${this.options.seed}: ${told([grown])}`)
  }

  private async atRest(): Promise<readonly Fault[]> {
    for (const lane of this.lanes) await lane.rest()
    const unserved = this.lanes.flatMap((lane) => lane.unserved.splice(0))
    const charged = await chargedForNothing(this.gateway, unserved)
    return [...(await restFaults(this.gateway, this.descriptorsMax)), ...charged]
  }
}
