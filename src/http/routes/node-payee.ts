import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { brand } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { PayeeStated, PayeeStatement } from '../../protocol/wire/nodes/agent.ts'
import type { HttpContext } from '../frame/context.ts'
import { readsPlainly } from '../frame/reads.ts'
import { refusedLogin } from '../frame/refused-login.ts'
import { describe } from '../frame/route-table.ts'
import { requestId } from '../plugins/request-id.ts'

/** Where a node's earnings go, by its own word (§36). */
export const nodePayeeRoutes = (context: HttpContext) =>
  new Elysia().use(requestId(context)).post(
    '/v1/nodes/:node_id/payee',
    async ({ body: { payee, signed_at: signedAt, signature_ed25519: signature }, exchange, params }) => {
      const { gateway } = context
      const nodeId = params.node_id
      await gateway.payees.state({ nodeId, payee, signedAt, signature }).catch((error: unknown) => {
        const guess = error instanceof Problem && error.code === 'signature_invalid'
        throw guess ? refusedLogin(gateway, exchange.address, error) : error
      })
      return { status: 'stated' as const, node_id: nodeId, payee, signed_at: signedAt }
    },
    {
      params: Type.Object({ node_id: Type.String({ maxLength: 64 }) }),
      response: { 200: PayeeStated },
      ...readsPlainly(context, PayeeStatement),
      detail: {
        ...describe({
          summary: 'State where the earnings of a node go',
          description: `The node's Ed25519 identity signs \`${brand}-payee-v1:<node_id>:<payee>:<signed_at>\`. It counts for what is earned from then on, is an entry of the public log, and only the node can change it.`,
          tags: ['Money (extension)'],
        }),
        security: [],
      },
    },
  )
