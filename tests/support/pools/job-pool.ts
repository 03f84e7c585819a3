import { createPrivateJobs, type JobRequest, type PrivateJobsClient } from '../../../src/client/private-jobs.ts'
import { sealRequest } from '../../../src/protocol/signing/envelope-sealing.ts'
import type { JobRead } from '../../../src/protocol/wire/inference/job.ts'
import type { TransportKey } from '../../../src/protocol/wire/nodes/agent.ts'
import type { TestGateway } from '../gateways/http-gateway.ts'
import { json } from '../gateways/http-gateway.ts'
import { type JobNode, startJobNode } from '../nodes/job-node.ts'
import { waitUntil } from '../run/wait-until.ts'

export interface JobCustomer {
  readonly customerId: string
  readonly customerToken: string
  readonly webhookSecret: string
  readonly headers: Readonly<Record<string, string>>
  readonly client: PrivateJobsClient
}

export const chat = { messages: [{ role: 'user', content: 'the secret question' }] }

export async function jobCustomer(gateway: TestGateway, policy?: object): Promise<JobCustomer> {
  const made = await json(
    await gateway.ask('POST', '/v1/admin/customers', {
      as: 'admin',
      json: { display_name: 'test', ...(policy === undefined ? {} : { gateway_policy: policy }) },
    }),
  )
  const customerId = String(made.customer_id)
  const customerToken = String(made.customer_token)
  return {
    customerId,
    customerToken,
    webhookSecret: String(made.webhook_secret),
    headers: { 'x-svc-customer-id': customerId, 'x-svc-customer-token': customerToken },
    client: createPrivateJobs({ baseUrl: gateway.url, customerId, customerToken }),
  }
}

/** Keys and identity as enrolment stores them. */
export async function storeKeys(
  gateway: Pick<TestGateway, 'database'>,
  node: Pick<JobNode, 'nodeId' | 'identity'>,
  keys: readonly TransportKey[],
): Promise<void> {
  const identity = Buffer.from(node.identity.publicKey, 'base64url')
  await gateway.database.sql`
    update nodes set identity_key = ${identity}, transport_keys = ${JSON.stringify(keys)}::text::jsonb
    where node_id = ${node.nodeId}`
}

/** A node of the customer that takes private jobs; `running`: one that is not started here. */
export async function jobNode(
  gateway: TestGateway,
  customer: Pick<JobCustomer, 'customerId'>,
  running?: JobNode,
): Promise<JobNode> {
  const node = running ?? (await startJobNode())
  node.now = gateway.now
  const made = await json(
    await gateway.ask('POST', '/v1/admin/nodes', {
      as: 'admin',
      json: {
        customer_id: customer.customerId,
        url: node.url,
        visibility: 'private',
        privacy_class: 'private',
        node_class: node.nodeClass,
      },
    }),
  )
  node.nodeId = String(made.node_id)
  await storeKeys(gateway, node, node.keys)
  await waitUntil('the node is ready', () => nodeState(gateway, node.nodeId, 'ready'))
  return node
}

export const nodeState = (gateway: TestGateway, nodeId: string, state: string): boolean =>
  gateway.gateway.router.nodes().some((node) => node.nodeId === nodeId && node.state === state)

export const jobRequest = (node: JobNode, more: Partial<JobRequest> = {}): JobRequest => ({
  nodeId: node.nodeId,
  fingerprint: node.fingerprint,
  modelId: node.model,
  chat,
  ...more,
})

/** The body of a create, sealed anew. */
export function createBody(node: JobNode, { jobId }: { readonly jobId?: string } = {}) {
  const [key] = node.keys
  const publicKey = new Uint8Array(Buffer.from(key?.public_key_x25519 ?? '', 'base64url'))
  const context = { jobId: jobId ?? '', modelId: node.model, nodeId: node.nodeId }
  const { envelope } = sealRequest(publicKey, context, new TextEncoder().encode(JSON.stringify(chat)))
  return {
    ...(jobId === undefined ? {} : { job_id: jobId }),
    node_id: node.nodeId,
    model_id: node.model,
    encrypted_request: envelope,
  }
}

export const jobsPath = '/v1/api/private-inference/jobs'

export const postJob = (gateway: TestGateway, customer: JobCustomer, body: object) =>
  gateway.ask('POST', jobsPath, { json: body, headers: customer.headers })

export async function readJob(gateway: TestGateway, customer: JobCustomer, jobId: string): Promise<JobRead> {
  const response = await gateway.ask('GET', `${jobsPath}/${jobId}`, { headers: customer.headers })
  if (response.status !== 200) throw new Error(`reading the job: ${response.status}`)
  return (await response.json()) as JobRead
}
