import type { Static, TObject } from '@sinclair/typebox'
import { type AnyElysia, Elysia } from 'elysia'
import type { Role } from '../../actors/access.ts'
import { utcDay } from '../../time.ts'
import { type CsvCell, csvResponse, csvText } from '../csv.ts'
import type { HttpContext } from '../exchange.ts'
import { admin } from '../plugins/admin.ts'
import { type QueryParameters, type QueryValues, readQuery } from '../query.ts'
import { describe } from '../route-table.ts'

export interface ReportCsv<B> {
  /** Of the file: `<name>-<yyyymmdd>.csv`. */
  readonly name: string
  readonly columns: readonly string[]
  readonly rows: (body: B) => readonly (readonly CsvCell[])[]
}

/** One admin read: a file with this shape and a line in the registry are all it takes (route, role, CSV, description). */
export interface Report<Q extends QueryParameters = QueryParameters, S extends TObject = TObject> {
  readonly path: string
  readonly role: Role
  readonly tag: string
  readonly summary: string
  readonly description?: string
  readonly params?: TObject
  readonly query: Q
  readonly response: S
  readonly read: (context: HttpContext, input: ReportInput<Q>) => Promise<Static<S>>
  readonly csv?: ReportCsv<Static<S>>
}

export interface ReportInput<Q extends QueryParameters> {
  readonly params: Readonly<Record<string, string>>
  readonly query: QueryValues<Q>
  /** Unix ms of this answer. */
  readonly nowMs: number
}

export type AnyReport = Report<QueryParameters, TObject>

/** Gives `read` and `csv` the types of the report's own query and response. */
export function report<const Q extends QueryParameters, S extends TObject>(spec: Report<Q, S>): AnyReport {
  return spec as unknown as AnyReport
}

const format = {
  kind: 'text',
  pattern: /^(?:json|csv)$/i,
  required: false,
  description: '`json` (default) or `csv`',
} as const

/** Mounts one report. */
export function reportRoute(context: HttpContext, spec: AnyReport): AnyElysia {
  const { csv, params } = spec
  const query: QueryParameters = csv === undefined ? spec.query : { ...spec.query, format }
  return new Elysia().use(admin(context)).get(
    spec.path,
    async ({ request, params: given, set }): Promise<never> => {
      const values = readQuery(request.url, query)
      const nowMs = Date.now()
      const body = await spec.read(context, { params: given as Record<string, string>, query: values, nowMs })
      if (csv === undefined || String(values.format ?? 'json').toLowerCase() === 'json') return body as never
      const headers = set.headers as Readonly<Record<string, string>>
      return csvResponse(csv.name, utcDay(nowMs), csvText(csv.columns, csv.rows(body)), headers) as never
    },
    {
      role: spec.role,
      ...(params === undefined ? {} : { params }),
      response: { 200: spec.response },
      detail: describe({
        summary: spec.summary,
        ...(spec.description === undefined ? {} : { description: spec.description }),
        tags: [spec.tag],
        query,
      }),
    },
  ) as unknown as AnyElysia
}
