import type { JobList, WebhookList } from '../../../src/protocol/wire/inference/job.ts'
import type { PayoutBatchCreated } from '../../../src/protocol/wire/money/money.ts'
import { waitFor } from '../gateways/gateway.ts'
import { payFor } from '../money/money.ts'
import { startJobNode } from '../nodes/job-node.ts'
import { createBody, jobsPath, storeKeys } from '../pools/job-pool.ts'
import { type ConsoleBatches, type ConsoleChain, startBatches } from './console-batches.ts'
import type { ConsolePool } from './console-pool.ts'

const ether = 10n ** 18n

/** What stands in the lists of jobs, money and audit once a gateway has been used for a while. */
export interface ConsoleWork {
  /** One that ended, with a webhook that nobody takes; one that runs until `stop`. */
  readonly endedJob: string
  readonly runningJob: string
  readonly runningCommand: string
  readonly webhookId: string
  /** At rest where no chain is configured. */
  readonly batchId: string
  /** Where one is: a batch in each way one can stand. */
  readonly batches: ConsoleBatches | null
  stop(): Promise<void>
}

type Jobs = Pick<ConsoleWork, 'endedJob' | 'runningJob' | 'runningCommand' | 'webhookId' | 'stop'>

async function startJobs({ gateway, customer }: ConsolePool): Promise<Jobs> {
  const node = await startJobNode('qwen3-8b')
  node.nodeId = await gateway.node(node.url, { customerId: customer.customerId, nodeClass: node.nodeClass })
  await gateway.admin('PATCH', `/v1/admin/nodes/${node.nodeId}`, { name: 'vault' })
  await storeKeys(gateway, node, node.keys)
  const post = async (more: object): Promise<string> => {
    const response = await fetch(gateway.url + jobsPath, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-svc-customer-id': customer.customerId,
        'x-svc-customer-token': customer.customerToken,
      },
      body: JSON.stringify({ ...createBody(node), ...more }),
    })
    if (response.status !== 202) throw new Error(`the job was refused: ${await response.text()}`)
    return ((await response.json()) as { job_id: string }).job_id
  }
  // The name has no address, anywhere (RFC 2606).
  const endedJob = await post({ webhook_url: 'https://hooks.invalid/in' })
  const webhookId = await waitFor('the webhook to fail once', async () => {
    const { webhooks } = await gateway.admin<WebhookList>('GET', '/v1/admin/webhooks')
    return webhooks.find(({ status }) => status === 'retry_scheduled')?.webhook_id
  })
  node.turn({ kind: 'hold' })
  const runningJob = await post({})
  const runningCommand = await waitFor('the job to run', async () => {
    const { jobs } = await gateway.admin<JobList>('GET', '/v1/admin/jobs?status=running')
    return jobs.find(({ job_id }) => job_id === runningJob)?.command_id
  })
  return { endedJob, runningJob, runningCommand, webhookId, stop: () => node.stop() }
}

/** Two payouts in a batch, or in each of several, and one that waits. */
async function startMoney(
  { gateway, nodeIds: [nodeId = ''] }: ConsolePool,
  chain: ConsoleChain | null,
): Promise<Pick<ConsoleWork, 'batchId' | 'batches'>> {
  await gateway.admin('PATCH', `/v1/admin/nodes/${nodeId}`, { payout_address: `0x${'a1'.repeat(20)}` })
  const { customerId } = await gateway.customer()
  await gateway.admin('PATCH', `/v1/admin/customers/${customerId}`, { display_name: 'reader' })
  await gateway.admin('POST', `/v1/admin/customers/${customerId}/credits`, {
    credit_id: 'invoice-1',
    amount_wei: String(5n * ether),
    reason: 'invoice 1',
  })
  const pay = (amountWei: bigint) => payFor(gateway.database, { customerId, nodeId, amountWei })
  const build = async () => {
    await pay(ether / 4n)
    await pay(ether / 3n)
    const { batch } = await gateway.admin<PayoutBatchCreated>('POST', '/v1/admin/payout-batches', { reason: 'monthly' })
    if (batch === null) throw new Error('no batch was made')
    return batch.batch_id
  }
  const batches = chain === null ? null : await startBatches(chain, gateway, build)
  const batchId = batches?.completed ?? (await build())
  await pay(ether / 5n)
  return { batchId, batches }
}

/** `chain`: the one that the pool's gateway was told of. */
export async function startConsoleWork(pool: ConsolePool, chain: ConsoleChain | null = null): Promise<ConsoleWork> {
  const { gateway, customer, nodeIds } = pool
  await gateway.admin('PATCH', `/v1/admin/customers/${customer.customerId}`, { display_name: 'workshop' })
  const jobs = await startJobs(pool)
  const money = await startMoney(pool, chain)
  const denied = { method: 'POST', headers: { 'x-svc-admin-token': gateway.tokens.viewer } }
  const { status } = await fetch(`${gateway.url}/v1/admin/nodes/${nodeIds[1]}/drain`, denied)
  if (status !== 403) throw new Error(`a viewer may drain: ${status}`)
  return { ...jobs, ...money }
}
