import type { Database } from '../db/client.ts'
import { countJobsByStatus } from '../db/queries/jobs.ts'
import { countOpenBatches } from '../db/queries/payout-batches.ts'
import { countDeliveriesByStatus } from '../db/queries/webhooks.ts'
import { payoutBatchMachine } from '../machines/payout-batch.ts'
import { privateJobMachine } from '../machines/private-job.ts'
import { webhookDeliveryMachine } from '../machines/webhook-delivery.ts'
import { terminalJobStatuses } from '../protocol/wire/job.ts'
import type { DurableChart } from './durable-counts.ts'

/** By machine: a line per chart whose instances rest as rows. */
export const durableCharts = (db: Database): Readonly<Record<string, DurableChart>> => ({
  [privateJobMachine.id]: { ended: terminalJobStatuses, count: (except) => countJobsByStatus(db, except) },
  [webhookDeliveryMachine.id]: {
    ended: ['delivered', 'failed', 'disabled'],
    count: (except) => countDeliveriesByStatus(db, except),
  },
  [payoutBatchMachine.id]: { ended: ['completed'], count: (except) => countOpenBatches(db, except) },
})
