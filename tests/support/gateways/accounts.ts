import type { NodeOptions } from '../../../src/node/node-options.ts'
import { startAgent, type TestAgent } from '../nodes/agents.ts'
import { waitUntil } from '../run/wait-until.ts'
import { json, type TestGateway } from './http-gateway.ts'

export interface Account {
  readonly id: string
  readonly token: string
  /** By which the customer reads its own. */
  readonly headers: Readonly<Record<string, string>>
}

/** A customer, with so much credit. */
export async function newAccount(gateway: TestGateway, creditWei: string | null = null): Promise<Account> {
  const made = await gateway.ask('POST', '/v1/admin/customers', { as: 'admin', json: { display_name: 'Ada' } })
  const { customer_id: id, customer_token: token } = (await made.json()) as Record<string, string>
  if (id === undefined || token === undefined) throw new Error(`no customer: ${made.status}`)
  const credit = { as: 'admin', json: { amount_wei: creditWei, reason: 'paid by card' } } as const
  if (creditWei !== null) await gateway.ask('POST', `/v1/admin/customers/${id}/credits`, credit)
  return { id, token, headers: { 'x-svc-customer-id': id, 'x-svc-customer-token': token } }
}

/** A key of a customer. */
export async function newKey(gateway: TestGateway, customerId: string): Promise<string> {
  const path = `/v1/admin/customers/${customerId}/keys`
  return String((await json(await gateway.ask('POST', path, { as: 'admin', json: { name: 'k' } }))).gateway_key)
}

/** A customer's agent, private and without a model server, that has dialled in. */
export async function dialledAgent(
  gateway: TestGateway,
  customerId: string,
  options: Partial<NodeOptions> = {},
): Promise<TestAgent> {
  const grant = { customer_id: customerId, name: 'm', visibility: 'private', node_class: 'gpu' }
  const body = { ...grant, privacy_class: 'private', endpoint_url_allowed: false }
  const issued = await json(await gateway.ask('POST', '/v1/admin/enrollment-tokens', { as: 'admin', json: body }))
  const token = String(issued.enrollment_token)
  const agent = await startAgent({ gatewayUrl: gateway.url, runtimes: [], ...options, token })
  await waitUntil('a tunnel', async () => gateway.gateway.router.transport(agent.nodeId as never) !== null)
  return agent
}
