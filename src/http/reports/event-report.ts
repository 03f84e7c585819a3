import type { TObject } from '@sinclair/typebox'
import type { AdminAction } from '../../actions/registry.ts'
import type { GatewayHandle } from '../../actors/gateway-handle.ts'
import { adminObject } from '../../brand.ts'
import type { Database } from '../../db/client.ts'
import type { EventPage } from '../../db/queries/audit/audit-events.ts'
import type { AdminRole } from '../../machines/rules/admin-route.ts'
import type { Actors } from '../../protocol/wire/admin/operators.ts'
import { filter, limitOf, oneOf, type QueryParameters, type QueryValues } from '../../protocol/wire/query.ts'
import { isoTime } from '../../time.ts'
import type { CsvCell } from '../frame/csv.ts'
import { allPages, type PageEnd, type Place, pageOf, pageQuery, readCursor, readRange } from '../frame/page.ts'
import { type AnyReport, report } from './report.ts'

const roleFilter = oneOf(['admin', 'operator', 'viewer'], '`admin`, `operator` or `viewer`')
const actorFilter = filter('Name or hash prefix of who acted or agreed (extension)')
/** What every list of events can be asked for beside its filters. */
const eventQuery = { ...pageQuery, limit: limitOf(100, 1_000) } as const
type EventQuery = QueryValues<typeof eventQuery>

interface Event {
  readonly createdAt: Date
  readonly eventId: string
  readonly actorHashPrefix: string | null
  readonly approverHashPrefix?: string | null
}
const placeOf = ({ createdAt: at, eventId: id }: Event): Place => ({ at, id })
type Read<R> = (limit: number, page: EventPage) => Promise<readonly R[]>

/** The page that was asked for. */
async function eventPage<R extends Event>(
  query: EventQuery,
  read: Read<R>,
): Promise<{ readonly shown: readonly R[]; readonly page: PageEnd }> {
  const found = await read(query.limit + 1, { ...readRange(query), after: readCursor(query.cursor) })
  return pageOf(found, query.limit, placeOf)
}

/** All pages from the one that was asked for. */
function eventPages<R extends Event>(query: EventQuery, most: number | null, read: Read<R>) {
  const range = readRange(query)
  return allPages(readCursor(query.cursor), most, (after, limit) => read(limit, { ...range, after }), placeOf)
}

/** Who stands behind the events: names live in a list of their own, which the events do not touch. */
async function actorsOf({ admins }: GatewayHandle, events: readonly Event[]): Promise<Actors> {
  const names = await admins.names(events.flatMap((event) => [event.actorHashPrefix, event.approverHashPrefix ?? null]))
  const nameOf = (prefix: string | null) => (prefix === null ? null : (names.get(prefix)?.name ?? null))
  return events.flatMap(({ eventId, actorHashPrefix, approverHashPrefix = null }) =>
    actorHashPrefix === null
      ? []
      : [
          {
            event_id: eventId,
            actor_hash_prefix: actorHashPrefix,
            actor_name: nameOf(actorHashPrefix),
            approver_hash_prefix: approverHashPrefix,
            approver_name: nameOf(approverHashPrefix),
          },
        ],
  )
}

/** Whose events are asked for; null: everybody's. */
interface Who {
  readonly actorRole: AdminRole | null
  readonly actors: readonly string[] | null
}

interface EventReport<Q extends QueryParameters, R extends Event, V extends object> {
  readonly action: AdminAction
  readonly kind: 'access' | 'approval' | 'command'
  readonly summary: string
  /** Its own filters, which the answer repeats. */
  readonly filters: Q
  /** A filter as the answer has it, where that is no text. */
  readonly repeat?: (name: string, value: unknown) => unknown
  readonly response: TObject
  readonly columns: readonly (keyof V)[]
  readonly list: (db: Database, filters: QueryValues<Q>, who: Who) => Read<R>
  readonly view: (row: R) => V
  readonly cell: (event: V, column: keyof V) => CsvCell
}

/** A list of events (§17): its filters, the role of who acted, a range of time, pages, and the same as a table. */
export function eventReport<const Q extends QueryParameters, R extends Event, V extends object>(
  spec: EventReport<Q, R, V>,
): AnyReport {
  const { kind, columns, view, cell, repeat = (_, value) => value } = spec
  const query = { ...spec.filters, actor_role: roleFilter, actor: actorFilter, ...eventQuery }
  const read = async ({ db, admins }: GatewayHandle, given: QueryValues<typeof query>) => {
    const actor = given.actor as string | null
    const actors = actor === null ? null : await admins.prefixesOf(actor)
    return spec.list(db, given as QueryValues<Q>, { actorRole: given.actor_role as AdminRole | null, actors })
  }
  return report({
    action: spec.action,
    tag: 'Audit',
    summary: spec.summary,
    query,
    response: spec.response,
    read: async ({ gateway }, { query: given, nowMs }) => {
      const { shown, page } = await eventPage(given, await read(gateway, given))
      const repeated = Object.keys(spec.filters).map((name) => [name, repeat(name, given[name])])
      return {
        object: `${adminObject}${kind}_event_list`,
        generated_at: isoTime(nowMs),
        count: shown.length,
        ...Object.fromEntries(repeated),
        actor_role: given.actor_role,
        actor: given.actor,
        ...page,
        events: shown.map(view),
        actors: await actorsOf(gateway, shown),
      }
    },
    csv: {
      name: `${kind}-events`,
      columns: columns as readonly string[],
      pages: async function* ({ gateway }, { query: given }, most) {
        for await (const rows of eventPages(given, most, await read(gateway, given))) {
          yield rows.map(view).map((event) => columns.map((column) => cell(event, column)))
        }
      },
    },
  })
}
