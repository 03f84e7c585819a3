import { Elysia } from 'elysia'
import { brand } from '../../../brand.ts'
import { AdminModelList } from '../../../protocol/wire/admin/admin.ts'
import { isoTime } from '../../../time.ts'
import type { HttpContext } from '../../frame/context.ts'
import { asks, limitOf } from '../../frame/query.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { adminModels } from '../../views/admin.ts'

const tags = ['Model catalogue (extension)']
const listQuery = { limit: limitOf(1_000, 10_000) }

/** The operator's catalogue (§23). */
export const catalogueRoutes = (context: HttpContext) => {
  const { pool, router } = context.gateway
  return new Elysia().use(admin(context)).get(
    '/v1/admin/models',
    async ({ query: { limit } }) => {
      const models = adminModels(await pool.modelEntries(), router.table()).slice(0, limit)
      return {
        object: `${brand}.admin.model_list` as const,
        generated_at: isoTime(Date.now()),
        count: models.length,
        models,
      }
    },
    {
      action: 'model.list',
      response: { 200: AdminModelList },
      ...asks(listQuery),
      detail: describe({ summary: 'List catalogue entries and the models that nodes serve', tags }),
    },
  )
}
