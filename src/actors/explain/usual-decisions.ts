import { idTail } from '../../ids.ts'
import { noMatches } from '../../machines/placement/cache-view.ts'
import type { RouteCost } from '../../machines/placement/cost.ts'
import type { PlacementRequest } from '../../machines/rules/eligibility.ts'
import type { Placed } from '../../machines/rules/placement.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { ChatCommand } from '../chat/chat-command.ts'
import type { Decision } from '../dispatch/dispatched.ts'

/** What many decisions have in common: among a few routes the same one was chosen. */
export interface UsualKind {
  readonly routes: readonly Route[]
  readonly owners: RoutingTable['owners']
  /** Of the first of them: its time and its lengths are not the others', and nothing of its prompt is kept. */
  readonly request: PlacementRequest
  /** Its costs are not the others'. */
  readonly placement: Placed
}

/** The parts of a decision that differ per request. */
interface OwnPart {
  readonly requestId: string
  readonly request: PlacementRequest
  readonly placement: Placed
  readonly loads: readonly number[]
}

/** `req_` and a ULID. */
const idBytes = 30
/** More routes of a model than these are kept as objects, with their decision. */
const routesMax = 4
/** Of each route. */
export const loadNumbers = 3
const requestNumbers = 3
const stride = requestNumbers + routesMax * loadNumbers
const costFields = [
  'backlogMs',
  'ownMs',
  'fleetMs',
  'slotWaitMs',
  'slots',
  'coldMs',
  'wakeMs',
  'explorationMs',
  'matchedUnits',
  'matchedShare',
  'totalMs',
] as const satisfies readonly (keyof RouteCost)[]
const costStride = routesMax * costFields.length
/** In the place of null: none of the numbers is below 0. */
const none = -1
/** Kinds that are known at a time. A power of two. */
const kindsMax = 256

const orNull = (value: number | undefined) => (value === undefined || value === none ? null : value)

/**
 * Compares all fields except those kept per request (its time, and its prompt's estimated length) and the prompt, which
 * is not kept.
 */
const isLike = (a: PlacementRequest, b: PlacementRequest) =>
  a.access === b.access &&
  a.modelId === b.modelId &&
  a.modality === b.modality &&
  a.byAgents === b.byAgents &&
  a.pin === b.pin &&
  a.profileId === b.profileId &&
  a.ownOnly === b.ownOnly &&
  a.unlisted === b.unlisted &&
  a.exclude === b.exclude &&
  a.side === b.side &&
  a.freeOnly === b.freeOnly &&
  a.queueWaitMs === b.queueWaitMs &&
  a.cacheWaitMs === b.cacheWaitMs &&
  a.contextAbove === b.contextAbove

const isChosenAlike = (a: Placed, b: Placed) =>
  a.route === b.route &&
  a.chosenBy === b.chosenBy &&
  (a.costs === null) === (b.costs === null) &&
  a.open.length === b.open.length &&
  a.open.every((route, at) => route === b.open[at])

/** Otherwise the hashes of a long prompt would stay in memory long after it, unused. */
export const withoutPrompt = (request: PlacementRequest): PlacementRequest =>
  request.prompt === null ? request : { ...request, prompt: null, matches: noMatches }

/**
 * Decisions of the usual kind as numbers and bytes, each in a place: objects that live for 10,000 requests are the most
 * expensive kind for a garbage collector (decision 24).
 */
export class UsualDecisions {
  private readonly ids: Buffer
  private readonly numbers: Float64Array
  /** Untouched, and so not resident, where models have one node each. */
  private readonly costs: Float64Array
  private readonly known: (UsualKind | undefined)[] = new Array(kindsMax).fill(undefined)

  constructor(size: number) {
    this.ids = Buffer.alloc(size * idBytes)
    this.numbers = new Float64Array(size * stride)
    this.costs = new Float64Array(size * costStride)
  }

  /** The decision's kind; null if it is not a usual one, and then nothing is kept here. */
  put(at: number, command: ChatCommand, decision: Decision, routes: readonly Route[]): UsualKind | null {
    const { requestId } = command
    const kind =
      requestId.length === idBytes && routes.length <= routesMax ? this.kindOf(command, decision, routes) : null
    if (kind === null) return null
    const { nowMs, contextLeast, contextWanted } = decision.request
    const { numbers } = this
    this.ids.latin1Write(requestId, at * idBytes, idBytes)
    let next = at * stride
    numbers[next++] = nowMs
    numbers[next++] = contextLeast ?? none
    numbers[next++] = contextWanted ?? none
    for (const { load } of routes) {
      numbers[next++] = load.inFlight
      numbers[next++] = load.ttftEwmaMs ?? none
      numbers[next++] = load.ejectedUntilMs
    }
    if (decision.placement.kind === 'placed') this.putCosts(at, decision.placement)
    return kind
  }

  private putCosts(at: number, { costs }: Placed): void {
    if (costs === null) return
    let next = at * costStride
    for (const cost of costs) for (const field of costFields) this.costs[next++] = cost[field]
  }

  private costsAt(at: number, count: number): readonly RouteCost[] {
    return Array.from({ length: count }, (_, route) => {
      const from = at * costStride + route * costFields.length
      return Object.fromEntries(costFields.map((field, own) => [field, this.costs[from + own]])) as unknown as RouteCost
    })
  }

  private kindOf(
    { access }: ChatCommand,
    { table, request, placement }: Decision,
    routes: readonly Route[],
  ): UsualKind | null {
    if (placement.kind !== 'placed') return null
    const { owners } = table
    // Routes of one model take turns: each has its own place.
    const chosen = 2 * routes.indexOf(placement.route) + (placement.chosenBy === 'affinity' ? 1 : 0)
    const place =
      (idTail(access.keyId ?? access.customerId) + 3 * idTail(request.modelId) + 5 * chosen) & (kindsMax - 1)
    const known = this.known[place]
    if (
      known !== undefined &&
      known.routes === routes &&
      known.owners === owners &&
      isChosenAlike(known.placement, placement) &&
      isLike(known.request, request)
    ) {
      return known
    }
    const kind = { routes, owners, request: withoutPrompt(request), placement }
    this.known[place] = kind
    return kind
  }

  is(at: number, requestId: string): boolean {
    const last = (at + 1) * idBytes - 1
    if (this.ids[last] !== requestId.charCodeAt(idBytes - 1)) return false
    return this.ids.latin1Slice(at * idBytes, last + 1) === requestId
  }

  /** `loads`: of each route of the model calls in flight, time to first token (-1: unknown), end of the ejection. */
  read(at: number, { routes, request, placement }: UsualKind): OwnPart {
    const own = this.numbers.subarray(at * stride, at * stride + requestNumbers + routes.length * loadNumbers)
    const [nowMs = 0, contextLeast, contextWanted, ...loads] = own
    const requestId = this.ids.latin1Slice(at * idBytes, (at + 1) * idBytes)
    return {
      requestId,
      request: { ...request, nowMs, contextLeast: orNull(contextLeast), contextWanted: orNull(contextWanted) },
      placement:
        placement.costs === null ? placement : { ...placement, costs: this.costsAt(at, placement.costs.length) },
      loads,
    }
  }
}
