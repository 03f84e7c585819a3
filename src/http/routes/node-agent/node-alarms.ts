import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { brand } from '../../../brand.ts'
import { Problem } from '../../../errors.ts'
import { NodeAlarms, NodeAlarmsAccepted } from '../../../protocol/wire/nodes/alarms.ts'
import type { HttpContext } from '../../frame/context.ts'
import { readsPlainly } from '../../frame/reads.ts'
import { refusedLogin } from '../../frame/refused-login.ts'
import { describe } from '../../frame/route-table.ts'
import { requestId } from '../../plugins/request-id.ts'

/** What a node has found wrong with its gateway, by its own word (§36). */
export const nodeAlarmRoutes = (context: HttpContext) =>
  new Elysia().use(requestId(context)).post(
    '/v1/nodes/:node_id/alarms',
    async ({ body: { alarms, signed_at: signedAt, signature_ed25519: signature }, exchange, params, set }) => {
      const { gateway } = context
      const nodeId = params.node_id
      await gateway.nodeAlarms.tell({ nodeId, alarms, signedAt, signature }).catch((error: unknown) => {
        const guess = error instanceof Problem && error.code === 'signature_invalid'
        throw guess ? refusedLogin(gateway, exchange.address, error) : error
      })
      Object.assign(set.headers, await gateway.limits.takeNodeReport(nodeId))
      return { status: 'told' as const, node_id: nodeId, count: alarms.length }
    },
    {
      params: Type.Object({ node_id: Type.String({ maxLength: 64 }) }),
      response: { 200: NodeAlarmsAccepted },
      ...readsPlainly(context, NodeAlarms),
      detail: {
        ...describe({
          summary: 'Tell what a node has found wrong',
          description: `The newest alarms of an agent, for the console of its owner. The node's Ed25519 identity signs \`${brand}-node-alarms-v1:<node_id>:<signed_at>:<hex SHA-256 of the JCS of alarms>\`.`,
          tags: ['Money (extension)'],
        }),
        security: [],
      },
    },
  )
