import { type Clock, systemClock } from '../../clock.ts'
import type { OpenDatabase } from '../../db/client.ts'
import { type LimitQueries, limitQueries } from '../../db/queries/accounts/limits.ts'
import { listenTo } from '../../db/queries/change-feed.ts'
import { waitAtMost } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import { type Loop, loop } from '../../host/loop.ts'
import { atMostEvery } from '../../host/outage.ts'
import type { CustomerId } from '../../ids.ts'
import { failureName, type Log } from '../../log.ts'
import { reserveParts } from '../../machines/rules/quota.ts'
import { minuteMs, secondMs } from '../../time.ts'
import { type LeaseOptions, LimitLease } from './limit-lease.ts'

export interface LeaseBookOptions {
  readonly db: OpenDatabase['db']
  readonly sql: OpenDatabase['sql']
  readonly log: Log
  readonly now: () => number
  readonly ttlMs: number
  /** After each look at the leases. */
  readonly afterTick: () => void
  readonly clock?: Clock
}

/** How many accounts, addresses and tokens may be in use within the last seconds. */
const leasesMax = 50_000
const tickMs = secondMs
const sweepEveryMs = minuteMs
const failureLogEveryMs = secondMs
const endWaitMs = 2 * secondMs
const channel = 'penstock_limits'

/** All leases of this gateway, by the names that the database uses when it asks for reserves. */
export class LeaseBook {
  private readonly queries: LimitQueries
  private readonly leases = new Map<string, LimitLease>()
  private readonly ticking: Loop
  private readonly failed: (error: unknown) => void
  private unlisten: (() => Promise<void>) | null = null
  private listening = false
  private sweptAtMs: number

  constructor(private readonly options: LeaseBookOptions) {
    this.queries = limitQueries(options.db)
    this.sweptAtMs = options.now()
    const { ttlMs, afterTick, log, clock = systemClock } = options
    const tick = () => {
      this.tick()
      afterTick()
    }
    this.ticking = loop({ everyMs: Math.min(tickMs, ttlMs / 3), run: tick, clock })
    const report = (error: unknown) => log.warn('limits_not_stated', { error: failureName(error) })
    this.failed = atMostEvery(failureLogEveryMs, report, clock)
  }

  async start(): Promise<void> {
    this.ticking.start()
    await this.listen()
  }

  /**
   * Without the channel an idle reserve is still returned, only later. So a failure to listen does not fail the start.
   */
  private async listen(): Promise<void> {
    if (this.listening) return
    this.listening = true
    try {
      this.unlisten = await listenTo(this.options.sql, channel, (payload) => {
        this.leases.get(payload.slice(payload.indexOf(' ') + 1))?.asked()
      })
    } catch (error) {
      this.listening = false
      this.failed(error)
    }
  }

  async stop(): Promise<void> {
    void this.ticking.stop()
    const ended = Promise.all([...this.leases.values()].map((lease) => lease.end()))
    // If the database does not answer, the leases expire by themselves.
    await waitAtMost(endWaitMs, ended)
    if (this.unlisten !== null) await waitAtMost(endWaitMs, this.unlisten())
    this.leases.clear()
  }

  full(): boolean {
    return this.leases.size >= leasesMax
  }

  slots(customerId: CustomerId): LimitLease {
    return this.open(`slots:${customerId}`, {
      sync: async (limit, message) => {
        const state = await this.queries.slots(customerId, limit, message)
        // The function answers every new message, so a missing answer is an error: slots in use must not be forgotten.
        if (state === null && !message.close) throw new Error('slot lease not answered')
        return state
      },
      holds: true,
      expires: true,
      reservePart: reserveParts.slots,
    })
  }

  /** A token bucket that holds as many tokens as its limit and refills within a minute. */
  rate(key: string): LimitLease {
    return this.open(`rate:${key}`, {
      sync: (limit, message) => this.queries.rate(key, limit, limit / 60, message),
      holds: false,
      expires: true,
      reservePart: reserveParts.rate,
    })
  }

  quota(customerId: CustomerId, day: string): LimitLease {
    return this.open(`quota:${customerId}:${day}`, {
      sync: (limit, message) => this.queries.quota(customerId, day, limit, message),
      holds: true,
      // Units count as used until they are returned, because a gateway without the database may continue to spend
      // them.
      expires: false,
      reservePart: reserveParts.quota,
    })
  }

  private open(key: string, kind: Omit<LeaseOptions, 'now' | 'ttlMs' | 'failed'>): LimitLease {
    const known = this.leases.get(key)
    if (known !== undefined && !known.closed) return known
    if (this.full()) throw new Problem('service_unavailable', { retryAfterSeconds: 1 })
    const { now, ttlMs } = this.options
    const lease = new LimitLease({ ...kind, now, ttlMs, failed: this.failed })
    this.leases.set(key, lease)
    return lease
  }

  private tick(): void {
    for (const [key, lease] of this.leases) {
      if (lease.closed) this.leases.delete(key)
      else lease.tick()
    }
    const now = this.options.now()
    if (now - this.sweptAtMs < sweepEveryMs) return
    this.sweptAtMs = now
    void this.listen()
    this.queries.sweep().catch(this.failed)
  }
}
