import type { Database } from '../../db/client.ts'
import { countJobsByStatus } from '../../db/queries/jobs/jobs.ts'
import { countDeliveriesByStatus } from '../../db/queries/jobs/webhooks.ts'
import { countOpenBatches } from '../../db/queries/money/payout-batches.ts'
import { payoutBatchMachine } from '../../machines/charts/payout-batch.ts'
import { privateJobMachine } from '../../machines/charts/private-job.ts'
import { webhookDeliveryMachine } from '../../machines/charts/webhook-delivery.ts'
import { terminalJobStatuses } from '../../protocol/wire/inference/job.ts'
import type { DurableChart } from './durable-counts.ts'

/** By statechart: one line for each chart whose instances rest as rows. */
export const durableCharts = (db: Database): Readonly<Record<string, DurableChart>> => ({
  [privateJobMachine.id]: { ended: terminalJobStatuses, count: (except) => countJobsByStatus(db, except) },
  [webhookDeliveryMachine.id]: {
    ended: ['delivered', 'failed', 'disabled'],
    count: (except) => countDeliveriesByStatus(db, except),
  },
  [payoutBatchMachine.id]: { ended: ['completed'], count: (except) => countOpenBatches(db, except) },
})
