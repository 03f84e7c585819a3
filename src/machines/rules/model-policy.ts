import { withoutLatest } from '../../protocol/dialects/ollama/model-tags.ts'
import type { GatewayPolicy, ModelPolicy, WholeGatewayPolicy } from '../../protocol/wire/admin/policy.ts'
import type { PrivacyClass } from './routing.ts'

export const privacyRank: Readonly<Record<PrivacyClass, number>> = { public: 0, trusted: 1, private: 2 }

/** What account or key asks of nodes that are not the caller's own. */
export interface PolicyBounds {
  readonly privacyClass: PrivacyClass
  readonly external: boolean
}

/** Account and key policy merged once, when the key is loaded; the request path only reads it. */
export interface EffectivePolicy {
  /** Takes every id and alias of a model. If one of the names is denied, the model is denied. */
  readonly allows: (modelIds: readonly string[]) => boolean
  /** The lowest privacy rank of nodes that are not the caller's own. */
  readonly minPrivacyRank: number
  /** Nodes marked external may be asked. */
  readonly external: boolean
  /** Whose the two bounds above are, for a refusal that says so. `key`: null where an operator acts without one. */
  readonly bounds: { readonly account: PolicyBounds; readonly key: PolicyBounds | null }
  /** Requests may wake sleeping nodes (§39). */
  readonly wakes: boolean
  /** In the line for a slot: 0 to 9, higher ones first. */
  readonly priority: number
  /** Nothing but sealed requests may be sent with this key (§38). */
  readonly sealedOnly: boolean
  /** Node classes; null for all. */
  readonly routeTiers: ReadonlySet<string> | null
  /** Node ids; null for all. */
  readonly nodeScope: ReadonlySet<string> | null
  readonly maxTokensPerRequest: number | null
  readonly dailyTokenQuota: number | null
  readonly rateLimitRpm: number | null
  readonly maxConcurrency: number | null
  /** `maxExperts` applies beside the gateway's own bound. null if the policy names none. */
  readonly mixture: { readonly enabled: boolean; readonly maxExperts: number | null }
}

const priorityDefault = 5

/** The meaning of fields that an account's policy omits (§13). */
const policyDefaults = {
  policy_version: 'gateway_policy_v1',
  allowed_models: null,
  denied_models: [],
  route_tiers: [],
  min_privacy_class: 'private',
  allow_external: false,
  allow_wake: true,
  node_scope: null,
  max_tokens_per_request: null,
  daily_token_quota: null,
  rate_limit_rpm: null,
  max_concurrency: null,
} as const satisfies GatewayPolicy

/** The policy of an account with every field; `expertsMax`: the gateway's own bound of a mixture. */
export function wholePolicy(policy: GatewayPolicy, expertsMax: number): WholeGatewayPolicy {
  const whole = { ...policyDefaults, mixture: { enabled: true, max_experts: expertsMax }, ...policy }
  return { ...whole, denied_models: [...whole.denied_models], route_tiers: [...whole.route_tiers] }
}

/** By which a policy knows a model: a rule for `llama3` is one for `llama3:latest`, too. */
export function policyNames(names: readonly string[]): readonly string[] {
  const short = names.flatMap((name) => withoutLatest(name) ?? []).filter((name) => !names.includes(name))
  return short.length === 0 ? names : [...names, ...short]
}

function matches(pattern: string, modelId: string): boolean {
  return pattern.endsWith('*') ? modelId.startsWith(pattern.slice(0, -1)) : pattern === modelId
}

/** Loops, as it is asked for every request: closures in each other would be made for each pattern. */
function anyMatches(patterns: readonly string[], modelIds: readonly string[]): boolean {
  for (const pattern of patterns) for (const id of modelIds) if (matches(pattern, id)) return true
  return false
}

function intersect<T>(a: ReadonlySet<T> | null, b: ReadonlySet<T> | null): ReadonlySet<T> | null {
  if (a === null || b === null) return a ?? b
  return new Set([...a].filter((item) => b.has(item)))
}

const tiers = (list: readonly string[] | undefined) => (list?.length ? new Set(list) : null)
const smaller = (a: number | null | undefined, b: number | null | undefined) =>
  a == null ? (b ?? null) : b == null ? a : Math.min(a, b)

/** The policy of a key. A key without its own policy keeps every prompt on the owner's nodes. */
export interface KeyRules {
  readonly policy: ModelPolicy | null
  readonly nodeScope: readonly string[] | null
}

const boundsOf = (policy: ModelPolicy | GatewayPolicy | null): PolicyBounds => ({
  privacyClass: policy?.min_privacy_class ?? policyDefaults.min_privacy_class,
  external: policy?.allow_external ?? policyDefaults.allow_external,
})

/**
 * The stricter of both in every respect. A class below `private` holds only where account **and** key name it
 * (§8: a prompt leaves the owner's machines only when both say so). `key` is null where no key is in use: an
 * operator acts for the customer, and the account's policy stands alone.
 */
export function mergePolicies(account: GatewayPolicy | null, key: KeyRules | null): EffectivePolicy {
  const keyPolicy = key?.policy ?? null
  const rules = [account, keyPolicy].filter((policy) => policy !== null)
  const bounds = { account: boundsOf(account), key: key === null ? null : boundsOf(keyPolicy) }
  const held = [bounds.account, bounds.key].filter((each) => each !== null)
  const denied = rules.flatMap((policy) => policy.denied_models ?? [])
  const allowed = rules.flatMap((policy) => (policy.allowed_models ? [policy.allowed_models] : []))
  const scope = (list: readonly string[] | null | undefined) => (list ? new Set(list) : null)
  return {
    allows: (modelIds) => {
      if (anyMatches(denied, modelIds)) return false
      for (const patterns of allowed) if (!anyMatches(patterns, modelIds)) return false
      return true
    },
    minPrivacyRank: Math.max(...held.map(({ privacyClass }) => privacyRank[privacyClass])),
    external: held.every(({ external }) => external),
    bounds,
    wakes: rules.every((policy) => policy.allow_wake ?? policyDefaults.allow_wake),
    priority: keyPolicy?.priority ?? priorityDefault,
    sealedOnly: keyPolicy?.sealed_only === true,
    routeTiers: intersect(tiers(account?.route_tiers), tiers(keyPolicy?.route_tiers)),
    nodeScope: intersect(scope(account?.node_scope), scope(key?.nodeScope)),
    maxTokensPerRequest: smaller(account?.max_tokens_per_request, keyPolicy?.max_tokens_per_request),
    dailyTokenQuota: account?.daily_token_quota ?? null,
    rateLimitRpm: account?.rate_limit_rpm ?? null,
    maxConcurrency: account?.max_concurrency ?? null,
    mixture: {
      enabled: rules.every((policy) => policy.mixture?.enabled ?? true),
      maxExperts: smaller(account?.mixture?.max_experts, keyPolicy?.mixture?.max_experts),
    },
  }
}
