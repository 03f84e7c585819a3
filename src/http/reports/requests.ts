import { brand } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { AdminRequestList } from '../../protocol/wire/admin/requests.ts'
import { isoTime } from '../../time.ts'
import { readCursor } from '../frame/page.ts'
import { adminRequestQuery, readRequestFilter } from '../frame/request-filter.ts'
import { allRequests, requestPageOf } from '../views/request-pages.ts'
import { adminRequestColumns, adminRequestView, requestCells } from '../views/requests.ts'
import { type ReportInput, report } from './report.ts'

type Input = ReportInput<typeof adminRequestQuery>

/** Who a request was for is not for viewers: neither to see nor to ask for. */
function filterOf({ query, role }: Input) {
  if (role === 'viewer' && (query.customer_id !== null || query.key_id !== null || query.tag !== null)) {
    throw new Problem('insufficient_role', { detail: 'This needs the role operator' })
  }
  return readRequestFilter(query, { nodeId: query.node_id, customerId: query.customer_id })
}

/** What became of each request (§32). */
export const requestReport = report({
  action: 'request.list',
  tag: 'Requests (extension)',
  summary: 'List requests, newest first',
  description:
    'One row per inference request of a known account, kept for `SVC_REQUEST_LOG_DAYS`. Never content. A search for what several filters have in common goes back step by step: a page may have fewer rows than `limit`, or none, and still a `next_cursor`.',
  query: adminRequestQuery,
  response: AdminRequestList,
  read: async ({ gateway }, input) => {
    const { query, role, nowMs } = input
    const { shown, page } = await requestPageOf(gateway, filterOf(input), readCursor(query.cursor), query.limit)
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
    pages: async function* ({ gateway }, input, most) {
      const { query, role } = input
      for await (const rows of allRequests(gateway, filterOf(input), readCursor(query.cursor), most)) {
        yield rows.map((row) => requestCells(adminRequestView(row, role), adminRequestColumns))
      }
    },
  },
})
