import type { Clock } from '../../clock.ts'
import type { DatabaseAccess } from '../../db/client.ts'
import {
  type Failures,
  type FailuresOf,
  failureStepMs,
  requestFailures,
} from '../../db/queries/requests/request-failures.ts'
import { insertRequestRecords } from '../../db/queries/requests/request-groups.ts'
import {
  getRequestRecord,
  keepRequestRecords,
  type RequestFilter,
  type RequestPlace,
  type RequestRecord,
} from '../../db/queries/requests/request-records.ts'
import { type RequestPage, requestPage } from '../../db/queries/requests/request-search.ts'
import { type Span, trafficByName } from '../../db/queries/requests/request-traffic.ts'
import { waitAtMost, within } from '../../deadline.ts'
import { type Loop, loop } from '../../host/loop.ts'
import { idMs } from '../../ids.ts'
import { failureName, type Log } from '../../log.ts'
import { dayMs, hourMs } from '../../time.ts'
import { GroupWriter } from '../durable/group-writer.ts'
import type { FinishedRequest } from './request-kinds.ts'
import { RequestRing } from './request-ring.ts'
import {
  type FirstTokens,
  readFirstTokens,
  readTraffic,
  sumRequests,
  type Traffic,
  type TrafficOf,
} from './request-traffic.ts'

export type { RequestFilter, RequestPlace, RequestRecord } from '../../db/queries/requests/request-records.ts'
export type { RequestPage } from '../../db/queries/requests/request-search.ts'

export interface RequestLogOptions extends DatabaseAccess {
  readonly log: Log
  /** SVC_REQUEST_LOG_DAYS; 0: the database keeps none. */
  readonly days: number
  /** SVC_RECEIPT_FLUSH_MS: rows go beside the receipts. */
  readonly flushMs: number
  /** Unix ms. */
  readonly now?: () => number
  readonly clock?: Clock
}

/** At 1,000 requests a second 20 s without the database; with those that are kept, 5 MB. */
const queueMax = 20_000
/** What a busy gateway serves in a tenth of a second: each statement is a turn of the database on somebody's CPU. */
const batchMax = 1_000
const maintainEveryMs = hourMs
/** A gateway that was not asked for days finds its partitions made. */
const daysAhead = 2
/** The longest time that a list waits for rows which this gateway has not written yet. */
const flushWaitMs = 1_000
const nowhere: Span = { fromMs: 0, toMs: 0 }
const ofAll: TrafficOf = { nodeId: null, model: null }

/** What became of each request of a known account (§32): who, where, how long, how much. Never content. */
export class RequestLog {
  private readonly ring: RequestRing
  /** Of places in the ring. */
  private readonly writer: GroupWriter<number>
  private readonly now: () => number
  private readonly maintaining: Loop
  private summing: Promise<void> | null = null
  private readonly ending = new AbortController()

  constructor(private readonly options: RequestLogOptions) {
    const { sql, log, flushMs, days, clock } = options
    // One group is under way while others wait.
    const ring = new RequestRing(days === 0 ? 0 : queueMax + batchMax)
    const { read } = ring.columns
    this.ring = ring
    this.now = options.now ?? Date.now
    this.maintaining = loop({ everyMs: maintainEveryMs, run: () => this.maintain(), clock })
    this.writer = new GroupWriter({
      name: 'request_records',
      log,
      insert: (places: readonly number[]) => insertRequestRecords({ sql }, places, read),
      // The clock has jumped: its day may have no partition.
      prepare: (place: number) => this.keep(new Date(read.atMs(place))),
      settled: (places) => ring.letGo(places),
      gatherMs: flushMs,
      queueMax,
      batchMax,
    })
  }

  /** Makes the coming days and drops those that are over, now and from time to time. Never rejects. */
  async start(): Promise<void> {
    await this.maintaining.startNow()
  }

  /** Writes what waits. */
  async stop(): Promise<void> {
    void this.maintaining.stop()
    this.ending.abort()
    await this.summing
    await this.writer.stop()
  }

  /** One request, when all of it is over. Never waits. */
  write(finished: FinishedRequest): void {
    const place = this.ring.write(finished)
    if (this.options.days === 0 || !this.writer.hasRoom()) return
    this.ring.hold(place)
    this.writer.enter(place)
  }

  /** Of the last requests of this process; null: not among them. */
  recent(requestId: string): RequestRecord | null {
    return this.ring.find(requestId)
  }

  /** null: unknown here, or no longer kept. */
  async find(requestId: string): Promise<RequestRecord | null> {
    const recent = this.recent(requestId)
    if (recent !== null || this.options.days === 0) return recent
    const at = idMs(requestId)
    return Number.isNaN(at) ? null : getRequestRecord(this.options.db, { at: new Date(at), requestId })
  }

  /**
   * Newest first, from behind `after`. What this gateway has finished before the call is among them. A page may end before it is
   * full, where the search has gone far enough for one call.
   */
  async page(filter: RequestFilter, after: RequestPlace | null, limit: number): Promise<RequestPage> {
    const { db, days } = this.options
    if (days === 0) return { records: this.ring.list(filter, after, limit), searchedTo: null }
    await this.flush()
    return requestPage(db, filter, after, limit)
  }

  /** What a range came to, and the one before it (Unix ms). null: the database keeps no requests. */
  async traffic(range: { readonly fromMs: number; readonly toMs: number }, of: TrafficOf): Promise<Traffic | null> {
    const { db, days } = this.options
    if (days === 0) return null
    await this.flush()
    return readTraffic(db, range, of)
  }

  /** How soon first tokens came in a range (Unix ms). null: the database keeps no requests. */
  async firstTokens(
    range: { readonly fromMs: number; readonly toMs: number },
    of: TrafficOf,
  ): Promise<FirstTokens | null> {
    const { db, days } = this.options
    if (days === 0) return null
    await this.flush()
    return readFirstTokens(db, range, of)
  }

  /** What failed in a range (Unix ms), by cause; nothing where the database keeps no requests. */
  async failures(range: { readonly fromMs: number; readonly toMs: number }, of: FailuresOf): Promise<Failures> {
    const { db, days } = this.options
    if (days === 0) return { clusters: [], steps: [], stepMs: failureStepMs(range), reachMs: null }
    await this.flush()
    return requestFailures(db, range, of)
  }

  /** Requests by the models that clients named, in an hour of a past day, which is summed up. */
  async modelRequests(hour: Span): Promise<ReadonlyMap<string, number>> {
    const { db, days } = this.options
    if (days === 0) return new Map()
    const found = await trafficByName(db, { days: nowhere, hours: [hour], rows: nowhere }, ofAll)
    return new Map(found.flatMap(({ kind, name, requests }) => (kind === 'model' ? [[name, requests]] : [])))
  }

  /** How many days are kept. */
  get days(): number {
    return this.options.days
  }

  private async flush(): Promise<void> {
    await waitAtMost(flushWaitMs, this.writer.flush())
  }

  /** One more day than asked for is there in part: today's. */
  private keep(from: Date): Promise<number> {
    const { db, days } = this.options
    const nowMs = this.now()
    const keepFrom = new Date(days === 0 ? nowMs + daysAhead * dayMs : nowMs - days * dayMs)
    const until = new Date(days === 0 ? from.getTime() - dayMs : Math.max(from.getTime(), nowMs + daysAhead * dayMs))
    return keepRequestRecords(db, from, until, keepFrom)
  }

  private async maintain(): Promise<void> {
    try {
      await within(maintainEveryMs, this.keep(new Date(this.now())))
    } catch (error) {
      this.options.log.warn('request_records_days', { failure: failureName(error) })
    }
    this.summing ??= this.sum().finally(() => {
      this.summing = null
    })
  }

  /** After an upgrade or a long stop there are many hours: the start does not wait for them. */
  private async sum(): Promise<void> {
    const { db, days, log } = this.options
    if (days === 0) return
    try {
      await sumRequests(db, this.now(), this.now() - days * dayMs, this.ending.signal)
    } catch (error) {
      log.warn('request_sums', { failure: failureName(error) })
    }
  }
}
