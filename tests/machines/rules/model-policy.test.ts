import { expect, test } from 'bun:test'
import { mergePolicies, policyNames, privacyRank } from '../../../src/machines/rules/model-policy.ts'
import type { GatewayPolicy, ModelPolicy } from '../../../src/protocol/wire/admin/policy.ts'

const merged = (
  account: GatewayPolicy | null,
  policy: ModelPolicy | null = null,
  nodeScope: readonly string[] | null = null,
) => mergePolicies(account, { policy, nodeScope })

test('§13: without policies every model is allowed and nothing is limited', () => {
  const policy = merged(null)
  expect(policy.allows(['llama-3.1-8b'])).toBe(true)
  expect(policy.routeTiers).toBeNull()
  expect(policy.nodeScope).toBeNull()
  expect(policy.maxTokensPerRequest).toBeNull()
  expect(policy.dailyTokenQuota).toBeNull()
  expect(policy.rateLimitRpm).toBeNull()
  expect(policy.maxConcurrency).toBeNull()
  expect(policy.mixture).toEqual({ enabled: true, maxExperts: null })
})

test('§27: without a key the account’s policy stands alone; a key that says nothing keeps prompts at home', () => {
  const account = { min_privacy_class: 'public' as const, denied_models: ['llama-*'], max_tokens_per_request: 7 }
  const alone = mergePolicies(account, null)
  expect(alone.minPrivacyRank).toBe(privacyRank.public)
  expect([alone.allows(['llama-3']), alone.allows(['qwen-2']), alone.maxTokensPerRequest]).toEqual([false, true, 7])
  expect(mergePolicies(null, null).minPrivacyRank).toBe(privacyRank.private)
  expect(merged(account).minPrivacyRank).toBe(privacyRank.private)
})

test.each([
  ['exact', ['llama-3.1-8b'], [], ['llama-3.1-8b'], true],
  ['another model', ['llama-3.1-8b'], [], ['llama-3.1-70b'], false],
  ['a prefix is no match without *', ['llama'], [], ['llama-3.1-8b'], false],
  ['trailing *', ['llama-*'], [], ['llama-3.1-8b'], true],
  ['* alone', ['*'], [], ['anything'], true],
  ['* within is not a wildcard', ['l*a'], [], ['llama'], false],
  ['an empty list allows nothing', [], [], ['llama-3.1-8b'], false],
  ['deny wins over allow', ['llama-*'], ['llama-3.1-8b'], ['llama-3.1-8b'], false],
  ['deny by pattern', null, ['llama-*'], ['llama-3.1-8b'], false],
  ['deny leaves the others', null, ['llama-*'], ['qwen-2'], true],
  ['allowed by an alias', ['fast'], [], ['llama-3.1-8b', 'fast'], true],
  ['denied by an alias', null, ['fast'], ['llama-3.1-8b', 'fast'], false],
  ['one name allowed, another denied', ['llama-*'], ['fast'], ['llama-3.1-8b', 'fast'], false],
] as const)('§13: model patterns: %s', (_, allowed, denied, names, allows) => {
  const rules = { allowed_models: allowed === null ? null : [...allowed], denied_models: [...denied] }
  expect(merged(rules).allows(names)).toBe(allows)
  expect(merged(null, rules).allows(names)).toBe(allows)
})

test('§28: a policy knows a model by its names, and by that without `latest`, each once', () => {
  const plain = ['llama3', 'fast']
  expect(policyNames(plain)).toBe(plain)
  expect(policyNames(['llama3:latest'])).toEqual(['llama3:latest', 'llama3'])
  expect(policyNames(['llama3:latest', 'llama3'])).toEqual(['llama3:latest', 'llama3'])
  expect(policyNames(['llama3:8b', 'qwen:latest'])).toEqual(['llama3:8b', 'qwen:latest', 'qwen'])
})

test('§13: account and key must both allow a model, and either may deny it', () => {
  const both = merged({ allowed_models: ['llama-*', 'qwen-*'] }, { allowed_models: ['llama-*', 'phi-*'] })
  expect(['llama-3', 'qwen-2', 'phi-3'].map((id) => both.allows([id]))).toEqual([true, false, false])
  const denied = merged({ denied_models: ['llama-*'] }, { allowed_models: ['*'], denied_models: ['qwen-*'] })
  expect(['llama-3', 'qwen-2', 'phi-3'].map((id) => denied.allows([id]))).toEqual([false, false, true])
})

test.each([
  [undefined, undefined, 2],
  ['public', undefined, 2],
  [undefined, 'public', 2],
  ['public', 'public', 0],
  ['trusted', 'public', 1],
  ['public', 'trusted', 1],
  ['private', 'public', 2],
] as const)(
  "§8: a prompt leaves the owner's machines only when account (%p) and key (%p) say so",
  (account, key, rank) => {
    const policy = merged(
      account === undefined ? null : { min_privacy_class: account },
      key === undefined ? null : { min_privacy_class: key },
    )
    expect(policy.minPrivacyRank).toBe(rank)
  },
)

test.each([
  [undefined, undefined, false],
  [true, undefined, false],
  [undefined, true, false],
  [true, false, false],
  [false, true, false],
  [true, true, true],
] as const)('§29: hosted providers are asked only when account (%p) and key (%p) say so', (account, key, external) => {
  const policyOf = (allowed: boolean | undefined) => (allowed === undefined ? null : { allow_external: allowed })
  expect(merged(policyOf(account), policyOf(key)).external).toBe(external)
  expect(mergePolicies(policyOf(account), null).external).toBe(account ?? false)
})

test('§13: scopes and tiers are intersected; what has nothing in common leaves nothing', () => {
  expect(merged({ node_scope: ['node_a', 'node_b'] }, null, ['node_b', 'node_c']).nodeScope).toEqual(
    new Set(['node_b']),
  )
  expect(merged({ node_scope: ['node_a'] }, null, ['node_b']).nodeScope).toEqual(new Set())
  expect(merged(null, null, ['node_b']).nodeScope).toEqual(new Set(['node_b']))
  expect(merged({ node_scope: [] }).nodeScope).toEqual(new Set())
  expect(merged({ route_tiers: [] }, { route_tiers: ['gpu'] }).routeTiers).toEqual(new Set(['gpu']))
  expect(merged({ route_tiers: ['cpu'] }, { route_tiers: ['gpu'] }).routeTiers).toEqual(new Set())
})

test('§13: the smaller number holds; quota, rate and concurrency are the account’s alone', () => {
  const policy = merged(
    { max_tokens_per_request: 500, daily_token_quota: 1_000, rate_limit_rpm: 60, max_concurrency: 2 },
    { max_tokens_per_request: 200 },
  )
  expect(policy.maxTokensPerRequest).toBe(200)
  expect(merged({ max_tokens_per_request: 500 }, { max_tokens_per_request: null }).maxTokensPerRequest).toBe(500)
  expect([policy.dailyTokenQuota, policy.rateLimitRpm, policy.maxConcurrency]).toEqual([1_000, 60, 2])
})

test('§13: mixtures are off when either says so, and the smaller number of experts holds', () => {
  const on = (experts: number) => ({ mixture: { enabled: true, max_experts: experts } })
  expect(merged(on(3), on(2)).mixture).toEqual({ enabled: true, maxExperts: 2 })
  expect(merged(on(16)).mixture.maxExperts).toBe(16)
  expect(merged(on(3), { mixture: { enabled: false, max_experts: 3 } }).mixture.enabled).toBe(false)
})
