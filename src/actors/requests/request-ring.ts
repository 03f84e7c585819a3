import { hasOutcome } from '../../db/queries/requests/request-outcomes.ts'
import type { RequestFilter, RequestPlace, RequestRecord } from '../../db/queries/requests/request-records.ts'
import { tagsOf } from '../../protocol/wire/inference/tags.ts'
import { RequestColumns } from './request-columns.ts'
import type { FinishedRequest } from './request-kinds.ts'

/** As many as `explain` keeps. */
export const requestsKeptMax = 10_000

/** The last requests of this gateway, in memory, and those that wait for the database. */
export class RequestRing {
  readonly columns: RequestColumns
  /** 1: what stands there waits for the database. */
  private readonly waits: Uint8Array
  private next = 0

  /** `waitingMax`: the most that may wait at a time. */
  constructor(waitingMax: number) {
    const size = requestsKeptMax + waitingMax
    this.columns = new RequestColumns(size)
    this.waits = new Uint8Array(size)
  }

  /** Its place, which has been that of the oldest one that does not wait. */
  write(finished: FinishedRequest): number {
    const { columns, waits } = this
    for (let left = columns.size; left > 0 && waits[this.next] === 1; left--) this.step()
    const place = this.next
    columns.put(place, finished)
    this.step()
    return place
  }

  private step(): void {
    this.next = this.next + 1 === this.columns.size ? 0 : this.next + 1
  }

  /** Nothing else comes to its place until it is let go. */
  hold(place: number): void {
    this.waits[place] = 1
  }

  letGo(places: readonly number[]): void {
    for (const place of places) this.waits[place] = 0
  }

  find(requestId: string): RequestRecord | null {
    const place = this.columns.find(requestId)
    return place === null ? null : this.columns.record(place)
  }

  /** As the database would answer; only where it keeps none, since it walks through all. */
  list(filter: RequestFilter, after: RequestPlace | null, limit: number): readonly RequestRecord[] {
    return this.all()
      .filter((row) => fits(row, filter) && (after === null || newerFirst(after, row) < 0))
      .sort(newerFirst)
      .slice(0, limit)
  }

  private all(): RequestRecord[] {
    const { columns } = this
    return Array.from({ length: columns.size }, (_, place) => columns.record(place)).filter((row) => row !== null)
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
    (filter.tag === null || tagsOf(row.tags).includes(filter.tag)) &&
    (filter.ttftMsMin === null || (row.ttftMs !== null && row.ttftMs >= filter.ttftMsMin)) &&
    (filter.outcome === null || hasOutcome(filter.outcome, row.status, row.code))
  )
}
