import { MixtureList, mixturesKeptMax } from '../../protocol/wire/admin/admin-mixtures.ts'
import { limitOf } from '../../protocol/wire/query.ts'
import { defineList } from '../frame/define-list.ts'

/** What became of each mixture and of its sub-calls, never a text (§23). */
export const mixtureList = defineList({
  name: 'mixture.list',
  at: 'GET /v1/admin/mixtures',
  role: 'viewer',
  category: 'observability',
  summary: 'List recent mixtures, newest first',
  description: `The last ${mixturesKeptMax.toLocaleString('en')} mixtures, which each process of this gateway remembers. The answer has metadata only.`,
  tag: 'Nodes (extension)',
  query: { limit: limitOf(100, mixturesKeptMax) },
  result: MixtureList,
  rows: 'mixtures',
  read: ({ gateway, views, role, query: { limit } }) => views.mixturesOfAll(gateway, limit, role),
})
