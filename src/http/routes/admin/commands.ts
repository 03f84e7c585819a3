import { Problem } from '../../../errors.ts'
import type { AdminRole } from '../../../machines/rules/admin-route.ts'
import { CommandRecord, JobList, jobStatuses } from '../../../protocol/wire/inference/job.ts'
import { customerFilter, limitOf, oneOf } from '../../frame/query.ts'
import { listOf, report } from '../../reports/report.ts'
import { commandView } from '../../views/job.ts'

const tag = 'Private jobs (extension)'

/** Whose a row is, viewers do not see: so they cannot ask for it either. */
export function refuseOwners(role: AdminRole, customerId: string | null): void {
  if (customerId === null || role !== 'viewer') return
  throw new Problem('insufficient_role', { detail: 'This needs the role operator' })
}

/** Private jobs for operators: customer, node and progress, but never the content. */
export const jobList = report({
  action: 'job.list',
  tag,
  summary: 'List private jobs, newest first',
  query: { limit: limitOf(100, 1_000), status: oneOf(jobStatuses), customer_id: customerFilter },
  response: JobList,
  read: async ({ gateway }, { role, query: { limit, status, customer_id: customerId }, nowMs }) => {
    refuseOwners(role, customerId)
    const found = await gateway.jobs.list({ status, customerId, limit })
    return listOf(
      'job_list',
      'jobs',
      found.map((job) => commandView(job, role)),
      nowMs,
    )
  },
})

export const commandRead = report({
  action: 'command.read',
  tag,
  summary: 'Read the command of a private job',
  query: {},
  response: CommandRecord,
  read: async ({ gateway }, { role, params }) => commandView(await gateway.jobs.command(params.command_id ?? ''), role),
})
