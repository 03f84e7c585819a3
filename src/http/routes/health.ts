import { Elysia } from 'elysia'
import { joinedMetrics } from '../../actors/siblings/metrics-text.ts'
import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { MetricsText } from '../../protocol/wire/admin/processes.ts'
import { Health } from '../../protocol/wire/admin/report.ts'
import type { HttpContext } from '../frame/context.ts'
import { refusedLogin } from '../frame/refused-login.ts'
import { describe } from '../frame/route-table.ts'
import { requestId } from '../plugins/request-id.ts'

/** What a gateway that is not ready says of itself. */
const inWords = {
  starting: 'starting',
  stopping: 'stopping',
  descriptors: 'descriptors_low',
  database: 'database_away',
  database_full: 'database_full',
} as const
const bearerPattern = /^bearer +(\S+)$/i

/** `/healthz` speaks of the process, `/readyz` of what it needs, `/metrics` to Prometheus (§1). */
export const healthRoutes = (context: HttpContext) =>
  new Elysia()
    .use(requestId(context))
    .get('/healthz', () => ({ status: 'ok' as const }), {
      response: { 200: Health },
      detail: { ...describe({ summary: 'Say whether the process is alive', tags: ['Extensions'] }), security: [] },
    })
    .get(
      '/readyz',
      async ({ status }) => {
        const { state } = await context.gateway.health()
        if (state === 'ready') return { status: 'ready' as const }
        return status(503, { status: inWords[state] })
      },
      {
        response: { 200: Health, 503: Health },
        detail: {
          ...describe({
            summary: 'Say whether the gateway takes new work and reaches its database',
            tags: ['Extensions'],
          }),
          security: [],
        },
      },
    )
    .get(
      '/metrics',
      async ({ exchange, request }) => {
        const { gateway } = context
        if (!gateway.config.SVC_METRICS_PUBLIC) authenticate(context, exchange.address, request)
        const text = await metricsText(gateway)
        return new Response(text, {
          headers: { 'content-type': gateway.metrics.contentType, [headers.requestId]: exchange.requestId },
        })
      },
      {
        detail: {
          ...describe({
            summary: 'Read the metrics in the Prometheus text format',
            description: 'Needs a role token as bearer or in the admin header, unless `SVC_METRICS_PUBLIC` is true.',
            tags: ['Extensions'],
            mediaType: 'text/plain',
          }),
          security: [{ RoleTokenAsBearer: [] }, { RoleToken: [] }],
        },
      },
    )

/** Of all processes of this gateway (§33). */
async function metricsText({ metrics, siblings }: HttpContext['gateway']): Promise<string> {
  const { index } = siblings
  if (index === null) return metrics.text()
  const [text, { answers, silent }] = await Promise.all([metrics.text(), siblings.survey('metrics', {}, MetricsText)])
  return joinedMetrics([{ index, text }, ...answers], silent)
}

/** Prometheus can send a bearer and little else, so a role token counts as one here. */
function authenticate({ gateway }: HttpContext, address: string, request: Request): void {
  const authorization = request.headers.get('authorization')
  const token = request.headers.get(headers.adminToken) ?? bearerPattern.exec(authorization ?? '')?.[1]
  if (token === undefined && authorization === null) throw new Problem('missing_credentials')
  if (token !== undefined && gateway.access.role(token) !== null) return
  throw refusedLogin(gateway, address, new Problem('invalid_credentials'))
}
