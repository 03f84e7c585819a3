import type { PlacedCalls } from '../../../../src/actors/placement/placed-calls.ts'
import { blockUnits, type Prompt } from '../../../../src/machines/placement/blocks.ts'
import type { Work } from '../../../../src/machines/placement/reading.ts'
import { type LinePlace, patienceMs } from '../../../../src/machines/placement/slot-line.ts'
import { place, takePlace } from '../../../../src/machines/rules/placement.ts'
import type { RoutingTable } from '../../../../src/machines/rules/routing.ts'
import { request, table } from '../../rules/routes.ts'
import { blockTokens, type Machine, type Sent } from './machine.ts'

const unitsPerToken = 4
/** The gateway's blocks are so many of the machine's. */
const coarse = blockUnits / (blockTokens * unitsPerToken)
/** SVC_QUEUE_WAIT_MS */
const queueWaitMs = 10_000

export interface SimRequest extends Sent {
  /** Seconds. */
  readonly at: number
  readonly conversation: string
  placedAt: number
  firstAt: number
  matched: number
  done: () => void
  work: Work | null
  /** In the gateway's line: the machine for whose slot it waits, and until when, seconds; null: for any, or not yet. */
  awaits: LinePlace | null
  patientUntil: number | null
}

export type SimMachine = Machine<SimRequest>

export interface World {
  /** Those that are there. */
  machines(): readonly SimMachine[]
  readonly random: () => number
  readonly lastServer: Map<string, SimMachine>
  readonly placed: PlacedCalls
  /** Seconds. */
  now(): number
  nowMs(): number
}

function least(machines: readonly SimMachine[], cost: (machine: SimMachine) => number): SimMachine {
  const costs = machines.map(cost)
  return machines[costs.indexOf(Math.min(...costs))] as SimMachine
}

const cut = (blocks: readonly number[]) => blocks.filter((_, at) => at % coarse === coarse - 1)

export function promptOf({ blocks }: Pick<Sent, 'blocks'>): Prompt {
  const own = cut(blocks)
  return { units: blocks.length * blockTokens * unitsPerToken, blocks: own, first: own[0] ?? blocks[0] ?? 0 }
}

/** null: it waits in the gateway. */
export type Rule = (world: World) => (request: SimRequest) => SimMachine | null

const twoChoices = ({ machines, random }: World) => {
  const all = machines()
  const i = Math.floor(random() * all.length)
  const j = (i + 1 + Math.floor(random() * (all.length - 1))) % all.length
  const [a, b] = [all[i] as SimMachine, all[j] as SimMachine]
  return a.load <= b.load ? a : b
}

/** A rule of others sees what a gateway sees, unless its name says more, and sends at once. */
export const rules = {
  'round robin': ({ machines }) => {
    let turn = 0
    return () => machines()[turn++ % machines().length] as SimMachine
  },
  'least in flight': ({ machines }) => {
    let turn = 0
    return () => {
      turn++
      const all = machines()
      return least(
        all.map((_, i) => all[(i + turn) % all.length] as SimMachine),
        ({ load }) => load,
      )
    }
  },
  /** The better of two by chance. */
  P2C: (world) => () => twoChoices(world),
  sticky: (world) => (request) => world.lastServer.get(request.conversation) ?? twoChoices(world),
  /** SGLang's gateway: the best match above 0.3, the smallest tree otherwise, the least loaded out of balance. */
  SGLang: ({ machines }) => {
    return ({ blocks }) => {
      const all = machines()
      const loads = all.map(({ load }) => load)
      const [most, fewest] = [Math.max(...loads), Math.min(...loads)]
      if (most - fewest > 8 && most > fewest * 1.5) return least(all, ({ load }) => load)
      const best = least(all, ({ view }) => -view.matched(blocks))
      return best.view.matched(blocks) / blocks.length > 0.3 ? best : least(all, ({ view }) => view.size)
    }
  },
  /** llm-d's weights, prefix 3 and load 2, over what was sent where. */
  'llm-d': ({ machines, random }) => {
    return ({ blocks }) => {
      const all = machines()
      const most = Math.max(1, ...all.map(({ load }) => load))
      return least(all, ({ view, load }) => {
        const hit = view.matched(blocks) / blocks.length
        return -(3 * hit + 2 * (1 - load / most) + random() * 1e-3)
      })
    }
  },
  /** llm-d's weights with the caches, queues and slots as they are at that moment: prefix 3, queue 2, use of the cache 2. */
  'llm-d, all known': ({ machines, random }) => {
    return ({ blocks }) => {
      const all = machines()
      const queues = all.map(({ waiting }) => waiting.length)
      const [most, fewest] = [Math.max(...queues), Math.min(...queues)]
      return least(all, ({ waiting, ends, slots, cache }) => {
        const queue = most === fewest ? 1 : (most - waiting.length) / (most - fewest)
        const free = 1 - Math.min(1, ends.length / slots)
        return -(3 * (cache.matched(blocks) / blocks.length) + 2 * queue + 2 * free + random() * 1e-3)
      })
    }
  },
  /** The soonest first token, as it will be. */
  oracle: ({ machines, now }) => {
    return ({ blocks }) => least(machines(), (machine) => machine.firstTokenAt(blocks, now()))
  },
  /** The gateway's own code: null while it is better to wait. */
  Penstock: ({ machines, random, placed, now, nowMs }) => {
    let known: readonly SimMachine[] = []
    let pool: RoutingTable = table()
    return (asked) => {
      const all = machines()
      if (all.length !== known.length) {
        known = all
        pool = table(...all.map(({ route }) => route))
      }
      for (const { route, load } of all) route.load.inFlight = load
      const prompt = promptOf(asked)
      const isPatient = asked.patientUntil === null || now() < asked.patientUntil
      const wanted = request({
        prompt,
        matches: placed.caches.match('m', prompt),
        nowMs: nowMs(),
        cacheWaitMs: isPatient ? queueWaitMs : null,
      })
      const found = place(pool, wanted)
      if (found.kind === 'saturated' && found.awaits !== null) {
        const { route, cost } = found.awaits
        asked.awaits = { profileId: route.profileId, reading: route.load.reading, ownMs: cost.ownMs }
        asked.patientUntil ??= now() + Math.min(patienceMs(found.awaits), queueWaitMs) / 1_000
      }
      if (found.kind !== 'placed') return null
      asked.work = takePlace(found, wanted, random)
      placed.begun(found.route, { work: asked.work, timed: true })
      return all.find(({ route }) => route === found.route) ?? null
    }
  },
} satisfies Record<string, Rule>

export type RuleName = keyof typeof rules
