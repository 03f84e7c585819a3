import { KeyList } from '../../protocol/wire/admin/accounts.ts'
import { limitOf } from '../../protocol/wire/query.ts'
import { defineList } from '../frame/define-list.ts'
import { tag } from './key.ts'

/** By which a reader of ids finds the names. */
export const allKeyList = defineList({
  name: 'gateway_key.list_all',
  at: 'GET /v1/admin/keys',
  role: 'operator',
  category: 'observability',
  summary: 'List the keys of all customers, newest first, including expired and revoked ones',
  tag,
  query: { limit: limitOf(100, 1_000) },
  result: KeyList,
  rows: 'keys',
  read: async ({ gateway, views, query: { limit } }) => (await gateway.accounts.allKeys(limit)).map(views.keyView),
})
