import type { JobList } from '../../protocol/wire/inference/job.ts'
import type { CustomerReceipt } from '../../protocol/wire/money/receipt.ts'
import { Refusal, readAdmin } from './api.ts'
import { addressOf } from './place.ts'

/** As many as the route lists. */
const jobsLookedAt = 1_000

const charts: readonly (readonly [RegExp, string])[] = [
  [/^cmd_/, 'private-job'],
  [/^msg_/, 'webhook-delivery'],
  [/^bat_/, 'payout-batch'],
  [/^node_/, 'node'],
]

/** Where an id of any kind leads; null: unknown here. Throws what the gateway refuses. */
export async function addressOfId(given: string): Promise<string | null> {
  const id = given.trim()
  if (/^req_[0-9A-Z]{26}$/.test(id)) return addressOf('requests', id)
  if (/^0x[0-9a-fA-F]{64}$/.test(id)) return addressOfReceipt(id.toLowerCase())
  const chart = charts.find(([form]) => form.test(id))
  if (chart !== undefined) return `#statecharts/${chart[1]}/${encodeURIComponent(id)}`
  // A job has the name that its customer gave it.
  const { jobs } = await readAdmin<JobList>(`/v1/admin/jobs?limit=${jobsLookedAt}`)
  const job = jobs.find(({ job_id }) => job_id === id)
  return job === undefined ? null : `#statecharts/private-job/${job.command_id}`
}

/** A receipt stands on the page of its request: also of one that is not kept any more. */
async function addressOfReceipt(hash: string): Promise<string | null> {
  try {
    const { receipt } = await readAdmin<CustomerReceipt>(`/v1/admin/receipts/${hash}`)
    return addressOf('requests', receipt.request_id, { receipt: hash })
  } catch (error) {
    if (error instanceof Refusal && error.status === 404) return null
    throw error
  }
}
