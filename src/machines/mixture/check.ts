import { Problem } from '../../errors.ts'
import { estimatePrompt } from '../../protocol/chat/token-estimate.ts'
import { noMatches } from '../placement/cache-view.ts'
import { policyDetail } from '../refusals/placement-refusal.ts'
import { tokensAboveBound } from '../refusals/token-bound.ts'
import {
  isOwn,
  isVisible,
  judge,
  meantModel,
  type PlacementRequest,
  verdictRank,
  verdicts,
} from '../rules/eligibility.ts'
import { readMixtureConfig } from './config.ts'
import { strategies } from './strategies/registry.ts'
import type { AcceptedMixture, CheckedMixture, MixtureConfig, MixtureRequest } from './types.ts'

const anyContext = { contextLeast: null, contextWanted: null }

/** The placement request of a sub-call: only on the caller's own nodes, and without affinity. */
export function subCallPlacement(
  { access, nowMs }: Pick<MixtureRequest, 'access' | 'nowMs'>,
  modelId: string,
  context: Pick<PlacementRequest, 'contextLeast' | 'contextWanted'> = anyContext,
): PlacementRequest {
  return {
    modelId,
    modality: 'chat',
    byAgents: true,
    access,
    pin: null,
    profileId: null,
    ownOnly: true,
    unlisted: null,
    exclude: new Set(),
    side: null,
    freeOnly: true,
    prompt: null,
    matches: noMatches,
    nowMs,
    queueWaitMs: null,
    cacheWaitMs: null,
    ...context,
    contextAbove: null,
  }
}

/**
 * The policy's refusal of this model, or null. A model that no node serves is refused only if the policy denies its
 * name; otherwise the call becomes `no_node`.
 */
function policyFault(request: MixtureRequest, model: string, param: string): Problem | null {
  const { access, table } = request
  const routes = table.byModel.get(model) ?? []
  const names = routes.find((route) => isVisible(route, access))?.policyNames ?? [model]
  if (!access.policy.allows(names)) return new Problem('model_not_allowed', { param })
  const wanted = subCallPlacement(request, model)
  const furthest = routes.reduce((most, route) => Math.max(most, verdictRank[judge(route, wanted)]), 0)
  const byPolicy = [verdictRank.route_tier, verdictRank.privacy_class, verdictRank.external]
  if (!byPolicy.includes(furthest)) return null
  const detail = policyDetail(table, wanted)
  return new Problem(verdicts[furthest]?.code ?? 'model_not_allowed', { param, ...(detail === null ? {} : { detail }) })
}

/** Nodes have it that the caller may see, and none of them is the caller's. */
function isOthersOnly({ access, table }: MixtureRequest, model: string): boolean {
  const visible = (table.byModel.get(model) ?? []).filter((route) => isVisible(route, access))
  return visible.length > 0 && !visible.some((route) => isOwn(route, access.customerId))
}

/** Refuses where the quorum cannot be met because models are on nodes of others alone (mixture rule 1). */
function ownershipFault(request: MixtureRequest, { experts, minExperts }: MixtureConfig): Problem | null {
  const others = experts.filter(({ model }) => isOthersOnly(request, model))
  const [first] = others
  if (first === undefined || experts.length - others.length >= minExperts) return null
  const models = [...new Set(others.map(({ model }) => model))].join(', ')
  const detail = `A mixture uses your own nodes alone, and only other people's nodes serve ${models}. Connect a node of your own, or choose models that GET /v1/models lists as svc.own.`
  return new Problem('own_nodes_only', { param: `svc.mixture.experts[${experts.indexOf(first)}].model`, detail })
}

const outputAsked = ({ body }: MixtureRequest) => body.max_tokens ?? body.max_completion_tokens ?? null

function checkPolicy(request: MixtureRequest, config: MixtureConfig): Problem | null {
  const { policy } = request.access
  if (!policy.mixture.enabled) return new Problem('mixture_not_allowed', { param: 'svc.mixture' })
  for (const [at, { model }] of config.experts.entries()) {
    const fault = policyFault(request, model, `svc.mixture.experts[${at}].model`)
    if (fault !== null) return fault
  }
  const { aggregator } = config
  const fault = aggregator === null ? null : policyFault(request, aggregator, 'svc.mixture.aggregator.model')
  if (fault !== null) return fault
  const asked = outputAsked(request)
  const most = policy.maxTokensPerRequest
  return most === null || asked === null ? null : tokensAboveBound(asked, most)
}

/** Σ experts (P + M), and P + k·M + the prompt's own + M for an aggregator (§7). */
export function estimateTokens(config: MixtureConfig, prompt: number, output: number): number {
  const experts = config.experts.length
  const strategy = strategies[config.strategy]
  const fanOut = experts * (prompt + output)
  if (strategy.kind === 'selecting') return fanOut
  return fanOut + prompt + experts * output + strategy.promptOverhead + output
}

/** Compares the sum of the sub-calls' possible tokens with the budget. */
function checkBudget(request: MixtureRequest, config: MixtureConfig): AcceptedMixture | Problem {
  const { access, body, bounds } = request
  const { tokens: prompt, textTokens } = estimatePrompt(body)
  const most = access.policy.maxTokensPerRequest ?? Number.POSITIVE_INFINITY
  const output = outputAsked(request) ?? Math.min(bounds.outputTokensDefault, most)
  const estimate = estimateTokens(config, prompt, output)
  if (estimate <= bounds.tokensMax) return { config, promptTokens: prompt, textTokens, outputTokens: output, estimate }
  const detail = `The sub-calls may use an estimated ${estimate} tokens; the budget is ${bounds.tokensMax}`
  return new Problem('mixture_token_budget_exceeded', { param: 'svc.mixture', detail })
}

/** The configuration with the models' names in the table. */
function named({ table, access }: MixtureRequest, config: MixtureConfig): MixtureConfig {
  const meant = (name: string) => meantModel({ table, access, name, ownOnly: true })
  const { experts, aggregator } = config
  return {
    ...config,
    experts: experts.map((expert) => ({ ...expert, model: meant(expert.model) })),
    aggregator: aggregator === null ? null : meant(aggregator),
  }
}

/** Makes all checks of §7 before the daily quota, in their order. The first failure is the answer. */
export function checkMixture(request: MixtureRequest): CheckedMixture {
  const { access, body, bounds } = request
  const refused = (problem: Problem, config: MixtureConfig | null): CheckedMixture => ({
    kind: 'refused',
    problem,
    config,
  })
  if (access.accountStatus !== 'active') return refused(new Problem('account_suspended'), null)
  const expertsMax = Math.min(bounds.expertsMax, access.policy.mixture.maxExperts ?? bounds.expertsMax)
  const read = readMixtureConfig(body.svc?.mixture, { expertsMax, pinParam: request.pinParam })
  if (read instanceof Problem) return refused(read, null)
  const config = named(request, read)
  const accepted = checkPolicy(request, config) ?? ownershipFault(request, config) ?? checkBudget(request, config)
  return accepted instanceof Problem ? refused(accepted, config) : { kind: 'accepted', accepted }
}
