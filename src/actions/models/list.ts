import { AdminModelList } from '../../protocol/wire/admin/catalogue.ts'
import { limitOf } from '../../protocol/wire/query.ts'
import { defineList } from '../frame/define-list.ts'

/** Its command also shows what the nodes have in memory, and what a key may call. */
export const modelList = defineList({
  name: 'model.list',
  at: 'GET /v1/admin/models',
  role: 'viewer',
  category: 'catalogue',
  summary: 'List catalogue entries and the models that nodes serve',
  tag: 'Model catalogue (extension)',
  query: { limit: limitOf(1_000, 10_000) },
  result: AdminModelList,
  rows: 'models',
  read: async ({ gateway: { pool, router }, views, query: { limit } }) =>
    views.adminModels(await pool.modelEntries(), router.table()).slice(0, limit),
})
