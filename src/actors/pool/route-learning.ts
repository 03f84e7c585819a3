import type { MeasuredCalls } from '../../db/queries/pool/pool.ts'
import type { Work } from '../../machines/placement/reading.ts'
import { afterFailure, afterSuccess, type RouteFailure } from '../../machines/rules/ejection.ts'
import type { CallOutcome, FailedCall } from './nodes/in-flight-call.ts'
import type { PoolNode } from './nodes/pool-node.ts'
import type { Profile } from './nodes/routing-table.ts'
import type { RouterOptions } from './router-options.ts'

/** Weight of the newest call in the moving means. */
const ewmaWeight = 0.2
/** Text that arrives faster than this per token was sent as a whole, so it says nothing about the speed of the node. */
const tokenMsLeast = 0.05

const mean = (old: number | null, fresh: number) => (old === null ? fresh : old + ewmaWeight * (fresh - old))

type LearningOptions = Pick<RouterOptions, 'config' | 'log'>

/** Learns from a call about its node and route, and returns what was measured, to be stored. */
export function learnCall(
  node: PoolNode,
  profile: Profile,
  outcome: CallOutcome,
  work: Work | null,
  options: LearningOptions,
): MeasuredCalls | null {
  if (outcome.kind === 'ok') return learnSpeed(profile, outcome, work?.concurrency === 0, Date.now())
  if (outcome.kind === 'failed') learnFailedCall(node, profile, outcome, options)
  return null
}

/** Learns the speed of a route from a good call. `cold`: it has waited for its model to be loaded. `at` is Unix ms. */
function learnSpeed(
  profile: Profile,
  outcome: Extract<CallOutcome, { kind: 'ok' }>,
  cold: boolean,
  at: number,
): MeasuredCalls {
  const { load } = profile
  const { ttftMs, durationMs, completionTokens } = outcome
  const streamingMs = ttftMs === null ? 0 : durationMs - ttftMs
  const streamed = completionTokens > 1 && streamingMs >= completionTokens * tokenMsLeast
  const rate = streamed ? (completionTokens * 1_000) / streamingMs : null
  if (ttftMs !== null) {
    load.ttftEwmaMs = mean(load.ttftEwmaMs, ttftMs)
    profile.firstToken = { ms: ttftMs, atMs: at, of: (profile.firstToken?.of ?? 0) + 1 }
  }
  // A load is no part of what a call for a slot waits for.
  if (!cold) load.durationEwmaMs = mean(load.durationEwmaMs, durationMs)
  else if (ttftMs !== null) load.durationEwmaMs = mean(load.durationEwmaMs, streamingMs)
  if (rate !== null) load.tokensPerSecond = mean(load.tokensPerSecond, rate)
  profile.ejection = afterSuccess(profile.ejection, at - durationMs)
  load.ejectedUntilMs = profile.ejection.ejectedUntilMs
  profile.measuredAt = Math.floor(at / 1_000)
  return {
    profileId: profile.profileId,
    at: new Date(at),
    firstToken: ttftMs === null ? null : { ms: ttftMs, atMs: at, of: 1 },
    tokensPerSecond: rate,
    answered: [],
  }
}

/** Learns from a failed call about its node and, unless the failure is doubtful, about its route. */
function learnFailedCall(
  node: PoolNode,
  profile: Profile,
  outcome: Extract<CallOutcome, { kind: 'failed' }>,
  options: LearningOptions,
): void {
  const { transport, cause, doubtful } = outcome
  const at = Date.now()
  if (doubtful !== true) strikeRoute(node, profile, outcome, options)
  node.failedWith(transport ?? cause, at)
  if (transport === 'refused') {
    node.polls.moved()
    node.actor.send({ type: 'connection.refused', at })
    // Either an old keep-alive connection or a dead node loses a connection. The next poll tells which.
  } else if (cause === 'connect') void node.watch?.pollNow()
}

/** Counts a failed call toward the ejection of its route. */
export function strikeRoute(
  node: PoolNode,
  profile: Profile,
  failed: FailedCall,
  { config, log }: LearningOptions,
): void {
  const failure = { ...failed, probeFailing: node.probeFailing() }
  if (!learnFailure(profile, failure, Date.now(), config.SVC_EJECTION_MS)) return
  const ids = { node_id: node.row.nodeId, profile_id: profile.profileId }
  log.warn('route_ejected', { ...ids, times: profile.ejection.timesEjected })
}

/** Returns true if this failure ejected the route. */
function learnFailure(profile: Profile, failure: RouteFailure, at: number, ejectionMs: number): boolean {
  const before = profile.ejection.ejectedUntilMs
  profile.ejection = afterFailure(profile.ejection, failure, at, ejectionMs)
  profile.load.ejectedUntilMs = profile.ejection.ejectedUntilMs
  return profile.ejection.ejectedUntilMs > before
}
