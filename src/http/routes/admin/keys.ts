import { Elysia } from 'elysia'
import { brand } from '../../../brand.ts'
import { Key, KeyCreate, KeyIssued, KeyList, KeyRotate, KeyRotated } from '../../../protocol/wire/admin/accounts.ts'
import { isoTime, secondMs } from '../../../time.ts'
import { customerParams, keyParams, parseInstant, reasonHeader } from '../../frame/admin-input.ts'
import type { HttpContext } from '../../frame/context.ts'
import { asks, limitOf } from '../../frame/query.ts'
import { mayRead, reads } from '../../frame/reads.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { keyView } from '../../views/admin.ts'

const tags = ['Gateway keys (extension)']
const listQuery = { limit: limitOf(100, 1_000) }

const collectionRoutes = (context: HttpContext) => {
  const { accounts } = context.gateway
  return new Elysia()
    .use(admin(context))
    .post(
      '/v1/admin/customers/:customer_id/keys',
      async ({ body: { body, audit }, params, status }) => {
        const { key, gatewayKey } = await accounts.by(audit).issueKey(params.customer_id, {
          name: body.name,
          modelPolicy: body.model_policy ?? null,
          nodeScope: body.node_scope ?? null,
          expiresAt: parseInstant(body.expires_at, 'expires_at'),
        })
        return status(201, { ...keyView(key), gateway_key: gatewayKey })
      },
      {
        action: 'gateway_key.issue',
        params: customerParams,
        response: { 201: KeyIssued },
        ...reads(KeyCreate),
        detail: describe({ summary: 'Issue a gateway key', tags }),
      },
    )
    .get(
      '/v1/admin/customers/:customer_id/keys',
      async ({ params, query: { limit } }) => {
        const keys = (await accounts.keys(params.customer_id)).slice(0, limit).map(keyView)
        return {
          object: `${brand}.admin.key_list` as const,
          generated_at: isoTime(Date.now()),
          count: keys.length,
          keys,
        }
      },
      {
        action: 'gateway_key.list',
        params: customerParams,
        response: { 200: KeyList },
        ...asks(listQuery),
        detail: describe({ summary: 'List the keys of a customer, including expired and revoked ones', tags }),
      },
    )
}

const itemRoutes = (context: HttpContext) => {
  const { accounts } = context.gateway
  return new Elysia()
    .use(admin(context))
    .post(
      '/v1/admin/keys/:key_id/rotate',
      async ({ body: { body, audit }, params, status }) => {
        const { keep_seconds } = body
        const keepMs = keep_seconds === undefined ? undefined : keep_seconds * secondMs
        const rotated = await accounts.by(audit).rotateKey(params.key_id, keepMs)
        return status(201, {
          ...keyView(rotated.key),
          gateway_key: rotated.gatewayKey,
          old_key_expires_at: isoTime(rotated.oldKeyExpiresAt),
        })
      },
      {
        action: 'gateway_key.rotate',
        params: keyParams,
        response: { 201: KeyRotated },
        ...mayRead(KeyRotate),
        detail: describe({ summary: 'Replace a key. The old one keeps working for a while', tags }),
      },
    )
    .delete(
      '/v1/admin/keys/:key_id',
      async ({ call, params }) => keyView(await accounts.by(call.bare()).revokeKey(params.key_id)),
      {
        action: 'gateway_key.revoke',
        params: keyParams,
        response: { 200: Key },
        detail: describe({
          summary: 'Revoke a key',
          description: `The key stops working at once, and within 5 s on other gateways. The reason travels in \`${reasonHeader}\`.`,
          tags,
        }),
      },
    )
}

/** Gateway keys (§4, §23). The raw key stands in the answer that made it and nowhere else. */
export const keyRoutes = (context: HttpContext) => new Elysia().use(collectionRoutes(context)).use(itemRoutes(context))
