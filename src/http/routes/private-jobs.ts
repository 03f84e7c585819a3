import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Asker } from '../../actors/audit/audit-context.ts'
import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { checkValue, parseJson, readJsonText } from '../../protocol/json/json-body.ts'
import { JobCreate, JobCreated, JobRead, NodeKeys } from '../../protocol/wire/inference/job.ts'
import { nodeParams } from '../frame/admin-input.ts'
import type { HttpContext } from '../frame/context.ts'
import { readsBy } from '../frame/reads.ts'
import { describe } from '../frame/route-table.ts'
import { customer } from '../plugins/customer.ts'
import { jobCreatedView, jobReadView } from '../views/job.ts'

const jobsPath = '/v1/api/private-inference/jobs'
/** §17: 6 MiB in base64url, and the JSON around it. */
const bodyBytesMax = 10 * 1024 * 1024
const security = [{ CustomerId: [], CustomerToken: [] }]
const jobParams = Type.Object({ job_id: Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$' }) })

/** Refuses a mixture with its own code, because otherwise it would be one of the unknown fields. */
function refuseMixture(body: unknown): void {
  const { mixture, svc } = (body ?? {}) as { readonly mixture?: unknown; readonly svc?: { readonly mixture?: unknown } }
  if (mixture !== undefined) throw new Problem('mixture_unsupported_path', { param: 'mixture' })
  if (svc?.mixture !== undefined) throw new Problem('mixture_unsupported_path', { param: 'svc.mixture' })
}

async function readCreate({ connections }: HttpContext, request: Request): Promise<JobCreate> {
  const body = parseJson(await connections.body(request, readJsonText(request, bodyBytesMax)))
  refuseMixture(body)
  return checkValue(body, JobCreate)
}

/** Endpoints 6 and 7, and the keys without which nothing can be sealed. */
export const privateJobRoutes = (context: HttpContext) => {
  const { audit, jobs } = context.gateway
  return new Elysia()
    .use(customer(context))
    .post(
      jobsPath,
      async ({ access, body, exchange, request, set, status }) => {
        const asker: Asker = {
          actorType: 'customer',
          actorRole: 'viewer',
          actorHashPrefix: audit.pseudonym('actor', request.headers.get(headers.customerToken)),
          approverHashPrefix: null,
          reason: null,
          confirmation: null,
          requestId: exchange.requestId,
        }
        const created = await jobs.create(access, body, asker)
        if (created.replayed) set.headers['idempotent-replayed'] = 'true'
        return status(202, jobCreatedView(created))
      },
      {
        response: { 202: JobCreated },
        ...readsBy(JobCreate, ({ request }: { readonly request: Request }) => readCreate(context, request)),
        detail: {
          ...describe({
            summary: 'Submit a private job',
            description:
              'The envelope is sealed for one of the customer’s own nodes, see docs/protocol.md. A repeated request is the same job.',
            tags: ['Private jobs'],
          }),
          security,
        },
      },
    )
    .get(
      `${jobsPath}/:job_id`,
      async ({ access, params }) => {
        const { job, webhook } = await jobs.read(access, params.job_id)
        return jobReadView(job, webhook)
      },
      {
        params: jobParams,
        response: { 200: JobRead },
        detail: { ...describe({ summary: 'Read a private job', tags: ['Private jobs'] }), security },
      },
    )
    .get(
      '/v1/api/private-inference/nodes/:node_id/keys',
      ({ access, params }) => jobs.nodeKeys(access, params.node_id),
      {
        params: nodeParams,
        response: { 200: NodeKeys },
        detail: {
          ...describe({
            summary: 'List the transport keys of one of your nodes',
            description:
              'The node’s identity signs each key. A client must compare the identity with the fingerprint that the node prints, because it need not trust the gateway.',
            tags: ['Private jobs (extension)'],
          }),
          security,
        },
      },
    )
}
