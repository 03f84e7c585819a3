import type { RequestFilter, RequestPlace, RequestRecord } from '../../db/queries/requests/request-records.ts'
import { type FinishedRequest, rowOf } from './request-row.ts'

/** As many as `explain` keeps. */
export const requestsKeptMax = 10_000

/** The last requests of this gateway, in memory. */
export class RequestRing {
  private readonly ring: FinishedRequest[] = []
  private next = 0

  write(finished: FinishedRequest): void {
    this.ring[this.next] = finished
    this.next = (this.next + 1) % requestsKeptMax
  }

  find(requestId: string): RequestRecord | null {
    const found = this.ring.find((finished) => finished.requestId === requestId)
    return found === undefined ? null : rowOf(found)
  }

  /** As the database would answer; only where it keeps none, since it walks through all. */
  list(filter: RequestFilter, after: RequestPlace | null, limit: number): readonly RequestRecord[] {
    return this.ring
      .map(rowOf)
      .filter((row) => fits(row, filter) && (after === null || newerFirst(after, row) < 0))
      .sort(newerFirst)
      .slice(0, limit)
  }
}

export function newerFirst(a: RequestPlace, b: RequestPlace): number {
  return b.at.getTime() - a.at.getTime() || (a.requestId < b.requestId ? 1 : a.requestId > b.requestId ? -1 : 0)
}

const is = <T>(wanted: T | null, value: T | null) => wanted === null || wanted === value

function fits(row: RequestRecord, filter: RequestFilter): boolean {
  return (
    (filter.from === null || row.at >= filter.from) &&
    (filter.to === null || row.at < filter.to) &&
    is(filter.model, row.model) &&
    is(filter.nodeId, row.nodeId) &&
    is(filter.customerId, row.customerId) &&
    is(filter.keyId, row.keyId) &&
    is(filter.status, row.status) &&
    is(filter.code, row.code) &&
    (filter.ttftMsMin === null || (row.ttftMs !== null && row.ttftMs >= filter.ttftMsMin))
  )
}
