import { Elysia } from 'elysia'
import { refuseItself } from '../../../actions/nodes/refuse-itself.ts'
import { type LookedAt, lookAt } from '../../../actors/pool/look-at.ts'
import { sameServer } from '../../../actors/pool/pool-admin.ts'
import { brand } from '../../../brand.ts'
import { NodeProbe, NodeProbeAsk, probedModelsMax } from '../../../protocol/wire/nodes/probe.ts'
import { troubleWords } from '../../../protocol/wire/nodes/trouble.ts'
import type { HttpContext } from '../../frame/context.ts'
import { reads } from '../../frame/reads.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'

const modelsNamedMax = 5

function words({ url, code, status }: LookedAt): string {
  if (code !== null || status === null) return troubleWords(code ?? 'malformed', url)
  const names = status.models.map(({ id }) => id)
  const more = names.length > modelsNamedMax ? ` and ${names.length - modelsNamedMax} more` : ''
  if (names.length === 0) return `A server of the kind ${status.kind} answers there, but it has no model yet.`
  return `A server of the kind ${status.kind} answers there, with ${names.slice(0, modelsNamedMax).join(', ')}${more}.`
}

/** What answers at a URL, before it becomes a node. Nothing is kept of it. */
export const nodeProbeRoutes = (context: HttpContext) => {
  const { config, pool } = context.gateway
  return new Elysia().use(admin(context)).post(
    '/v1/admin/nodes/probe',
    async ({ body: { body }, request }) => {
      refuseItself(context.gateway, body.url)
      const found = await lookAt({ config, url: body.url, apiKey: body.api_key ?? null, signal: request.signal })
      const node = (await pool.nodes()).find((row) => row.adminState !== 'revoked' && sameServer(row.url, found.url))
      const models = (found.status?.models ?? []).slice(0, probedModelsMax)
      return {
        object: `${brand}.admin.node_probe` as const,
        url: found.url,
        code: found.code,
        says: words(found),
        node_id: node?.nodeId ?? null,
        runtime_kind: found.status?.kind ?? null,
        models: models.map(({ id, contextLength, loaded }) => ({ id, context_length: contextLength, loaded })),
      }
    },
    {
      action: 'node.probe',
      response: { 200: NodeProbe },
      ...reads(NodeProbeAsk),
      detail: describe({
        summary: 'Look at a model server before it becomes a node',
        description: 'Asks the URL by GET as a poll would, runs no completion, and registers nothing.',
        tags: ['Nodes (extension)'],
      }),
    },
  )
}
