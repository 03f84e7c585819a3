import type { NodeId, ProfileId, RuntimeId } from '../../../src/ids.ts'
import { noMatches } from '../../../src/machines/placement/cache-view.ts'
import { newReading, type Reading } from '../../../src/machines/placement/reading.ts'
import type { PlacementRequest } from '../../../src/machines/rules/eligibility.ts'
import { mergePolicies } from '../../../src/machines/rules/model-policy.ts'
import type { Route, RouteLoad, RoutingTable } from '../../../src/machines/rules/routing.ts'
import type { GatewayPolicy, ModelPolicy } from '../../../src/protocol/wire/admin/policy.ts'

export const nowMs = 1_800_000_000_000

export type RouteChange = Partial<Omit<Route, 'load' | 'nodeId' | 'profileId'>> &
  Partial<Omit<RouteLoad, 'reading'>> & { readonly reading?: Partial<Reading> }

/** A ready route of customer `me` on node `node_<name>`; `change` sets any field of it or of its load. */
export function route(name: string, change: RouteChange = {}): Route {
  const {
    inFlight = 0,
    ttftEwmaMs = null,
    tokensPerSecond = null,
    durationEwmaMs = null,
    ejectedUntilMs = 0,
    reading = {},
    ...rest
  } = change
  const modelId = rest.modelId ?? 'm'
  return {
    profileId: `mp_${name}` as ProfileId,
    nodeId: `node_${name}` as NodeId,
    runtimeId: `rt_${name}` as RuntimeId,
    runtimeKind: 'openai',
    serves: ['chat'],
    workGuessed: false,
    loaded: null,
    file: null,
    memory: null,
    ranking: null,
    agent: null,
    customerId: 'me',
    visibility: 'private',
    privacyClass: 'private',
    nodeClass: 'gpu',
    rank: 0,
    external: false,
    nodeState: 'ready',
    ready: true,
    asleep: null,
    modelId,
    modelNames: [modelId],
    policyNames: rest.modelNames ?? [modelId],
    upstreamModelId: modelId,
    askedWith: null,
    engineRank: null,
    cache: { modelId, upstreamModelId: modelId, profileId: `mp_${name}` as ProfileId },
    contextLength: null,
    maxOutputLength: null,
    slotsTotal: null,
    heldUntilMs: 0,
    priced: false,
    prices: null,
    knownAt: 0,
    load: {
      inFlight,
      ttftEwmaMs,
      tokensPerSecond,
      durationEwmaMs,
      ejectedUntilMs,
      reading: { ...newReading(`mp_${name}`), ...reading },
    },
    ...rest,
  }
}

export function table(...routes: readonly Route[]): RoutingTable {
  const byModel = new Map<string, Route[]>()
  for (const entry of routes) {
    for (const name of entry.modelNames) byModel.set(name, [...(byModel.get(name) ?? []), entry])
  }
  const owners = new Map(routes.map((entry) => [entry.nodeId as string, entry.customerId]))
  return { version: 1, publishedAtMs: nowMs, routes, byModel, latest: new Map(), owners }
}

type RequestChange = Partial<Omit<PlacementRequest, 'access' | 'exclude'>> & {
  readonly customerId?: string
  readonly account?: GatewayPolicy
  readonly key?: ModelPolicy
  readonly nodeScope?: readonly string[]
  readonly exclude?: readonly string[]
}

export function request(change: RequestChange = {}): PlacementRequest {
  const { customerId = 'me', account = null, key = null, nodeScope = null, exclude = [], ...rest } = change
  return {
    modelId: 'm',
    modality: 'chat',
    byAgents: true,
    pin: null,
    profileId: null,
    ownOnly: false,
    unlisted: null,
    side: null,
    freeOnly: true,
    prompt: null,
    matches: noMatches,
    nowMs,
    queueWaitMs: 10_000,
    cacheWaitMs: 10_000,
    contextLeast: null,
    contextWanted: null,
    contextAbove: null,
    ...rest,
    access: { customerId, policy: mergePolicies(account, { policy: key, nodeScope }) },
    exclude: new Set(exclude),
  }
}

/** Numbers in [0, 1) that follow from the seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
