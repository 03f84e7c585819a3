import { Elysia } from 'elysia'
import type { RequestRecord } from '../../../actors/requests/request-log.ts'
import { CustomerRequestList } from '../../../protocol/wire/admin/requests.ts'
import { formatParameter } from '../../../protocol/wire/query.ts'
import { isoTime, utcDay } from '../../../time.ts'
import type { HttpContext } from '../../frame/context.ts'
import { csvResponse, csvStream } from '../../frame/csv.ts'
import { begun, nextLink, readCursor } from '../../frame/page.ts'
import { asks } from '../../frame/query.ts'
import { readRequestFilter, requestQuery } from '../../frame/request-filter.ts'
import { describe } from '../../frame/route-table.ts'
import { customer } from '../../plugins/customer.ts'
import { allRequests, requestPageOf } from '../../views/request-pages.ts'
import { customerRequestColumns, customerRequestView, requestCells } from '../../views/requests.ts'

const query = { ...requestQuery, format: formatParameter } as const

async function* csvPages(pages: AsyncGenerator<readonly RequestRecord[]>) {
  for await (const rows of pages)
    yield rows.map((row) => requestCells(customerRequestView(row), customerRequestColumns))
}

/** A customer's own requests (§32): which node served them is the operator's affair. */
export const billingRequestRoutes = (context: HttpContext) => {
  const { gateway } = context
  return new Elysia().use(customer(context)).get(
    '/v1/billing/requests',
    async ({ access, query: values, request, set }): Promise<never> => {
      const filter = readRequestFilter(values, { nodeId: null, customerId: access.customerId })
      const from = readCursor(values.cursor)
      const headers = set.headers as Record<string, string>
      const nowMs = Date.now()
      if (values.format?.toLowerCase() === 'csv') {
        const owner = { memory: gateway.memory, keeperId: access.customerId }
        if (!owner.memory.admits(owner.keeperId)) throw owner.memory.refusal()
        const most = new URL(request.url).searchParams.has('limit') ? values.limit : null
        const pages = await begun(csvPages(allRequests(gateway, filter, from, most)))
        // A long table goes as fast as its client takes it.
        context.connections.lift(request)
        const table = csvStream(customerRequestColumns, pages, owner)
        return csvResponse('requests', utcDay(nowMs), table, headers) as never
      }
      const { shown, page } = await requestPageOf(gateway, filter, from, values.limit)
      if (page.next_cursor !== null) headers.link = nextLink(gateway.baseUrl(), request.url, page.next_cursor)
      return {
        status: 'ok',
        customer_id: access.customerId,
        generated_at: isoTime(nowMs),
        count: shown.length,
        ...page,
        requests: shown.map(customerRequestView),
      } as never
    },
    {
      response: { 200: CustomerRequestList },
      ...asks(query),
      detail: {
        ...describe({
          summary: 'Your requests',
          description:
            'Newest first, kept for as long as the operator keeps them (`SVC_REQUEST_LOG_DAYS`). Never content. A page may have fewer rows than `limit`, or none, and still a `next_cursor`: then the search for what several filters have in common goes on there. A table has every row of the range unless `limit` is given.',
          tags: ['Requests (extension)'],
          csv: `With \`format=csv\`: ${customerRequestColumns.join(', ')}`,
        }),
        security: [{ CustomerId: [], CustomerToken: [] }],
      },
    },
  )
}
