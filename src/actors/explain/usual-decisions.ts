import { idTail } from '../../ids.ts'
import type { PlacementRequest } from '../../machines/rules/eligibility.ts'
import type { Placed } from '../../machines/rules/placement.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { ChatCommand } from '../chat/chat-command.ts'
import type { Decision } from '../chat/dispatch.ts'

/** What many decisions have in common: one route could serve, and nothing had to be weighed. */
export interface UsualKind {
  readonly routes: readonly Route[]
  readonly owners: RoutingTable['owners']
  /** Of the first of them: its time and its lengths are not the others'. */
  readonly request: PlacementRequest
  readonly placement: Placed
}

/** What of a decision is its request's own. */
interface OwnPart {
  readonly requestId: string
  readonly request: PlacementRequest
  readonly loads: readonly number[]
}

/** `req_` and a ULID. */
const idBytes = 30
/** More routes of a model than these are kept as objects, with their decision. */
const routesMax = 2
/** Of each route. */
export const loadNumbers = 3
const requestNumbers = 3
const stride = requestNumbers + routesMax * loadNumbers
/** In the place of null: none of the numbers is below 0. */
const none = -1
/** Kinds that are known at a time. A power of two. */
const kindsMax = 256

const orNull = (value: number | undefined) => (value === undefined || value === none ? null : value)

/** All but what is kept of each request: its time, and how long its prompt was taken for. */
const isLike = (a: PlacementRequest, b: PlacementRequest) =>
  a.access === b.access &&
  a.modelId === b.modelId &&
  a.modality === b.modality &&
  a.byAgents === b.byAgents &&
  a.pin === b.pin &&
  a.profileId === b.profileId &&
  a.ownOnly === b.ownOnly &&
  a.exclude === b.exclude &&
  a.freeOnly === b.freeOnly &&
  a.prompt === b.prompt &&
  a.matches === b.matches &&
  a.queueWaitMs === b.queueWaitMs &&
  a.cacheWaitMs === b.cacheWaitMs &&
  a.contextAbove === b.contextAbove

/**
 * Decisions of the usual kind as numbers and bytes, each in a place: objects that live for 10,000 requests are what a collector
 * copes with least (decision 24).
 */
export class UsualDecisions {
  private readonly ids: Buffer
  private readonly numbers: Float64Array
  private readonly known: (UsualKind | undefined)[] = new Array(kindsMax).fill(undefined)

  constructor(size: number) {
    this.ids = Buffer.alloc(size * idBytes)
    this.numbers = new Float64Array(size * stride)
  }

  /** Its kind. null: it is none of the usual, and nothing is kept of it here. */
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
    return kind
  }

  private kindOf(
    { access }: ChatCommand,
    { table, request, placement }: Decision,
    routes: readonly Route[],
  ): UsualKind | null {
    // What was weighed has costs of its own, and a prompt.
    if (placement.kind !== 'placed' || placement.costs !== null) return null
    const { owners } = table
    const place = (idTail(access.keyId ?? access.customerId) + 3 * idTail(request.modelId)) & (kindsMax - 1)
    const known = this.known[place]
    if (
      known !== undefined &&
      known.routes === routes &&
      known.owners === owners &&
      known.placement.route === placement.route &&
      isLike(known.request, request)
    ) {
      return known
    }
    const kind = { routes, owners, request, placement }
    this.known[place] = kind
    return kind
  }

  is(at: number, requestId: string): boolean {
    const last = (at + 1) * idBytes - 1
    if (this.ids[last] !== requestId.charCodeAt(idBytes - 1)) return false
    return this.ids.latin1Slice(at * idBytes, last + 1) === requestId
  }

  /** `loads`: of each route of the model calls in flight, time to first token (-1: unknown), end of the ejection. */
  read(at: number, { routes, request }: UsualKind): OwnPart {
    const own = this.numbers.subarray(at * stride, at * stride + requestNumbers + routes.length * loadNumbers)
    const [nowMs = 0, contextLeast, contextWanted, ...loads] = own
    const requestId = this.ids.latin1Slice(at * idBytes, (at + 1) * idBytes)
    return {
      requestId,
      request: { ...request, nowMs, contextLeast: orNull(contextLeast), contextWanted: orNull(contextWanted) },
      loads,
    }
  }
}
