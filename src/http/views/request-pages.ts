import type { GatewayHandle } from '../../actors/gateway-handle.ts'
import type { RequestFilter, RequestPage, RequestPlace, RequestRecord } from '../../actors/requests/request-log.ts'
import { newerFirst } from '../../actors/requests/request-ring.ts'
import { type Place, pageOf, rowsPerRead } from '../frame/page.ts'
import { ownRequestsOfAll } from './own-requests.ts'

const placeOf = ({ at, requestId: id }: RequestPlace): Place => ({ at, id })
const requestPlace = (place: Place | null): RequestPlace | null =>
  place === null ? null : { at: place.at, requestId: place.id }

/** Newest first, from behind `after`. Where the database keeps none, each process has its own. */
async function requestPage(
  gateway: GatewayHandle,
  filter: RequestFilter,
  after: RequestPlace | null,
  limit: number,
): Promise<RequestPage> {
  const own = await gateway.requests.page(filter, after, limit)
  if (gateway.requests.days > 0) return own
  const others = await ownRequestsOfAll(gateway, { filter, after, limit })
  return { records: [...own.records, ...others].sort(newerFirst).slice(0, limit), searchedTo: null }
}

/** A page and where the next one begins; with fewer rows than `limit` where the search has gone far enough for one call. */
export async function requestPageOf(
  gateway: GatewayHandle,
  filter: RequestFilter,
  after: Place | null,
  limit: number,
): Promise<ReturnType<typeof pageOf<RequestRecord>>> {
  const { records, searchedTo } = await requestPage(gateway, filter, requestPlace(after), limit + 1)
  return pageOf<RequestRecord>(records, limit, placeOf, searchedTo === null ? null : placeOf(searchedTo))
}

/**
 * Every page from `after` on, or `most` rows, however far the search for them must go: an empty page between two searches, so
 * that a reader who has left is noticed there.
 */
export async function* allRequests(
  gateway: GatewayHandle,
  filter: RequestFilter,
  after: Place | null,
  most: number | null,
): AsyncGenerator<readonly RequestRecord[]> {
  let from = requestPlace(after)
  let left = most ?? Number.POSITIVE_INFINITY
  while (left > 0) {
    const limit = Math.min(rowsPerRead, left)
    const { records, searchedTo } = await requestPage(gateway, filter, from, limit)
    yield records
    from = searchedTo ?? (records.length === limit ? (records.at(-1) ?? null) : null)
    if (from === null) return
    left -= records.length
  }
}
