import { Type } from '@sinclair/typebox'
import { mixturesKeptMax } from '../../../actors/mixture/mixture-records.ts'
import { MixtureList, RecentMixture } from '../../../protocol/wire/admin/admin-mixtures.ts'
import { limitOf } from '../../frame/query.ts'
import { listOf, report } from '../../reports/report.ts'
import { newest, ownMixtures } from '../../views/own.ts'

/** The mixtures of late: what became of each and of its sub-calls, never a text (§23). */
export const mixtureList = report({
  action: 'mixture.list',
  tag: 'Nodes (extension)',
  summary: 'List recent mixtures, newest first',
  description: `The last ${mixturesKeptMax.toLocaleString('en')} mixtures, which each process of this gateway remembers. The answer has metadata only.`,
  query: { limit: limitOf(100, mixturesKeptMax) },
  response: MixtureList,
  read: async ({ gateway }, { role, query: { limit }, nowMs }) => {
    const asked = { limit: String(limit), role }
    const elsewhere = await gateway.siblings.ask('mixtures', asked, Type.Array(RecentMixture))
    const mixtures = newest([ownMixtures(gateway, limit, role), ...elsewhere], ({ ended_at }) => ended_at, limit)
    return listOf('mixture_list', 'mixtures', mixtures, nowMs)
  },
})
