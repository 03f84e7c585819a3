import { KeyList } from '../../../protocol/wire/admin/accounts.ts'
import { limitOf } from '../../frame/query.ts'
import { listOf, report } from '../../reports/report.ts'
import { keyView } from '../../views/admin.ts'

/** Gateway keys (§4, §23). */
export const keyList = report({
  action: 'gateway_key.list',
  tag: 'Gateway keys (extension)',
  summary: 'List the keys of a customer, including expired and revoked ones',
  query: { limit: limitOf(100, 1_000) },
  response: KeyList,
  read: async ({ gateway }, { params, query: { limit }, nowMs }) => {
    const keys = await gateway.accounts.keys(params.customer_id ?? '')
    return listOf('key_list', 'keys', keys.slice(0, limit).map(keyView), nowMs)
  },
})
