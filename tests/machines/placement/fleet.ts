import { blockUnits } from '../../../src/machines/placement/blocks.ts'
import { CacheView } from '../../../src/machines/placement/cache-view.ts'
import { cheapest, fleetOf, workOf } from '../../../src/machines/placement/cost.ts'
import {
  firstTokenSeen,
  newReading,
  type Reading,
  type Work,
  workEnded,
  workPassed,
  workPlaced,
} from '../../../src/machines/placement/reading.ts'
import {
  joinQueue,
  type LinePlace,
  leaveQueue,
  patienceMs,
  routeWorthWaitingFor,
} from '../../../src/machines/placement/slot-line.ts'
import { seeded } from '../rules/routes.ts'

/**
 * Placement rules against each other in virtual time. Each machine has one reader of prompts, `slots` writers, and an LRU
 * cache of prompt blocks. Conversations arrive by Poisson; each has a shared system prompt (Zipf) and grows turn by turn.
 * Time to first token = waiting for a slot + waiting for the reader + reading what is not cached. A rule sees only what a
 * gateway sees. The peers' rules send at once, and requests wait at the machine; ours waits as the gateway does, in its line.
 */
export interface Plan {
  readonly nodes: number
  /** Tokens per second. */
  readonly prefill: number
  readonly decode: number
  readonly slots: number
  readonly cacheTokens: number
  /** What the runtime says of its cache ÷ what it has. */
  readonly viewFactor: number
  /** The runtime says how much of a prompt it found in its cache. */
  readonly corrected: boolean
  /** Speeds are thought wrong by up to this share. */
  readonly noise: number
  readonly mixed: boolean
  readonly systems: number
  readonly systemTokens: number
  readonly userTokens: number
  readonly outTokens: number
  readonly turns: number
  /** Seconds. */
  readonly think: number
  readonly zipf: number
  /** Conversations per second. */
  readonly rate: number
  readonly horizon: number
  readonly warmup: number
}

export const plan: Plan = {
  nodes: 8,
  prefill: 3_000,
  decode: 40,
  slots: 8,
  cacheTokens: 120_000,
  viewFactor: 1,
  corrected: false,
  noise: 0,
  mixed: false,
  systems: 24,
  systemTokens: 3_000,
  userTokens: 400,
  outTokens: 300,
  turns: 8,
  think: 6,
  zipf: 1.6,
  rate: 0.5,
  horizon: 900,
  warmup: 200,
}

const blockTokens = 64
const unitsPerToken = 4
/** The gateway's blocks are so many of the machine's. */
const coarse = blockUnits / (blockTokens * unitsPerToken)

class BlockCache {
  private readonly blocks = new Map<number, true>()
  constructor(private readonly capacity: number) {}
  get size() {
    return this.blocks.size
  }
  touch(block: number) {
    this.blocks.delete(block)
    this.blocks.set(block, true)
    for (const oldest of this.blocks.keys()) {
      if (this.blocks.size <= this.capacity) break
      this.blocks.delete(oldest)
    }
  }
  /** Leading blocks that are here. */
  matched(blocks: readonly number[]): number {
    const missing = blocks.findIndex((block) => !this.blocks.has(block))
    return missing === -1 ? blocks.length : missing
  }
}

interface SimRequest {
  readonly at: number
  readonly blocks: readonly number[]
  readonly out: number
  readonly answer: readonly number[]
  readonly conversation: string
  readonly system: string
  done: () => void
  work: Work | null
  /** In the gateway's line: the machine for whose slot it waits, and until when, seconds; null: for any, or not yet. */
  awaits: LinePlace | null
  patientUntil: number | null
}

interface Machine {
  readonly profileId: string
  readonly slotsTotal: number
  readonly load: { inFlight: number; durationEwmaMs: number; readonly reading: Reading }
  readonly speed: number
  readonly slots: number
  readonly cache: BlockCache
  /** What the peers' rules think is in the cache. */
  readonly view: BlockCache
  readonly waiting: SimRequest[]
  active: number
  readUntil: number
  count: number
}

interface World {
  readonly nodes: readonly [Machine, ...Machine[]]
  readonly random: () => number
  readonly lastServer: Map<string, Machine>
  readonly brain: CacheView
  clock(): number
}

const load = (node: Machine) => node.active + node.waiting.length
function least(nodes: readonly Machine[], cost: (node: Machine) => number): Machine {
  const costs = nodes.map(cost)
  return nodes[costs.indexOf(Math.min(...costs))] as Machine
}

/** As the gateway cuts it: every fourth block of the machine's names all before it. */
const cut = (blocks: readonly number[]) => blocks.filter((_, at) => at % coarse === coarse - 1)
const promptOf = ({ blocks }: Pick<SimRequest, 'blocks'>) => ({
  units: blocks.length * blockTokens * unitsPerToken,
  blocks: cut(blocks),
  first: cut(blocks)[0] ?? blocks[0] ?? 0,
})

type Rule = (world: World) => (request: SimRequest) => Machine | null
/** SVC_QUEUE_WAIT_MS */
const queueWaitMs = 10_000

export const rules = {
  roundRobin: ({ nodes }) => {
    let turn = 0
    return () => nodes[turn++ % nodes.length] as Machine
  },
  leastInFlight: ({ nodes }) => {
    let turn = 0
    return () => {
      turn++
      return least(
        nodes.map((_, i) => nodes[(i + turn) % nodes.length] as Machine),
        load,
      )
    }
  },
  /** The last server of the prefix while it is within 1.25 × the mean, else the better of two. */
  lastServer: ({ nodes, random, lastServer }) => {
    return (request) => {
      const busyness = (node: Machine) => (load(node) + 1) / node.slots
      const mean = nodes.reduce((sum, node) => sum + busyness(node), 0) / nodes.length
      const node = lastServer.get(request.conversation) ?? lastServer.get(request.system)
      if (node !== undefined && busyness(node) <= 1.25 * mean + 1 / node.slots) return node
      const i = Math.floor(random() * nodes.length)
      const j = (i + 1 + Math.floor(random() * (nodes.length - 1))) % nodes.length
      const [a, b] = [nodes[i] as Machine, nodes[j] as Machine]
      return load(a) <= load(b) ? a : b
    }
  },
  /** SGLang's gateway: the best match above 0.3, the smallest tree otherwise, the least loaded out of balance. */
  sglang: ({ nodes }) => {
    return ({ blocks }) => {
      const loads = nodes.map(load)
      const most = Math.max(...loads)
      const fewest = Math.min(...loads)
      if (most - fewest > 8 && most > fewest * 1.5) return least(nodes, load)
      const best = least(nodes, (node) => -node.view.matched(blocks))
      return best.view.matched(blocks) / blocks.length > 0.3 ? best : least(nodes, (node) => node.view.size)
    }
  },
  /** llm-d's weights: prefix 3, load 2. */
  llmD: ({ nodes, random }) => {
    return ({ blocks }) => {
      const most = Math.max(1, ...nodes.map(load))
      return least(nodes, (node) => {
        const hit = node.view.matched(blocks) / blocks.length
        return -(3 * hit + 2 * (1 - load(node) / most) + random() * 1e-3)
      })
    }
  },
  /** The gateway's: null while it is better to wait. */
  expectedFirstToken: ({ nodes, brain, clock, random }) => {
    return (request) => {
      const [prompt, nowMs] = [promptOf(request), clock() * 1_000]
      for (const node of nodes) node.load.inFlight = load(node)
      const open = nodes.filter((node) => node.active < node.slots)
      const full = nodes.filter((node) => node.active >= node.slots)
      const [matches, fleet] = [brain.match(prompt), fleetOf(nodes)]
      const [first, ...others] = open
      const choice = first === undefined ? null : cheapest([first, ...others], prompt, matches, nowMs, fleet)
      const elsewhere = choice === null ? null : { open, costs: choice.costs, totalMs: choice.cost.totalMs }
      const isPatient = request.patientUntil === null || clock() < request.patientUntil
      const asking = { prompt, matches, nowMs, fleet, waitMs: queueWaitMs }
      const awaited = isPatient ? routeWorthWaitingFor(full, elsewhere, asking) : null
      if (awaited !== null) {
        const { profileId, load } = awaited.route
        request.awaits = { profileId, reading: load.reading, ownMs: awaited.cost.ownMs }
        request.patientUntil ??= clock() + Math.min(patienceMs(awaited), queueWaitMs) / 1_000
        return null
      }
      if (choice === null) return null
      request.work = workOf(choice.route, choice.cost, prompt, nowMs)
      const passed = open[Math.floor(random() * open.length)]
      if (passed !== undefined && passed !== choice.route) workPassed(passed.load.reading, nowMs)
      workPlaced(choice.route.load.reading, request.work, true)
      brain.record(choice.route.profileId, prompt)
      return choice.route
    }
  },
} satisfies Record<string, Rule>

export type RuleName = keyof typeof rules

export interface Outcome {
  /** Seconds to the first token. */
  readonly mean: number
  readonly p95: number
  /** Share of the blocks asked for. */
  readonly hits: number
}

/** Runs until the horizon; the same seed gives every rule the same conversations. */
export function simulate(rule: RuleName, change: Partial<Plan>, seed: number): Outcome {
  const world = new Simulation(rule, { ...plan, ...change }, seed)
  return world.run()
}

class Agenda {
  private readonly heap: { at: number; order: number; run: () => void }[] = []
  private order = 0
  get size() {
    return this.heap.length
  }
  at(at: number, run: () => void) {
    const { heap } = this
    const event = { at, order: this.order++, run }
    let i = heap.push(event) - 1
    while (i > 0) {
      const parent = (i - 1) >> 1
      if (earlier(heap[parent], event)) break
      heap[i] = heap[parent] as typeof event
      i = parent
    }
    heap[i] = event
  }
  next(): { at: number; run: () => void } {
    const { heap } = this
    const first = heap[0]
    const last = heap.pop()
    if (first === undefined || last === undefined) throw new Error('nothing left to happen')
    let i = 0
    while (heap.length > 0) {
      let child = 2 * i + 1
      if (child + 1 < heap.length && earlier(heap[child + 1], heap[child])) child++
      if (child >= heap.length || earlier(last, heap[child])) break
      heap[i] = heap[child] as typeof last
      i = child
    }
    if (heap.length > 0) heap[i] = last
    return first
  }
}

type Happening = { readonly at: number; readonly order: number } | undefined
const earlier = (a: Happening, b: Happening) =>
  a !== undefined && b !== undefined && (a.at < b.at || (a.at === b.at && a.order < b.order))

interface Conversation {
  readonly id: number
  readonly system: number
  readonly random: () => number
  blocks: readonly number[]
  turn: number
}

class Simulation {
  private now = 0
  private nextBlock = 1
  private hits = 0
  private asked = 0
  private conversations = 0
  private readonly firstTokens: number[] = []
  private readonly agenda = new Agenda()
  private readonly brain = new CacheView()
  private readonly lastServer = new Map<string, Machine>()
  private readonly nodes: readonly [Machine, ...Machine[]]
  private readonly systems: readonly (readonly number[])[]
  private readonly arrivals: () => number
  private readonly choose: (request: SimRequest) => Machine | null
  private line: readonly SimRequest[] = []

  constructor(
    rule: RuleName,
    private readonly plan: Plan,
    private readonly seed: number,
  ) {
    const random = seeded(seed + 1_000)
    this.arrivals = seeded(seed)
    const machines = Array.from({ length: plan.nodes }, (_, at) => this.machine(at, random))
    this.nodes = machines as unknown as readonly [Machine, ...Machine[]]
    this.systems = Array.from({ length: plan.systems }, () => this.fresh(plan.systemTokens / blockTokens))
    const { nodes, lastServer, brain } = this
    this.choose = rules[rule]({ nodes, random, lastServer, brain, clock: () => this.now })
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
    const mean = sorted.reduce((sum, time) => sum + time, 0) / sorted.length
    return { mean, p95: sorted[Math.floor(sorted.length * 0.95)] ?? Number.NaN, hits: this.hits / this.asked }
  }

  private machine(at: number, random: () => number): Machine {
    const { prefill, mixed, noise, slots, cacheTokens, viewFactor, outTokens, decode } = this.plan
    const speed = prefill * (mixed ? ([1, 1, 0.5, 2][at % 4] ?? 1) : 1)
    const reading = newReading(`mp_${at}`)
    reading.unitsPerMs = (speed * (1 + noise * (2 * random() - 1)) * unitsPerToken) / 1_000
    this.brain.reported(`mp_${at}`, (cacheTokens * viewFactor) / 2)
    return {
      profileId: `mp_${at}`,
      slotsTotal: slots,
      load: { inFlight: 0, durationEwmaMs: (outTokens / decode) * 1_000, reading },
      speed,
      slots,
      cache: new BlockCache(cacheTokens / blockTokens),
      view: new BlockCache((cacheTokens * viewFactor) / blockTokens),
      waiting: [],
      active: 0,
      readUntil: 0,
      count: 0,
    }
  }

  private fresh(count: number): readonly number[] {
    return Array.from({ length: Math.max(1, Math.round(count)) }, () => this.nextBlock++)
  }

  private arrive(): void {
    const { systems, zipf, rate, horizon } = this.plan
    const system = Math.min(systems - 1, Math.floor(systems * this.arrivals() ** zipf))
    const id = this.conversations++
    const random = seeded(this.seed * 7_919 + id)
    this.submit({ id, system, random, blocks: this.systems[system] ?? [], turn: 0 })
    const gap = -Math.log(1 - this.arrivals()) / rate
    if (this.now + gap < horizon) this.agenda.at(this.now + gap, () => this.arrive())
  }

  private submit(conversation: Conversation): void {
    const { userTokens, outTokens, turns, think } = this.plan
    const said = this.fresh((userTokens * (0.5 + conversation.random())) / blockTokens)
    const blocks = conversation.blocks.concat(said)
    conversation.blocks = blocks
    const out = outTokens * (0.5 + conversation.random())
    const answer = this.fresh(out / blockTokens)
    const names = { conversation: `c${conversation.id}`, system: `s${conversation.system}` }
    const request: SimRequest = {
      at: this.now,
      blocks,
      out,
      answer,
      ...names,
      done: () => {},
      work: null,
      awaits: null,
      patientUntil: null,
    }
    request.done = () => {
      conversation.blocks = blocks.concat(answer)
      conversation.turn++
      if (conversation.turn >= turns) return
      this.agenda.at(this.now + think * (0.5 + conversation.random()), () => this.submit(conversation))
    }
    if (!this.place(request)) this.line = [...this.line, request]
  }

  /** False: it waits on. */
  private place(request: SimRequest): boolean {
    if (request.awaits !== null) leaveQueue(request.awaits)
    request.awaits = null
    const wasPatient = request.patientUntil !== null
    const node = this.choose(request)
    if (node === null) {
      if (request.awaits !== null) joinQueue(request.awaits)
      if (request.patientUntil !== null && !wasPatient) {
        this.agenda.at(request.patientUntil, () => {
          if (this.line.includes(request)) this.place(request)
        })
      }
      return false
    }
    this.line = this.line.filter((other) => other !== request)
    node.count++
    this.lastServer.set(request.conversation, node)
    this.lastServer.set(request.system, node)
    for (const block of [...request.blocks, ...request.answer]) node.view.touch(block)
    node.waiting.push(request)
    this.admit(node)
    return true
  }

  /** A slot is free: who waits for it, or for any, looks first. */
  private wake({ profileId }: Machine): void {
    const isFor = ({ awaits }: SimRequest) => awaits === null || awaits.profileId === profileId
    for (const request of [...this.line.filter(isFor), ...this.line.filter((other) => !isFor(other))]) {
      if (this.place(request)) return
    }
  }

  private admit(node: Machine): void {
    while (node.active < node.slots && node.waiting.length > 0) {
      const request = node.waiting.shift() as SimRequest
      node.active++
      const matched = node.cache.matched(request.blocks)
      this.hits += matched
      this.asked += request.blocks.length
      const unread = (request.blocks.length - matched) * blockTokens
      const first = Math.max(this.now, node.readUntil) + unread / node.speed + 0.01
      node.readUntil = first
      for (const block of request.blocks) node.cache.touch(block)
      if (request.at > this.plan.warmup) this.firstTokens.push(first - request.at)
      this.agenda.at(first, () => this.firstTokenOf(request, node, matched))
      this.agenda.at(first + request.out / this.plan.decode, () => this.end(request, node))
    }
  }

  private firstTokenOf({ work }: SimRequest, node: Machine, matched: number): void {
    if (work === null) return
    firstTokenSeen(node.load.reading, work, this.now * 1_000)
    if (!this.plan.corrected) return
    this.brain.corrected(node.profileId, work.matchedBlocks, matched * blockTokens * unitsPerToken)
  }

  private end(request: SimRequest, node: Machine): void {
    node.active--
    for (const block of request.answer) node.cache.touch(block)
    const answerUnits = request.answer.length * blockTokens * unitsPerToken
    if (request.work !== null) {
      workEnded(node.load.reading, request.work, true, this.now * 1_000)
      this.brain.answered(node.profileId, promptOf(request), answerUnits)
    }
    request.done()
    this.admit(node)
    this.wake(node)
  }
}
