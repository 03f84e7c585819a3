import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { adminObject } from '../../../brand.ts'
import { Problem } from '../../../errors.ts'
import { CommandRecord, JobList, type JobStatus, jobStatuses } from '../../../protocol/wire/inference/job.ts'
import { isoTime } from '../../../time.ts'
import type { HttpContext } from '../../frame/context.ts'
import { asks, customerFilter, limitOf, oneOf } from '../../frame/query.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { commandView } from '../../views/job.ts'

const tags = ['Private jobs (extension)']
const commandParams = Type.Object({ command_id: Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' }) })
const listQuery = { limit: limitOf(100, 1_000), status: oneOf(jobStatuses), customer_id: customerFilter } as const

/** Private jobs for operators: customer, node and progress, but never the content. */
export const commandRoutes = (context: HttpContext) => {
  const { jobs } = context.gateway
  return new Elysia()
    .use(admin(context))
    .get(
      '/v1/admin/jobs',
      async ({ actor, query: { limit, status, customer_id } }) => {
        if (customer_id !== null && actor.role === 'viewer') {
          throw new Problem('insufficient_role', { detail: 'This needs the role operator' })
        }
        const filter = { status: status as JobStatus | null, customerId: customer_id, limit }
        const found = (await jobs.list(filter)).map((job) => commandView(job, actor.role))
        return {
          object: `${adminObject}job_list` as const,
          generated_at: isoTime(Date.now()),
          count: found.length,
          jobs: found,
        }
      },
      {
        action: 'job.list',
        response: { 200: JobList },
        ...asks(listQuery),
        detail: describe({ summary: 'List private jobs, newest first', tags }),
      },
    )
    .get(
      '/v1/admin/commands/:command_id',
      async ({ actor, params }) => commandView(await jobs.command(params.command_id), actor.role),
      {
        action: 'command.read',
        params: commandParams,
        response: { 200: CommandRecord },
        detail: describe({ summary: 'Read the command of a private job', tags }),
      },
    )
}
