import { needsReview, type UsageClaims } from '../../../machines/rules/pricing.ts'
import type { FirstToken } from '../../../protocol/wire/admin/admin.ts'
import type { LiveNode } from '../../../protocol/wire/admin/inspect.ts'
import { stateWords } from '../../../protocol/wire/nodes/state-words.ts'
import { isoTime } from '../../../time.ts'
import type { ModelView, NodeView, RuntimeView } from './node-view.ts'

const momentMs = (ms: number): string | null => (ms === 0 ? null : isoTime(ms))

const firstTokenOf = (measured: ModelView['firstToken']): FirstToken | null =>
  measured === null ? null : { ms: measured.ms, at: isoTime(measured.atMs), of: measured.of }

function liveModel(model: ModelView): LiveNode['runtimes'][number]['models'][number] {
  return {
    model_profile_id: model.profileId,
    model: model.modelId,
    upstream_model: model.upstreamModelId,
    serves: [...model.serves],
    ready: model.ready,
    loaded: model.loaded,
    loading_since: model.loadingSinceMs === null ? null : isoTime(model.loadingSinceMs),
    memory_mb: model.memoryMb,
    resident_mb: model.residentMb,
    prompt_tokens_per_second: model.promptTokensPerSecond,
    backlog_ms: Math.round(model.backlogMs),
    cache_match: model.cacheMatch,
    context_length: model.contextLength,
    in_flight: model.inFlight,
    first_token: firstTokenOf(model.firstToken),
    ttft_ewma_ms: model.firstToken?.ms ?? null,
    tokens_per_second: model.tokensPerSecond,
    measured_at: momentMs(model.measuredAt * 1_000),
    ejected_until: momentMs(model.ejectedUntilMs),
    times_ejected: model.timesEjected,
  }
}

const liveRuntime = (runtime: RuntimeView): LiveNode['runtimes'][number] => ({
  runtime_id: runtime.runtimeId,
  runtime_kind: runtime.kind,
  state: runtime.state,
  slots_total: runtime.slotsTotal,
  slots_free: runtime.slotsFree,
  queue_depth: runtime.queueDepth,
  ranking_models: [...runtime.rankingModels],
  models: runtime.models.map(liveModel),
})

/** In the form of the wire. */
export const liveClaims = (claims: UsageClaims): LiveNode['usage_claims'] => ({
  calls: claims.calls,
  at_bound: claims.atBound,
  review: needsReview(claims),
})

/** The changing part of a node, in the form of the wire. */
export function liveNode(view: NodeView): LiveNode {
  return {
    node_id: view.nodeId,
    admin_state: view.adminState,
    state: view.state,
    state_since: isoTime(view.sinceMs),
    state_reasons: [...view.stateReasons],
    state_says: stateWords(view),
    held_until: momentMs(view.heldUntilMs),
    in_flight: view.inFlight,
    transport: view.transport,
    runtimes: view.runtimes.map(liveRuntime),
    last_error: view.lastError === null ? null : { code: view.lastError.code, at: isoTime(view.lastError.atMs) },
    usage_claims: liveClaims(view.claims),
  }
}
