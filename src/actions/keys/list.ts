import { type Key, KeyList } from '../../protocol/wire/admin/accounts.ts'
import { limitOf } from '../../protocol/wire/query.ts'
import { defineList } from '../frame/define-list.ts'

function keyState(key: Key, nowMs: number): string {
  if (key.revoked_at !== null) return 'revoked'
  return key.expires_at !== null && Date.parse(key.expires_at) <= nowMs ? 'expired' : 'active'
}

export const keyList = defineList({
  name: 'gateway_key.list',
  at: 'GET /v1/admin/customers/:customer_id/keys',
  role: 'operator',
  category: 'key_management',
  summary: 'List the keys of a customer, including expired and revoked ones',
  tag: 'Gateway keys (extension)',
  query: { limit: limitOf(100, 1_000) },
  result: KeyList,
  rows: 'keys',
  read: async ({ gateway, views, params, query: { limit } }) =>
    (await gateway.accounts.keys(params.customer_id)).slice(0, limit).map(views.keyView),
  command: {
    words: 'keys list',
    options: {},
    after: 'create',
    columns: [
      ['KEY', (key) => key.key_id],
      ['NAME', (key) => key.name],
      ['BEGINS WITH', (key) => key.display_prefix],
      ['STATE', (key, { nowMs }) => keyState(key, nowMs)],
      ['POLICY', (key) => (key.model_policy === null && key.node_scope === null ? 'default' : 'own')],
      ['LAST USED', (key, print) => print.time(key.last_used_at)],
      ['EXPIRES', (key, print) => print.time(key.expires_at)],
    ],
    empty: 'There are no keys.',
  },
})
