import { blockUnits, type Prompt } from './blocks.ts'
import type { Matches } from './cache-view.ts'
import { loadLeftMs } from './loads.ts'
import type { Reading, Work } from './reading.ts'

/** The inputs of the choice. */
export interface Candidate {
  /** In whose cache its prompts are. */
  readonly cache: { readonly profileId: string }
  readonly slotsTotal: number | null
  readonly load: {
    readonly inFlight: number
    /** Exponentially weighted length of a call. */
    readonly durationEwmaMs: number | null
    readonly reading: Reading
  }
}

/** Why a route was chosen or not: expected milliseconds until the first token, and what makes them up (§29). */
export interface RouteCost {
  readonly backlogMs: number
  readonly ownMs: number
  readonly fleetMs: number
  readonly slotWaitMs: number
  /** Calls that it was thought to answer at once, told or learnt; infinite: neither. */
  readonly slots: number
  readonly coldMs: number
  /** Until its node is awake. */
  readonly wakeMs: number
  /** Taken off, since that much of its own time is doubted by now. */
  readonly explorationMs: number
  readonly matchedUnits: number
  /** Of the prompt, 0 to 1. */
  readonly matchedShare: number
  readonly totalMs: number
}

/** Values shared by candidates, which replace a candidate's unknown ones. */
export interface Fleet {
  readonly unitsPerMs: number
  /** Of the fastest of them. */
  readonly unitsPerMsMax: number
  readonly durationMs: number
  /** Of a load of the model; null: none was measured. */
  readonly loadMs: number | null
  /** One of them has the model in memory, or it is on its way there. */
  readonly warm: boolean
  /** How much of the others' wait for a copy of a prefix counts, 0 to 1. */
  readonly copyShare: number
}

/** By which calls without a prompt are shared out among runtimes of unknown slots; no wait is charged by it. */
const slotsAssumed = 4
/** A first token that is late by this share of the mean wait for one of the slots tells of a queue at its server. */
const overdueShare = 0.35
/** Assumed for a node without measurements. */
const unitsPerMsAssumed = 4
const durationMsAssumed = 5_000
/**
 * A copy of a prefix elsewhere is work that others wait for: half of it counts while all routes have free slots, and all of it
 * where none has any.
 */
const copyShareLeast = 0.5
/** Routes within this difference of cost count as equal: the prompt's beginning decides between them. */
const equalWithinMs = 5
/** A session stays with its node unless another one answers sooner by this much: more requests of it will come. */
const sessionWithinMs = 50

/** The means of the known values. */
export function fleetOf(...lists: readonly (readonly Candidate[])[]): Fleet {
  let speeds = 0
  let fastest = 0
  let timed = 0
  let durations = 0
  let measured = 0
  let loads = 0
  let loaded = 0
  let known = 0
  let full = 0
  let warm = false
  for (const routes of lists) {
    known += routes.length
    for (const route of routes) {
      const { reading, inFlight, durationEwmaMs } = route.load
      const { unitsPerMs, loadEwmaMs } = reading
      const calls = inFlight + reading.busyByOthers
      if (calls > 0 && calls >= slotsOf(route)) full++
      if (!warm && (!reading.cold || reading.loadStartedAtMs !== null)) warm = true
      if (unitsPerMs !== null) {
        speeds += unitsPerMs
        fastest = Math.max(fastest, unitsPerMs)
        timed++
      }
      if (durationEwmaMs !== null) {
        durations += durationEwmaMs
        measured++
      }
      if (loadEwmaMs !== null) {
        loads += loadEwmaMs
        loaded++
      }
    }
  }
  return {
    unitsPerMs: timed === 0 ? unitsPerMsAssumed : speeds / timed,
    unitsPerMsMax: timed === 0 ? unitsPerMsAssumed : fastest,
    durationMs: measured === 0 ? durationMsAssumed : durations / measured,
    loadMs: loaded === 0 ? null : loads / loaded,
    warm,
    copyShare: known === 0 ? copyShareLeast : copyShareLeast + (1 - copyShareLeast) * (full / known),
  }
}

/** The calls that it answers at once: as its server says, or fewer if first tokens have shown that; infinite if neither. */
function slotsOf({ slotsTotal, load }: Candidate): number {
  const { limit } = load.reading.concurrency
  if (slotsTotal === null) return limit ?? Number.POSITIVE_INFINITY
  return limit === null || limit > slotsTotal ? slotsTotal : limit
}

/** This gateway's calls and, if the runtime reports them, those of others. */
const inFlightOf = ({ load }: Candidate) => load.inFlight + load.reading.busyByOthers

/**
 * The wait in a queue that is there now: prompts that should have been read by now have no first token yet, so their
 * calls wait for slots, and those that have one take all of them. 0 without a sign of it.
 */
function queueSeenMs({ unseenCalls, unseenMs, openCalls, readUntilMs, cold }: Reading, nowMs: number, lastsMs: number) {
  if (cold || nowMs - readUntilMs <= Math.max(unseenMs, (overdueShare * lastsMs) / openCalls)) return 0
  return ((unseenCalls + 1) / Math.max(1, openCalls - unseenCalls)) * lastsMs
}

/** Of a new call: in the queue that is seen, or in the one that the number of slots makes. `over`: calls beyond the slots. */
function slotWaitOf(route: Candidate, slots: number, over: number, fleet: Fleet, nowMs: number): number {
  const { reading, durationEwmaMs } = route.load
  const lastsMs = durationEwmaMs ?? fleet.durationMs
  const seenMs = reading.unseenCalls === 0 ? 0 : queueSeenMs(reading, nowMs, lastsMs)
  if (over <= 0) return seenMs
  // Calls that have been running for longer than calls took are no short ones.
  const ageMs = reading.openCalls === 0 ? 0 : nowMs - reading.openSinceSumMs / reading.openCalls
  return Math.max(seenMs, (over / slots) * Math.max(lastsMs, ageMs))
}

/**
 * What it may be faster by than it is thought to be: as fast as the fastest; and a load that was never seen may take no time. Where the
 * model is in memory elsewhere, no load is needed to find that out, and others would wait for the model that gives way.
 */
function explorationOf(reading: Reading, fleet: Fleet, unread: number, ownMs: number, coldMs: number): number {
  const isLoadUnproven = reading.loadEwmaMs === null && !fleet.warm
  const unprovenMs = Math.max(0, ownMs - unread / fleet.unitsPerMsMax) + (isLoadUnproven ? coldMs : 0)
  return Math.min(reading.explorationMs, unprovenMs)
}

export function costOf(route: Candidate, fleet: Fleet, units: number, matchedUnits: number, nowMs: number): RouteCost {
  const { reading } = route.load
  const unread = units - matchedUnits
  const ownMs = unread / (reading.unitsPerMs ?? fleet.unitsPerMs) + reading.lagMs
  const fleetMs = unread / fleet.unitsPerMs
  const queuedMs = reading.awaitedMs + reading.queuedByOthers * (reading.ownEwmaMs ?? ownMs)
  const backlogMs = Math.max(0, reading.readUntilMs - nowMs) + queuedMs
  const slots = slotsOf(route)
  const over = inFlightOf(route) + reading.awaited + 1 - slots
  const isAtOnce = over <= 0 && reading.unseenCalls === 0
  const slotWaitMs = isAtOnce ? 0 : slotWaitOf(route, slots, over, fleet, nowMs)
  const coldMs = reading.cold ? loadLeftMs(reading, fleet.loadMs, nowMs) : 0
  const wakeMs = reading.wake.asleep ? reading.wake.leftMs(nowMs) : 0
  const explorationMs = reading.explorationMs === 0 ? 0 : explorationOf(reading, fleet, unread, ownMs, coldMs)
  const matchedShare = units === 0 ? 0 : matchedUnits / units
  const totalMs = backlogMs + ownMs + fleet.copyShare * fleetMs + slotWaitMs + coldMs + wakeMs - explorationMs
  // Spread out of two literals this made a decision over 64 routes 1.8 times as dear.
  return {
    backlogMs,
    ownMs,
    fleetMs,
    slotWaitMs,
    slots,
    coldMs,
    wakeMs,
    explorationMs,
    matchedUnits,
    matchedShare,
    totalMs,
  }
}

/** Highest-random-weight hashing: every gateway computes the same order without asking another. */
function weight(first: number, salt: number): number {
  let mixed = (first % 0x1_0000_0000) ^ Math.floor(first / 0x1_0000_0000) ^ salt
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21_f0_aa_ad)
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x73_5a_2d_97)
  return (mixed ^ (mixed >>> 15)) >>> 0
}

/** Without a prompt to name one: the least busy. */
const ease = (route: Candidate | undefined) => {
  if (route === undefined) return 0
  const slots = slotsOf(route)
  return (slots === Number.POSITIVE_INFINITY ? slotsAssumed : slots) / (route.load.inFlight + 1)
}

/** The model is neither in memory nor on its way there. */
const startsLoad = (route: Candidate | undefined) =>
  route?.load.reading.cold === true && route.load.reading.loadStartedAtMs === null

/** Without the waits of which only late first tokens tell, and for a model on its way without those that begin after it. */
function sureMs({ load: { reading } }: Candidate, { totalMs, slotWaitMs, backlogMs }: RouteCost): number {
  const doubtfulMs = reading.cold ? backlogMs : Math.min(backlogMs, reading.unseenCalls * reading.lagMs)
  return totalMs - slotWaitMs - doubtfulMs
}

/**
 * The cheapest route would load the model. True if only because others have been late that have it, or have it soon, and a free slot. A busy
 * computer is late, too, and a second copy pushes out a model that is in use: so no load is started for that.
 */
function isLoadNeedless(routes: readonly Candidate[], costs: readonly RouteCost[], least: number): boolean {
  return routes.some((route, at) => {
    const cost = costs[at]
    if (cost === undefined || startsLoad(route)) return false
    return inFlightOf(route) + route.load.reading.awaited < cost.slots && sureMs(route, cost) <= least
  })
}

function leastWithoutLoadMs(routes: readonly Candidate[], costs: readonly RouteCost[]): number {
  let least = Number.POSITIVE_INFINITY
  for (const [at, route] of routes.entries())
    if (!startsLoad(route)) least = Math.min(least, costs[at]?.totalMs ?? least)
  return least
}

export interface Choice<R extends Candidate> {
  readonly route: R
  readonly cost: RouteCost
  /** In the order of the routes. */
  readonly costs: readonly RouteCost[]
}

/** The route with the least expected time to the first token; among equals the one that the prompt's beginning names.
 * A session stays where it was. */
export function cheapest<R extends Candidate>(
  routes: readonly [R, ...R[]],
  prompt: Prompt | null,
  matches: Matches,
  nowMs: number,
  fleet: Fleet = fleetOf(routes),
): Choice<R> {
  const units = prompt?.units ?? 0
  const costs: RouteCost[] = []
  let least = Number.POSITIVE_INFINITY
  let leastAt = 0
  let leastBelieved = Number.POSITIVE_INFINITY
  for (const route of routes) {
    const cost = costOf(route, fleet, units, matches.unitsOf(route.cache.profileId), nowMs)
    costs.push(cost)
    if (cost.totalMs < least) {
      least = cost.totalMs
      leastAt = costs.length - 1
    }
    if (cost.totalMs + cost.explorationMs < leastBelieved) leastBelieved = cost.totalMs + cost.explorationMs
  }
  const held = matches.holder === null ? -1 : routes.findIndex(({ cache }) => cache.profileId === matches.holder)
  if (held !== -1 && (costs[held]?.totalMs ?? Number.POSITIVE_INFINITY) <= leastBelieved + sessionWithinMs) {
    return { route: routes[held] ?? routes[0], cost: costs[held] as RouteCost, costs }
  }
  const isLoadOut = startsLoad(routes[leastAt]) && fleet.warm && isLoadNeedless(routes, costs, least)
  if (isLoadOut) least = leastWithoutLoadMs(routes, costs)
  let chosen = 0
  let heaviest = -1
  for (let at = 0; at < routes.length; at++) {
    if ((costs[at]?.totalMs ?? least) > least + equalWithinMs) continue
    if (isLoadOut && startsLoad(routes[at])) continue
    const weighs = prompt === null ? ease(routes[at]) : weight(prompt.first, routes[at]?.load.reading.salt ?? 0)
    if (weighs <= heaviest) continue
    heaviest = weighs
    chosen = at
  }
  return { route: routes[chosen] ?? routes[0], cost: costs[chosen] as RouteCost, costs }
}

/** The work that the placed call adds to its route. */
export function workOf(route: Candidate, cost: RouteCost, prompt: Prompt, nowMs: number): Work {
  return {
    atMs: nowMs,
    ownMs: cost.ownMs,
    lagMs: route.load.reading.lagMs,
    unreadUnits: prompt.units - cost.matchedUnits,
    matchedBlocks: Math.floor(cost.matchedUnits / blockUnits),
    atOnce: cost.coldMs === 0 && inFlightOf(route) < (route.slotsTotal ?? Number.POSITIVE_INFINITY),
    concurrency: cost.coldMs === 0 ? inFlightOf(route) + 1 : 0,
    prompt,
    readMs: null,
  }
}
