import type { FirstToken, NodeRow } from '../../../db/queries/pool/pool.ts'
import type { NodeId, ProfileId, RuntimeId } from '../../../ids.ts'
import { unitsPerToken } from '../../../machines/placement/cache-view.ts'
import type { CacheViews } from '../../../machines/placement/cache-views.ts'
import type { UsageClaims } from '../../../machines/rules/pricing.ts'
import type { NodeState } from '../../../machines/rules/routing.ts'
import type { Hardware } from '../../../protocol/wire/nodes/hardware.ts'
import type { Modality } from '../../../protocol/wire/nodes/kinds-of-work.ts'
import type { RuntimeKind } from '../../../protocol/wire/nodes/node.ts'
import { isPooled, type RuntimeStatus } from '../../../runtimes/runtime.ts'
import { type ModelPlacing, placingOf, type RuntimeMemory } from '../nodes/model-placing.ts'
import type { PoolNode } from '../nodes/pool-node.ts'
import type { PoolRuntime } from '../nodes/pool-runtime.ts'
import { type Catalogue, type Profile, publicIdOf, workOn } from '../nodes/routing-table.ts'

/** One node as the admin routes show it. */
export interface NodeView {
  readonly nodeId: NodeId
  readonly state: NodeState
  /** Why it yields: names of probes of its owner. */
  readonly stateReasons: readonly string[]
  /** Its hardware address is known. */
  readonly wakeable: boolean
  /** How often in a row it was woken in vain. */
  readonly wakesInVain: number
  /** Unix ms until which no request wakes it again; 0: any may. */
  readonly wakePausedUntilMs: number
  /** What operators want: of a drained node `state` is `draining`, and then `live`. */
  readonly adminState: NodeRow['adminState']
  /** Unix ms. */
  readonly sinceMs: number
  /** Unix ms; 0 when the node is not held down for flapping. */
  readonly heldUntilMs: number
  readonly inFlight: number
  /** How the gateway reaches the node now, or null if it does not. */
  readonly transport: 'direct' | 'tunnel' | 'peer' | null
  readonly runtimes: readonly RuntimeView[]
  /** A code of `TransportFailure` or `PollResult`, or the `cause` of a call, but never an address. */
  readonly lastError: { readonly code: string; readonly atMs: number } | null
  readonly claims: UsageClaims
  /** As its agent told it last, and only while the node is there. */
  readonly hardware: Hardware | null
}

export interface RuntimeView {
  readonly runtimeId: RuntimeId
  readonly kind: RuntimeKind
  readonly state: RuntimeStatus['state']
  /** Of one server whose ranks are told apart; null: it is a server of its own. */
  readonly engineRank: number | null
  readonly slotsTotal: number | null
  readonly slotsFree: number | null
  readonly queueDepth: number | null
  readonly memory: RuntimeMemory
  readonly models: readonly ModelView[]
  /** Ids of the models that rerank documents there and are ready. No route leads to them. */
  readonly rankingModels: readonly string[]
}

export interface ModelView {
  readonly profileId: ProfileId
  readonly modelId: string
  readonly upstreamModelId: string
  /** The kinds of work that it does, the main one first. */
  readonly serves: readonly Modality[]
  readonly ready: boolean
  readonly loaded: boolean | null
  /** Unix ms since when it is being loaded; null: it is not, or its beginning was not seen. */
  readonly loadingSinceMs: number | null
  /** null: unknown. */
  readonly memoryMb: number | null
  /** As measured by its node; null: it is not running, or it is not measured. */
  readonly residentMb: number | null
  readonly placing: ModelPlacing
  /** How often it was seen to come into memory and to leave it, and how long calls have waited for it, ms. */
  readonly loads: number
  readonly unloads: number
  readonly loadMsSum: number
  /** As learnt from first tokens; null: none has taught it. */
  readonly promptTokensPerSecond: number | null
  /** The estimated work placed there that is still to be read, ms. */
  readonly backlogMs: number
  /** Moving share of prompts that was in its cache, 0 to 1, as its answers say; null: none does. */
  readonly cacheMatch: number | null
  /** Blocks that its cache is thought to have dropped for want of room. */
  readonly cacheEvictions: number
  readonly contextLength: number | null
  readonly inFlight: number
  /** The last that was timed; null: none was. */
  readonly firstToken: FirstToken | null
  readonly tokensPerSecond: number | null
  /** Unix seconds, 0 if never. */
  readonly measuredAt: number
  /** Unix ms; 0 when not ejected. */
  readonly ejectedUntilMs: number
  readonly timesEjected: number
}

export interface ViewSources {
  readonly catalogue: Catalogue
  readonly caches: CacheViews
  readonly way: NodeView['transport']
}

export function viewOf(node: PoolNode, sources: ViewSources): NodeView {
  const runtimes: RuntimeView[] = []
  for (const runtime of node.runtimes.values()) {
    const { runtimeId, kind, engineRank, slotsTotal, status, profiles, loadedMax } = runtime
    if (status === null) continue
    const { state, slotsFree, queueDepth } = status
    const models = [...profiles.values()].map((profile) => modelOf(node, profile, runtime, sources))
    const rankingModels = status.models.filter((model) => model.ready && !isPooled(model)).map(({ id }) => id)
    const memory = { budgetsMb: status.budgetsMb ?? null, loadedMax }
    runtimes.push({
      runtimeId,
      kind,
      state,
      engineRank,
      slotsTotal,
      slotsFree,
      queueDepth,
      memory,
      models,
      rankingModels,
    })
  }
  return {
    nodeId: node.row.nodeId,
    state: node.state,
    stateReasons: node.state === 'yielding' ? (node.power?.reasons ?? []) : [],
    wakeable: (node.row.macs ?? []).length > 0,
    wakesInVain: node.wake.inVain,
    wakePausedUntilMs: node.wake.pausedUntilMs,
    adminState: node.row.adminState,
    sinceMs: node.sinceMs,
    heldUntilMs: node.heldUntilMs,
    inFlight: node.calls.size,
    transport: sources.way,
    runtimes,
    lastError: node.lastError,
    hardware: node.state === 'offline' ? null : node.hardware,
    claims: { calls: node.claims.calls, atBound: node.claims.atBound },
  }
}

function modelOf(
  node: PoolNode,
  profile: Profile,
  { slotsTotal, status }: Pick<PoolRuntime, 'slotsTotal' | 'status'>,
  { catalogue, caches }: ViewSources,
): ModelView {
  const modelId = publicIdOf(catalogue, profile.upstreamModelId)
  const first = status?.models[0]?.id
  const { reading } = profile.load
  const { unitsPerMs, readUntilMs } = reading
  return {
    profileId: profile.profileId,
    modelId,
    upstreamModelId: profile.upstreamModelId,
    serves: workOn(node.row, profile, catalogue).serves,
    ready: node.state === 'ready' && profile.model?.ready === true,
    loaded: profile.model?.loaded ?? null,
    loadingSinceMs: reading.cold ? reading.loadStartedAtMs : null,
    memoryMb: profile.model?.memoryMb ?? null,
    residentMb: profile.model?.residentMb ?? null,
    placing: placingOf(profile, slotsTotal, first),
    loads: reading.loads,
    unloads: reading.unloads,
    loadMsSum: reading.loadMsSum,
    promptTokensPerSecond: unitsPerMs === null ? null : (unitsPerMs * 1_000) / unitsPerToken,
    backlogMs: Math.max(0, readUntilMs - Date.now()),
    cacheMatch: reading.matchEwma,
    cacheEvictions: caches.known(modelId)?.evictedFrom(profile.profileId) ?? 0,
    contextLength: profile.model?.contextLength ?? null,
    inFlight: profile.load.inFlight,
    firstToken: profile.firstToken,
    tokensPerSecond: profile.load.tokensPerSecond,
    measuredAt: profile.measuredAt,
    ejectedUntilMs: profile.load.ejectedUntilMs,
    timesEjected: profile.ejection.timesEjected,
  }
}
