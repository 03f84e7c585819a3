import type { FakeNode } from '../../../src/fake-node/fake-node.ts'
import { startTestGateway, type TestCustomer, type TestGateway, type TestGatewayOptions } from '../gateways/gateway.ts'
import { nodeAt, startFakeNodes } from '../nodes/fake-nodes.ts'

const open = { min_privacy_class: 'public' as const }

/** A gateway, a node of one customer with a price, and another customer who pays. */
export interface PaidGateway {
  readonly gateway: TestGateway
  readonly payer: TestCustomer
  readonly node: FakeNode
  readonly nodeId: string
  ask(body?: object): Promise<Response>
  /** Of the payer, wei. */
  account(): Promise<{ readonly balance: bigint; readonly reserved: bigint }>
  stop(): Promise<void>
}

export interface PaidGatewayOptions extends TestGatewayOptions {
  readonly promptPrice: bigint
  readonly outputPrice: bigint
  readonly creditWei: bigint
}

export async function startPaidGateway(options: PaidGatewayOptions): Promise<PaidGateway> {
  const gateway = await startTestGateway(options)
  const owner = await gateway.customer({ policy: open, keyPolicy: open })
  const payer = await gateway.customer({ policy: open, keyPolicy: open })
  const nodes = startFakeNodes(1, { models: ['paid'] })
  const node = nodeAt(nodes, 0)
  const offered = { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' } as const
  const nodeId = await gateway.node(node.url, offered)
  await gateway.admin('PUT', '/v1/admin/models', {
    id: 'paid',
    prompt_token_price_wei: options.promptPrice.toString(),
    completion_token_price_wei: options.outputPrice.toString(),
  })
  const credit = { amount_wei: options.creditWei.toString() }
  await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, credit)
  return {
    gateway,
    payer,
    node,
    nodeId,
    ask: (body = {}) =>
      gateway.chat(payer.key, {
        model: 'paid',
        messages: [{ role: 'user', content: 'hello there' }],
        max_tokens: 200,
        ...body,
      }),
    account: async () => {
      const path = `/v1/admin/customers/${payer.customerId}`
      const seen = await gateway.admin<{ balance_wei: string; reserved_wei: string }>('GET', path)
      return { balance: BigInt(seen.balance_wei), reserved: BigInt(seen.reserved_wei) }
    },
    stop: async () => {
      await gateway.stop()
      for (const each of nodes) each.stop()
    },
  }
}
