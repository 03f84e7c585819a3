import { AdminList } from '../../protocol/wire/admin/operators.ts'
import { limitOf } from '../../protocol/wire/query.ts'
import { defineList } from '../frame/define-list.ts'
import { tag } from './admin.ts'

export const adminList = defineList({
  name: 'admin.list',
  at: 'GET /v1/admin/admins',
  role: 'admin',
  category: 'observability',
  summary: 'List the role tokens that bear names, including revoked ones',
  description: 'Tokens of the environment and of the first start are not listed; `SVC_TOKEN_NAMES` names them.',
  tag,
  query: { limit: limitOf(100, 1_000) },
  result: AdminList,
  rows: 'admins',
  read: async ({ gateway, views, query: { limit } }) => (await gateway.admins.list(limit)).map(views.adminView),
  command: {
    words: 'admins list',
    options: {},
    after: 'create',
    columns: [
      ['ADMIN', (admin) => admin.admin_id],
      ['NAME', (admin) => admin.name],
      ['ROLE', (admin) => admin.role],
      ['STATE', (admin) => (admin.revoked_at === null ? 'active' : 'revoked')],
      ['BEGINS WITH', (admin) => admin.display_prefix],
      ['LAST USED', (admin, print) => print.time(admin.last_used_at)],
    ],
    empty: 'No token bears a name. Make one with: ./penstock admins create NAME --role admin',
  },
})
