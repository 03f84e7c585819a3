import type { AnyElysia } from 'elysia'
import type { List, ListContext } from '../../../actions/frame/define-list.ts'
import { type AdminAction, lists } from '../../../actions/registry.ts'
import { isoTime } from '../../../time.ts'
import type { HttpContext } from '../../frame/context.ts'
import type { CsvCell } from '../../frame/csv.ts'
import { type AnyReport, report, reportRoutes } from '../../reports/report.ts'
import { views } from './actions.ts'

type Row = Readonly<Record<string, CsvCell>>

function reportOf(list: List): AnyReport {
  const { action, tag, summary, description, query, result, rows: member, cells, read, beside } = list
  return report({
    action: action as AdminAction,
    tag,
    summary,
    ...(description === undefined ? {} : { description }),
    query,
    response: result,
    read: async ({ gateway }, { params, query: values, role, nowMs }) => {
      const context: ListContext = { gateway, views, role, params, query: values, nowMs }
      const rows = await read(context as ListContext<never, never>)
      return {
        object: result.properties.object?.const,
        generated_at: isoTime(nowMs),
        count: rows.length,
        ...beside?.(gateway, views),
        [member]: rows,
      } as never
    },
    csv: {
      name: member.replaceAll('_', '-'),
      columns: cells,
      // A member that the role of the caller leaves out is an empty cell.
      rows: (body) =>
        ((body as Readonly<Record<string, readonly Row[]>>)[member] ?? []).map((row) =>
          cells.map((cell) => row[cell] ?? null),
        ),
    },
  })
}

/** A route for everything that an operator can list. */
export const listRoutes = (context: HttpContext): AnyElysia => reportRoutes(context, lists.map(reportOf))
