import type { NodeId, ProfileId, RuntimeId } from '../../ids.ts'
import type { NodeState } from '../../machines/rules/routing.ts'
import type { RuntimeKind } from '../../protocol/wire/nodes/node.ts'
import { isPooled, type RuntimeStatus } from '../../runtimes/runtime.ts'
import type { PoolNode } from './pool-node.ts'
import { type Catalogue, type Profile, publicIdOf } from './routing-table.ts'

/** One node as the admin routes show it. */
export interface NodeView {
  readonly nodeId: NodeId
  readonly state: NodeState
  /** True if an operator has drained the node: it is `draining`, and then `live`. */
  readonly drained: boolean
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
}

export interface RuntimeView {
  readonly runtimeId: RuntimeId
  readonly kind: RuntimeKind
  readonly state: RuntimeStatus['state']
  readonly slotsTotal: number | null
  readonly slotsFree: number | null
  readonly queueDepth: number | null
  readonly models: readonly ModelView[]
  /** Ids of the models that rerank documents there and are ready. No route leads to them. */
  readonly rankingModels: readonly string[]
}

export interface ModelView {
  readonly profileId: ProfileId
  readonly modelId: string
  readonly upstreamModelId: string
  readonly ready: boolean
  readonly loaded: boolean | null
  readonly contextLength: number | null
  readonly inFlight: number
  readonly ttftEwmaMs: number | null
  readonly tokensPerSecond: number | null
  /** Unix seconds, 0 if never. */
  readonly measuredAt: number
  /** Unix ms; 0 when not ejected. */
  readonly ejectedUntilMs: number
  readonly timesEjected: number
}

export function viewOf(node: PoolNode, catalogue: Catalogue, way: NodeView['transport']): NodeView {
  const runtimes: RuntimeView[] = []
  for (const { runtimeId, kind, slotsTotal, status, profiles } of node.runtimes.values()) {
    if (status === null) continue
    const { state, slotsFree, queueDepth } = status
    const models = [...profiles.values()].map((profile) => modelOf(node, profile, catalogue))
    const rankingModels = status.models.filter((model) => model.ready && !isPooled(model)).map(({ id }) => id)
    runtimes.push({ runtimeId, kind, state, slotsTotal, slotsFree, queueDepth, models, rankingModels })
  }
  return {
    nodeId: node.row.nodeId,
    state: node.state,
    drained: node.row.adminState === 'draining',
    sinceMs: node.sinceMs,
    heldUntilMs: node.heldUntilMs,
    inFlight: node.calls.size,
    transport: way,
    runtimes,
    lastError: node.lastError,
  }
}

function modelOf(node: PoolNode, profile: Profile, catalogue: Catalogue): ModelView {
  return {
    profileId: profile.profileId,
    modelId: publicIdOf(catalogue, profile.upstreamModelId),
    upstreamModelId: profile.upstreamModelId,
    ready: node.state === 'ready' && profile.model?.ready === true,
    loaded: profile.model?.loaded ?? null,
    contextLength: profile.model?.contextLength ?? null,
    inFlight: profile.load.inFlight,
    ttftEwmaMs: profile.load.ttftEwmaMs,
    tokensPerSecond: profile.load.tokensPerSecond,
    measuredAt: profile.measuredAt,
    ejectedUntilMs: profile.load.ejectedUntilMs,
    timesEjected: profile.ejection.timesEjected,
  }
}
