import { Elysia } from 'elysia'
import { brand } from '../../../brand.ts'
import { KeyList } from '../../../protocol/wire/admin/accounts.ts'
import { isoTime } from '../../../time.ts'
import { customerParams } from '../../frame/admin-input.ts'
import type { HttpContext } from '../../frame/context.ts'
import { asks, limitOf } from '../../frame/query.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { keyView } from '../../views/admin.ts'

const listQuery = { limit: limitOf(100, 1_000) }

/** Gateway keys (§4, §23). */
export const keyRoutes = (context: HttpContext) =>
  new Elysia().use(admin(context)).get(
    '/v1/admin/customers/:customer_id/keys',
    async ({ params, query: { limit } }) => {
      const keys = (await context.gateway.accounts.keys(params.customer_id)).slice(0, limit).map(keyView)
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
      detail: describe({
        summary: 'List the keys of a customer, including expired and revoked ones',
        tags: ['Gateway keys (extension)'],
      }),
    },
  )
