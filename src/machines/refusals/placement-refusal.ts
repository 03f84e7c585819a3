import { inDigits } from '../../amounts.ts'
import { Problem, type ProblemOptions, quoteValue } from '../../errors.ts'
import { namesComparedMax, noSuchModel } from '../../protocol/validation/missing-model.ts'
import { retrySeconds as secondsToRetry } from '../../time.ts'
import { judge, type PlacementRequest, type RefusalCode, type Verdict, verdictRank } from '../rules/eligibility.ts'
import type { Route, RoutingTable } from '../rules/routing.ts'
import { wakeRefusalOf } from '../sleep/waking.ts'
import { asleepRefused } from './asleep.ts'
import { externalRefused, privacyRefused } from './privacy.ts'

/** Names that are looked at for those that the caller may use. */
const namesLookedAtMax = 4 * namesComparedMax
const retrySeconds = 5
/** A node that may not be woken now wakes when a person does it, or when its hours begin. */
const asleepRetrySeconds = 60

/** Until the first of them may be woken again, 1 to 120. */
const retrySecondsOfPause = (routes: readonly Route[], nowMs: number): number =>
  secondsToRetry(
    Math.min(...routes.map(({ load }) => load.reading.wake.pausedUntilMs).filter((ms) => ms > nowMs)) - nowMs,
  )

/** The names of models that this caller may call by such a request, and of no others: judged as the request was. */
export function* callableNames(table: RoutingTable, request: PlacementRequest): Generator<string> {
  let looks = 0
  const reaches = (route: Route) =>
    verdictRank[judge(route, request)] > verdictRank.billed && request.access.policy.allows(route.policyNames)
  for (const [name, routes] of table.byModel) {
    if (looks++ >= namesLookedAtMax) return
    if (routes.some(reaches)) yield name
  }
}

/** The model's routes whose verdict got furthest, which decides the message. */
function furthest(table: RoutingTable, request: PlacementRequest): { verdict: Verdict; routes: readonly Route[] } {
  const judged = (table.byModel.get(request.modelId) ?? []).map((route) => ({
    route,
    verdict: judge(route, request),
  }))
  const most = Math.max(0, ...judged.map(({ verdict }) => verdictRank[verdict]))
  const reached = judged.filter(({ verdict }) => verdictRank[verdict] === most)
  return { verdict: reached[0]?.verdict ?? 'not_visible', routes: reached.map(({ route }) => route) }
}

function contextExceeded(routes: readonly Route[], { modelId, contextLeast }: PlacementRequest): ProblemOptions {
  const largest = Math.max(0, ...routes.map(({ contextLength }) => contextLength ?? 0))
  const param = 'messages'
  if (contextLeast === null || largest === 0) return { param }
  const tokens = `The prompt has at least ${inDigits(contextLeast)} tokens by the gateway's estimate`
  return { param, detail: `${tokens}; ${modelId} takes ${inDigits(largest)}.` }
}

/** The one fault of a request that placement alone can see. */
function unlistedRefused(modelId: string, unlisted: string): ProblemOptions {
  const why = 'It passes such a field on to your own nodes alone, as others may charge for what it does'
  const what = `"${quoteValue(unlisted)}" is a field that this gateway does not know. ${why}, and none of yours can serve ${modelId} here.`
  return { param: unlisted, detail: `${what} Leave the field out, or connect a node of your own.` }
}

/** The message about policies for `model_not_allowed` and `privacy_class_not_allowed`. */
export function policyDetail(table: RoutingTable, request: PlacementRequest): string | null {
  const { modelId, access, ownOnly } = request
  const { verdict, routes } = furthest(table, request)
  if (verdict === 'privacy_class') return privacyRefused(modelId, routes, access.policy, ownOnly)
  return verdict === 'external' ? externalRefused(modelId, access.policy) : null
}

/** `list`: the path of the caller's interface that lists models. */
function optionsOf(table: RoutingTable, request: PlacementRequest, code: RefusalCode, list: string): ProblemOptions {
  const { modelId, profileId } = request
  switch (code) {
    case 'no_route_available':
      return { retryAfterSeconds: retrySeconds }
    case 'node_asleep': {
      const { routes } = furthest(table, request)
      const why = wakeRefusalOf(routes, request) ?? 'no_address'
      const retryAfterSeconds = why === 'paused' ? retrySecondsOfPause(routes, request.nowMs) : asleepRetrySeconds
      return { retryAfterSeconds, detail: asleepRefused(modelId, routes, why) }
    }
    case 'node_pin_forbidden':
      return { param: 'svc.node_id' }
    case 'model_not_found':
      if (profileId !== null) return { param: 'svc.model_profile_id' }
      return { param: 'model', detail: noSuchModel(modelId, callableNames(table, request), list) }
    case 'model_not_allowed':
      return {
        param: 'model',
        detail: `The policy of this key or of its account does not allow ${modelId}. GET ${list} lists what you can use.`,
      }
    case 'privacy_class_not_allowed': {
      const detail = policyDetail(table, request)
      return { param: 'model', ...(detail === null ? {} : { detail }) }
    }
    case 'context_length_exceeded':
      return contextExceeded(furthest(table, request).routes, request)
    case 'invalid_request':
      return unlistedRefused(modelId, request.unlisted ?? '')
    case 'modality_not_supported':
      return { param: 'model' }
  }
}

/** The refusal when no route may or can serve (§3); computed only then. */
export const placementRefusal = (
  table: RoutingTable,
  request: PlacementRequest,
  code: RefusalCode,
  list?: string,
): Problem => new Problem(code, optionsOf(table, request, code, list ?? '/v1/models'))
