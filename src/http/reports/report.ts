import type { Static, TObject } from '@sinclair/typebox'
import { type AnyElysia, Elysia } from 'elysia'
import type { Deed } from '../../actors/audit/audit-context.ts'
import { type AdminAction, type AdminRole, adminRoute } from '../../machines/rules/approval-policy.ts'
import { utcDay } from '../../time.ts'
import type { AdminCall } from '../frame/admin-call.ts'
import type { HttpContext } from '../frame/context.ts'
import { type CsvCell, csvResponse, csvText } from '../frame/csv.ts'
import { asks, filter, type QueryParameters, type QueryValues } from '../frame/query.ts'
import { describe } from '../frame/route-table.ts'
import { admin } from '../plugins/admin.ts'

export interface ReportCsv<B> {
  /** The name of the file: `<name>-<yyyymmdd>.csv`. */
  readonly name: string
  readonly columns: readonly string[]
  readonly rows: (body: B) => readonly (readonly CsvCell[])[]
}

/**
 * One admin read: a file with this shape and a line in the registry are all it takes (CSV, description); its route and
 * its role are the row of its action.
 */
export interface Report<Q extends QueryParameters = QueryParameters, S extends TObject = TObject> {
  readonly action: AdminAction
  readonly tag: string
  readonly summary: string
  readonly description?: string
  readonly params?: TObject
  readonly query: Q
  readonly response: S
  readonly read: (context: HttpContext, input: ReportInput<Q>) => Promise<Static<S>>
  readonly csv?: ReportCsv<Static<S>>
  /**
   * For a read with an approval event (§16, exports). The event is written before the answer, or there is no answer.
   */
  readonly deed?: (input: ReportInput<Q>) => Deed
}

export type ReportFormat = 'json' | 'csv'

export interface ReportInput<Q extends QueryParameters> {
  readonly params: Readonly<Record<string, string>>
  readonly query: QueryValues<Q>
  readonly format: ReportFormat
  /** The role of the caller. */
  readonly role: AdminRole
  /** The time of this answer, Unix ms. */
  readonly nowMs: number
}

export type AnyReport = Report<QueryParameters, TObject>

/** Gives `read` and `csv` the types of the report's own query and response. */
export function report<const Q extends QueryParameters, S extends TObject>(spec: Report<Q, S>): AnyReport {
  return spec as unknown as AnyReport
}

const format = filter('`json` (default) or `csv`', '^(?:[jJ][sS][oO][nN]|[cC][sS][vV])$', 'json or csv')

/** Mounts one report. */
export function reportRoute(context: HttpContext, spec: AnyReport): AnyElysia {
  const { csv, params } = spec
  const query: QueryParameters = csv === undefined ? spec.query : { ...spec.query, format }
  return new Elysia().use(admin(context)).get(
    adminRoute(spec.action).path,
    async ({ actor, call, query: values, params: given, set }): Promise<never> => {
      const input: ReportInput<QueryParameters> = {
        params: given as Record<string, string>,
        query: values,
        format: String(values.format ?? 'json').toLowerCase() as ReportFormat,
        role: actor.role,
        nowMs: Date.now(),
      }
      const body = await answered(context, spec, input, call)
      if (csv === undefined || input.format === 'json') return body as never
      const headers = set.headers as Readonly<Record<string, string>>
      return csvResponse(csv.name, utcDay(input.nowMs), csvText(csv.columns, csv.rows(body)), headers) as never
    },
    {
      action: spec.action,
      ...(params === undefined ? {} : { params }),
      response: { 200: spec.response },
      ...asks(query),
      detail: describe({
        summary: spec.summary,
        ...(spec.description === undefined ? {} : { description: spec.description }),
        tags: [spec.tag],
        csv: csv === undefined ? undefined : `With \`format=csv\`: ${csv.columns.join(', ')}`,
      }),
    },
  ) as unknown as AnyElysia
}

async function answered(
  context: HttpContext,
  { read, deed }: AnyReport,
  input: ReportInput<QueryParameters>,
  call: AdminCall,
): Promise<Static<TObject>> {
  if (deed === undefined) return read(context, input)
  const audit = call.bare()
  const body = await read(context, input)
  await context.gateway.audit.note(audit, deed(input))
  return body
}
