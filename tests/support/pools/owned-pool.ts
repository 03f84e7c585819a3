import { type FakeNode, type FakeNodeOptions, startFakeNode } from '../../../src/fake-node/fake-node.ts'
import type { NodeOptions, TestCustomer, TestGateway } from '../gateways/gateway.ts'

export interface OwnedNode extends NodeOptions {
  readonly owner: string
  readonly fake: FakeNodeOptions
}

export interface OwnedPool {
  /** Throw where the name is unknown. */
  customer(name: string): TestCustomer
  fake(name: string): FakeNode
  nodeId(name: string): string
  /** Names of the fake nodes whose chat requests contain `text` anywhere: body, headers or path. */
  received(text: string): readonly string[]
  /** A further key of the customer, e.g. `{ model_policy, node_scope, expires_at }`. */
  key(customer: string, options?: object): Promise<{ readonly key: string; readonly keyId: string }>
  /** Replaces the policy of the account. */
  account(customer: string, policy: object | null): Promise<void>
  profileId(node: string, model: string): Promise<string>
  stop(): void
}

function found<T>(map: ReadonlyMap<string, T>, name: string): T {
  const value = map.get(name)
  if (value === undefined) throw new Error(`nobody is called ${name}`)
  return value
}

interface ShownNode {
  readonly runtimes: readonly { readonly models: readonly { model_profile_id: string; model: string }[] }[]
}

/** Customers by name and fake nodes that belong to them, all of them ready. */
export async function startOwnedPool<N extends string>(
  gateway: TestGateway,
  customerNames: readonly string[],
  nodes: Readonly<Record<N, OwnedNode>>,
): Promise<OwnedPool> {
  const customers = new Map<string, TestCustomer>()
  for (const name of customerNames) customers.set(name, await gateway.customer())
  const fakes = new Map<string, FakeNode>()
  const nodeIds = new Map<string, string>()
  const entries = Object.entries<OwnedNode>(nodes)
  await Promise.all(
    entries.map(async ([name, { owner, fake, ...options }]) => {
      const node = startFakeNode({ name: `${name}-`, ...fake })
      fakes.set(name, node)
      nodeIds.set(name, await gateway.node(node.url, { ...options, customerId: found(customers, owner).customerId }))
    }),
  )
  return {
    customer: (name) => found(customers, name),
    fake: (name) => found(fakes, name),
    nodeId: (name) => found(nodeIds, name),
    received: (text) =>
      entries
        .map(([name]) => name)
        .filter((name) =>
          found(fakes, name).requests.some(({ body, headers, path }) =>
            JSON.stringify([body, headers, path]).includes(text),
          ),
        )
        .sort(),
    key: async (customer, options = {}) => {
      const path = `/v1/admin/customers/${found(customers, customer).customerId}/keys`
      const made = await gateway.admin<{ gateway_key: string; key_id: string }>('POST', path, { name: 'k', ...options })
      return { key: made.gateway_key, keyId: made.key_id }
    },
    account: async (customer, policy) => {
      const path = `/v1/admin/customers/${found(customers, customer).customerId}`
      await gateway.admin('PATCH', path, { gateway_policy: policy })
    },
    profileId: async (node, model) => {
      const shown = await gateway.admin<ShownNode>('GET', `/v1/admin/nodes/${found(nodeIds, node)}`)
      const profile = shown.runtimes.flatMap(({ models }) => models).find((entry) => entry.model === model)
      if (profile === undefined) throw new Error(`${node} has no ${model}`)
      return profile.model_profile_id
    },
    stop: () => {
      for (const fake of fakes.values()) fake.stop()
    },
  }
}
