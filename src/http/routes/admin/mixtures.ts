import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { mixturesKeptMax } from '../../../actors/mixture/mixture-records.ts'
import { brand } from '../../../brand.ts'
import { MixtureList, RecentMixture } from '../../../protocol/wire/admin/admin-mixtures.ts'
import { isoTime } from '../../../time.ts'
import type { HttpContext } from '../../frame/context.ts'
import { asks, limitOf } from '../../frame/query.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { newest, ownMixtures } from '../../views/own.ts'

const query = { limit: limitOf(100, mixturesKeptMax) }

/** The mixtures of late: what became of each and of its sub-calls, never a text (§23). */
export const mixtureRoutes = (context: HttpContext) =>
  new Elysia().use(admin(context)).get(
    '/v1/admin/mixtures',
    async ({ actor: { role }, query: { limit } }) => {
      const { gateway } = context
      const elsewhere = await gateway.siblings.ask(
        'mixtures',
        { limit: String(limit), role },
        Type.Array(RecentMixture),
      )
      const mixtures = newest([ownMixtures(gateway, limit, role), ...elsewhere], ({ ended_at }) => ended_at, limit)
      return {
        object: `${brand}.admin.mixture_list` as const,
        generated_at: isoTime(Date.now()),
        count: mixtures.length,
        mixtures,
      }
    },
    {
      action: 'mixture.list',
      response: { 200: MixtureList },
      ...asks(query),
      detail: describe({
        summary: 'List recent mixtures, newest first',
        description: `The last ${mixturesKeptMax.toLocaleString('en')} mixtures, which each process of this gateway remembers. The answer has metadata only.`,
        tags: ['Nodes (extension)'],
      }),
    },
  )
