import type { RequestRecord } from '../../actors/requests/request-log.ts'
import { brand } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { AdminRequestList } from '../../protocol/wire/admin/requests.ts'
import { isoTime } from '../../time.ts'
import type { HttpContext } from '../frame/context.ts'
import { cellsOf } from '../frame/csv.ts'
import { allPages, type Place, pageOf, readCursor } from '../frame/page.ts'
import { adminRequestQuery, readRequestFilter } from '../frame/request-filter.ts'
import { requestsOf } from '../views/own-requests.ts'
import { adminRequestColumns, adminRequestView } from '../views/requests.ts'
import { type ReportInput, report } from './report.ts'

type Input = ReportInput<typeof adminRequestQuery>

const placeOf = ({ at, requestId: id }: RequestRecord): Place => ({ at, id })

/** Who a request was for is not for viewers: neither to see nor to ask for. */
function readerOf({ gateway }: HttpContext, { query, role }: Input) {
  if (role === 'viewer' && (query.customer_id !== null || query.key_id !== null)) {
    throw new Problem('insufficient_role', { detail: 'This needs the role operator' })
  }
  const filter = readRequestFilter(query, { nodeId: query.node_id, customerId: query.customer_id })
  return (after: Place | null, limit: number) =>
    requestsOf(gateway, filter, after === null ? null : { at: after.at, requestId: after.id }, limit)
}

/** What became of each request (§32). */
export const requestReport = report({
  action: 'request.list',
  tag: 'Requests (extension)',
  summary: 'List requests, newest first',
  description: 'One row per inference request of a known account, kept for `SVC_REQUEST_LOG_DAYS`. Never content.',
  query: adminRequestQuery,
  response: AdminRequestList,
  read: async (context, input) => {
    const { query, role, nowMs } = input
    const found = await readerOf(context, input)(readCursor(query.cursor), query.limit + 1)
    const { shown, page } = pageOf(found, query.limit, placeOf)
    return {
      object: `${brand}.admin.request_list` as const,
      generated_at: isoTime(nowMs),
      count: shown.length,
      ...page,
      requests: shown.map((row) => adminRequestView(row, role)),
    }
  },
  csv: {
    name: 'requests',
    columns: adminRequestColumns,
    pages: async function* (context, input, most) {
      const { query, role } = input
      for await (const rows of allPages(readCursor(query.cursor), most, readerOf(context, input), placeOf)) {
        yield rows.map((row) => cellsOf(adminRequestView(row, role), adminRequestColumns))
      }
    },
  },
})
