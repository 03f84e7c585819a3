import type { TestCustomer } from '../../support/gateways/gateway.ts'
import { AskingLane, type TwistedNode } from './asking-lane.ts'
import { startBytesNode } from './bytes-node.ts'
import type { HostileGateway } from './hostile-gateway.ts'
import { playOf } from './node-answer.ts'
import { type Twist, twists } from './node-twists.ts'
import { newSecret } from './secrets.ts'

/** `own`: one customer's machine; `public`: anybody's, free; `paid`: anybody's, with a price. */
export type NodeLaneKind = 'own' | 'public' | 'paid'
export type NodeLane = AskingLane<Twist>

export const abroad = { min_privacy_class: 'public' } as const
const creditWei = 10n ** 18n

/** A price for the model, and money for those who ask for it. */
export async function makePaid(
  gateway: HostileGateway,
  model: string,
  customers: readonly TestCustomer[],
): Promise<void> {
  const prices = { prompt_token_price_wei: '3', completion_token_price_wei: '7' }
  await gateway.admin('PUT', '/v1/admin/models', { id: model, ...prices })
  for (const { customerId } of customers) {
    await gateway.admin('POST', `/v1/admin/customers/${customerId}/credits`, { amount_wei: creditWei.toString() })
  }
}

/** With the node itself, for what is not asked by customers. */
export async function openBytesLane(gateway: HostileGateway, kind: NodeLaneKind, name: string) {
  const bytes = startBytesNode(name)
  let byAgent = false
  const node: TwistedNode<Twist> = {
    plan: (marker, twisted, wanted) => {
      bytes.plan(marker, playOf(twisted, wanted))
      // An agent's connections carry one request each.
      return !byAgent && twisted.some(({ kind }) => kind === 'second answer')
    },
    forget: (marker) => bytes.forget(marker),
    wrote: (marker) => bytes.wrote(marker),
    confidedWith: () => [],
    quiet: (now) => bytes.quiet(now),
    rest: () => bytes.closeAll(),
    stop: () => bytes.stop(),
  }
  const policies = { policy: abroad, keyPolicy: abroad }
  const owner = await gateway.customer(policies)
  const visibility = kind === 'own' ? 'private' : 'public'
  const whose = { owner: owner.customerId, visibility } as const
  byAgent = (await gateway.join({ url: bytes.url, apiKey: newSecret(), ...whose })).agentUrl !== null
  const others = kind === 'own' ? [owner] : await Promise.all([1, 2, 3].map(() => gateway.customer(policies)))
  if (kind === 'paid') await makePaid(gateway, name, others)
  const lane: NodeLane = new AskingLane({ name, gateway, node, twists, model: name, customers: others })
  return { lane, bytes }
}

export async function openNodeLane(gateway: HostileGateway, kind: NodeLaneKind, at: number): Promise<NodeLane> {
  return (await openBytesLane(gateway, kind, `${kind}-${at}`)).lane
}
