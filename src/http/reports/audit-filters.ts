import type { EventPage } from '../../db/queries/audit/audit-events.ts'
import { allPages, type PageEnd, type Place, pageOf, pageQuery, readCursor, readRange } from '../frame/page.ts'
import { limitOf, oneOf, type QueryValues } from '../frame/query.ts'

/** Of the lists of events (§17). */
export const roleFilter = oneOf(['admin', 'operator', 'viewer'], '`admin`, `operator` or `viewer`')
/** What every list of events can be asked for beside its filters. */
export const eventQuery = { ...pageQuery, limit: limitOf(100, 1_000) } as const
type EventQuery = QueryValues<typeof eventQuery>

interface Event {
  readonly createdAt: Date
  readonly eventId: string
}
const placeOf = ({ createdAt: at, eventId: id }: Event): Place => ({ at, id })
type Read<R> = (limit: number, page: EventPage) => Promise<readonly R[]>

/** The page that was asked for. */
export async function eventPage<R extends Event>(
  query: EventQuery,
  read: Read<R>,
): Promise<{ readonly shown: readonly R[]; readonly page: PageEnd }> {
  const found = await read(query.limit + 1, { ...readRange(query), after: readCursor(query.cursor) })
  return pageOf(found, query.limit, placeOf)
}

/** All pages from the one that was asked for. */
export function eventPages<R extends Event>(query: EventQuery, most: number | null, read: Read<R>) {
  const range = readRange(query)
  return allPages(readCursor(query.cursor), most, (after, limit) => read(limit, { ...range, after }), placeOf)
}
