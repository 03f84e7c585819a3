import { AdminModelList } from '../../../protocol/wire/admin/admin.ts'
import { limitOf } from '../../frame/query.ts'
import { listOf, report } from '../../reports/report.ts'
import { adminModels } from '../../views/admin.ts'

/** The operator's catalogue (§23). */
export const modelList = report({
  action: 'model.list',
  tag: 'Model catalogue (extension)',
  summary: 'List catalogue entries and the models that nodes serve',
  query: { limit: limitOf(1_000, 10_000) },
  response: AdminModelList,
  read: async ({ gateway: { pool, router } }, { query: { limit }, nowMs }) => {
    const models = adminModels(await pool.modelEntries(), router.table()).slice(0, limit)
    return listOf('model_list', 'models', models, nowMs)
  },
})
