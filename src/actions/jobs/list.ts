import { JobList, jobStatuses } from '../../protocol/wire/inference/job.ts'
import { customerFilter, limitOf, oneOf } from '../../protocol/wire/query.ts'
import { defineList } from '../frame/define-list.ts'
import { refuseOwners } from './owners.ts'

/** Private jobs for operators: customer, node and progress, but never the content. */
export const jobList = defineList({
  name: 'job.list',
  at: 'GET /v1/admin/jobs',
  role: 'viewer',
  category: 'private_jobs',
  summary: 'List private jobs, newest first',
  tag: 'Private jobs (extension)',
  query: { limit: limitOf(100, 1_000), status: oneOf(jobStatuses), customer_id: customerFilter },
  result: JobList,
  rows: 'jobs',
  read: async ({ gateway, views, role, query: { limit, status, customer_id: customerId } }) => {
    refuseOwners(role, customerId)
    return (await gateway.jobs.list({ status, customerId, limit })).map((job) => views.commandView(job, role))
  },
  command: {
    words: 'jobs list',
    about: 'List the private jobs of all customers, newest first. Needs an operator’s token',
    options: {
      status: { kind: 'choice', of: jobStatuses, about: `Show only this status: ${jobStatuses.join(', ')}` },
      customer: { kind: 'text', value: 'ID', about: 'Show only the jobs of this customer', is: 'customer_id' },
      limit: { kind: 'number', value: 'N', min: 1, max: 1_000, about: 'How many to show at most (default 100)' },
    },
    after: 'export',
    columns: [
      ['COMMAND', (job) => job.command_id],
      ['JOB', (job) => job.job_id],
      ['NODE', (job) => job.node_id],
      ['MODEL', (job) => job.model_id],
      ['STATUS', (job) => job.status],
      ['ATTEMPT', (job) => job.attempt],
      ['ERROR', (job) => job.error_code],
      ['CREATED', (job, print) => print.time(job.created_at)],
    ],
    empty: 'There are no jobs.',
  },
})
