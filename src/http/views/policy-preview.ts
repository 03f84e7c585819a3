import { changedGatewayPolicy, changedRules } from '../../actors/accounts/key-changes.ts'
import type { GatewayHandle } from '../../actors/gateway-handle.ts'
import { brand } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { type EffectivePolicy, mergePolicies } from '../../machines/rules/model-policy.ts'
import type { PolicyPreview, PolicyPreviewAsk } from '../../protocol/wire/admin/accounts.ts'
import { callableRoutes } from './visible-models.ts'

const namedMax = 5

/** What the account, or one of its keys, can call now and could call after a change. Refuses as a change of it would. */
export async function policyPreview(
  { accounts, router }: Pick<GatewayHandle, 'accounts' | 'router'>,
  asked: PolicyPreviewAsk,
): Promise<PolicyPreview> {
  const { gateway_policy_changes: accountChanges = {}, model_policy_changes: keyChanges = {} } = asked
  const { customerId, gatewayPolicy } = await accounts.customer(asked.customer_id)
  const key = asked.key_id == null ? null : await accounts.key(asked.key_id)
  if (key !== null && key.customerId !== customerId) throw new Problem('key_not_found')
  const rules = key === null ? null : { policy: key.modelPolicy, nodeScope: key.nodeScope }
  const scope = asked.node_scope === undefined ? (rules?.nodeScope ?? null) : asked.node_scope
  const changed = { policy: changedRules(rules?.policy ?? null, keyChanges), nodeScope: scope }
  const reach = (policy: EffectivePolicy) => {
    const routes = callableRoutes(
      router.table(),
      { customerId, keyId: key?.keyId ?? null, accountStatus: 'active', expiresAtMs: null, policy },
      Date.now(),
    )
    const models = [...new Set(routes.map(({ modelId }) => modelId))].toSorted()
    return { models, nodes: new Set(routes.map(({ nodeId }) => nodeId)).size }
  }
  const before = asked.key_id === null ? null : reach(mergePolicies(gatewayPolicy, rules))
  const account = changedGatewayPolicy(gatewayPolicy, accountChanges)
  const after = reach(mergePolicies(account, asked.key_id === undefined ? null : changed))
  return {
    object: `${brand}.admin.policy_preview`,
    before: before === null ? null : { models: before.models.length, nodes: before.nodes },
    after: { models: after.models.length, nodes: after.nodes },
    lost: (before?.models ?? []).filter((model) => !after.models.includes(model)).slice(0, namedMax),
    gained: before === null ? [] : after.models.filter((model) => !before.models.includes(model)).slice(0, namedMax),
  }
}
