import type { Static, TObject } from '@sinclair/typebox'
import type { AnyElysia } from 'elysia'
import { paramsOf } from '../../actions/frame/params.ts'
import { type AdminAction, adminRoutes } from '../../actions/registry.ts'
import type { Deed } from '../../actors/audit/audit-context.ts'
import type { AdminRole } from '../../machines/rules/admin-route.ts'
import { formatParameter, type QueryParameters, type QueryValues } from '../../protocol/wire/query.ts'
import { utcDay } from '../../time.ts'
import type { AdminCall } from '../frame/admin-call.ts'
import type { HttpContext } from '../frame/context.ts'
import { type CsvCell, csvResponse, csvStream, csvText, operators } from '../frame/csv.ts'
import { countedBody } from '../frame/kept-body.ts'
import { begun, nextLink } from '../frame/page.ts'
import { asks } from '../frame/query.ts'
import { describe } from '../frame/route-table.ts'
import { type OperatorDoor, operatorDoor } from '../plugins/admin.ts'

export interface ReportCsv<B> {
  /** The name of the file: `<name>-<yyyymmdd>.csv`. */
  readonly name: string
  readonly columns: readonly string[]
  readonly rows: (body: B) => readonly (readonly CsvCell[])[]
}

/** A table of all pages, however many: read while it is sent. Without `limit` it has every row of the range. */
export interface ReportPages<Q extends QueryParameters> {
  readonly name: string
  readonly columns: readonly string[]
  /** `most`: the `limit` that was given; null: none was. */
  readonly pages: (
    context: HttpContext,
    input: ReportInput<Q>,
    most: number | null,
  ) => AsyncGenerator<readonly (readonly CsvCell[])[]>
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
  /** Its answer names the row by an ETag. */
  readonly etag?: 'row'
  readonly query: Q
  readonly response: S
  readonly read: (context: HttpContext, input: ReportInput<Q>) => Promise<Static<S>>
  readonly csv?: ReportCsv<Static<S>> | ReportPages<Q>
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

/** A route for each of these reports. */
export function reportRoutes(context: HttpContext, specs: readonly AnyReport[]): AnyElysia {
  const door = operatorDoor(context)
  for (const spec of specs) mount(door, context, spec)
  return door
}

function mount(door: OperatorDoor, context: HttpContext, spec: AnyReport): void {
  const { csv, etag } = spec
  const params = paramsOf(adminRoutes[spec.action].path)
  const query: QueryParameters = csv === undefined ? spec.query : { ...spec.query, format: formatParameter }
  door.get(
    adminRoutes[spec.action].path,
    async ({ actor, call, query: values, params: given, request, set }): Promise<never> => {
      const input: ReportInput<QueryParameters> = {
        params: given as Record<string, string>,
        query: values,
        format: String(values.format ?? 'json').toLowerCase() as ReportFormat,
        role: actor.role,
        nowMs: Date.now(),
      }
      const headers = set.headers as Record<string, string>
      if (csv !== undefined && input.format === 'csv') {
        const text = await csvOf(context, spec, csv, {
          input,
          call,
          limited: isLimited(request.url),
          signal: request.signal,
        })
        // A long table goes as fast as its client takes it.
        if (typeof text !== 'string') context.connections.lift(request)
        return csvResponse(csv.name, utcDay(input.nowMs), text, headers) as never
      }
      const body = await answered(context, spec, input, call, () => spec.read(context, input))
      const { next_cursor: cursor } = body as { readonly next_cursor?: string | null }
      if (etag !== undefined) headers.etag = (body as { readonly etag: string }).etag
      if (cursor != null) headers.link = nextLink(context.gateway.baseUrl(), request.url, cursor)
      return body as never
    },
    {
      action: spec.action,
      ...(params === null ? {} : { params }),
      response: { 200: spec.response },
      ...asks(query),
      detail: describe({
        summary: spec.summary,
        ...(spec.description === undefined ? {} : { description: spec.description }),
        tags: [spec.tag],
        csv: csv === undefined ? undefined : `With \`format=csv\`: ${csv.columns.join(', ')}`,
        ...(etag === undefined ? {} : { etag }),
      }),
    },
  )
}

const isLimited = (url: string) => new URL(url).searchParams.has('limit')

interface CsvCall {
  readonly input: ReportInput<QueryParameters>
  readonly call: AdminCall
  readonly limited: boolean
  readonly signal: AbortSignal
}

async function csvOf(
  context: HttpContext,
  spec: AnyReport,
  csv: NonNullable<AnyReport['csv']>,
  { input, call, limited, signal }: CsvCall,
): Promise<string | ReadableStream<Uint8Array>> {
  const owner = { memory: context.gateway.memory, keeperId: operators }
  if (!owner.memory.admits(operators)) throw owner.memory.refusal()
  if ('rows' in csv) {
    const body = await answered(context, spec, input, call, () => spec.read(context, input))
    return countedBody(csvText(csv.columns, csv.rows(body)), owner, signal)
  }
  const most = limited ? Number(input.query.limit) : null
  // The first page is read before the status is sent, so that what is wrong with the question has its own status.
  const pages = await answered(context, spec, input, call, () => begun(csv.pages(context, input, most)))
  return csvStream(csv.columns, pages, owner)
}

/** What is read, and the event of a read that has one: it is written before the answer, or there is none. */
async function answered<T>(
  context: HttpContext,
  { deed }: AnyReport,
  input: ReportInput<QueryParameters>,
  call: AdminCall,
  read: () => Promise<T>,
): Promise<T> {
  if (deed === undefined) return read()
  const audit = call.bare()
  const found = await read()
  await context.gateway.audit.note(audit, deed(input))
  return found
}
