import type { Clock } from '../../clock.ts'
import type { OpenDatabase } from '../../db/client.ts'
import { listenTo } from '../../db/queries/change-feed.ts'
import { waitAtMost, within } from '../../deadline.ts'
import { type Loop, loop } from '../../host/loop.ts'
import { Outage } from '../../host/outage.ts'
import { failureName, type Log } from '../../log.ts'
import { secondMs } from '../../time.ts'
import { sharedRun } from './shared-run.ts'

/** The channel on which gateways tell each other that something is due; the payload is the name of the work. */
export const dueWorkChannel = 'penstock_due_work'

export interface Claimed {
  /** Identifies the claim. The next claim gets another id, so that late writes of this one have no effect. */
  readonly leaseId: string
}

export interface DueWorkOptions<T extends Claimed> {
  /** The payload of the notices, and the name in the log. */
  readonly name: string
  readonly sql: OpenDatabase['sql']
  readonly log: Log
  /** Takes due rows with new leases. `more` says that there may be further ones. */
  claim(limit: number): Promise<{ readonly items: readonly T[]; readonly more: boolean }>
  /**
   * Runs one row until it rests. It must not reject for expected failures. `signal` aborts when the lease is lost or
   * this gateway stops.
   */
  run(item: T, signal: AbortSignal): Promise<void>
  /**
   * Prolongs leases and resolves with those that this gateway still holds. It is absent if `run` is shorter than a
   * lease.
   */
  readonly renew?: (leaseIds: readonly string[]) => Promise<ReadonlySet<string>>
  readonly renewEveryMs?: number
  /** How many rows run here at once. */
  readonly concurrencyMax: number
  /** The time between two claims if no notice came. */
  readonly pollMs: number
  /** Runs beside the claims, once a poll, for expiry and retention. */
  readonly sweep?: () => Promise<void>
  readonly clock?: Clock
}

export const stopping = new DOMException('the gateway stops', 'AbortError')
export const leaseLost = new DOMException('the lease is lost', 'AbortError')
const stopWaitMs = 5 * secondMs
const answerWaitMs = 20 * secondMs
const jitter = 0.1

interface Running {
  readonly abort: AbortController
  readonly done: Promise<void>
}

/**
 * Due rows, claimed with `SKIP LOCKED` under a lease (§26): the poll is what makes sure, notices make it quick.
 * Any number of gateways may do this on one PostgreSQL.
 */
export class DueWork<T extends Claimed> {
  private readonly items = new Map<string, Running>()
  private readonly claim = sharedRun(() => this.claimAll())
  private more = false
  private claimCount = 0
  private stopped = false
  private readonly outage: Outage
  private readonly polling: Loop
  private readonly renewing: Loop
  private unlisten: (() => Promise<void>) | null = null

  constructor(private readonly options: DueWorkOptions<T>) {
    const { name: work, log, pollMs, renewEveryMs = 20 * secondMs, clock } = options
    this.outage = new Outage(
      (error) => log.warn('due_work_lost', { work, failure: failureName(error) }),
      () => log.info('due_work_back', { work }),
    )
    this.polling = loop({ everyMs: pollMs, jitter, run: () => this.poll(), clock })
    this.renewing = loop({ everyMs: renewEveryMs, run: () => this.renewAll(), clock })
  }

  async start(): Promise<void> {
    const { sql, name, renew } = this.options
    // Without a connection the polls alone find the work. The driver listens again by itself once it has listened.
    this.unlisten = await within(
      answerWaitMs,
      listenTo(sql, dueWorkChannel, (payload) => this.noticed(payload, name)),
    ).catch(() => null)
    if (this.stopped) return
    if (renew !== undefined) this.renewing.start()
    void this.polling.startNow()
  }

  /** Says that something may be due. */
  wake(): void {
    if (!this.stopped) void this.claim()
  }

  running(): number {
    return this.items.size
  }

  /** The number of claims so far, for the metrics. Each claim is one statement. */
  claims(): number {
    return this.claimCount
  }

  /** Aborts what runs and waits for it, at most 5 s. Others can claim the rows when the leases end. */
  async stop(): Promise<void> {
    this.stopped = true
    void this.polling.stop()
    void this.renewing.stop()
    // The claim under way; after it nothing is claimed.
    await this.claim()
    for (const { abort } of this.items.values()) abort.abort(stopping)
    await waitAtMost(stopWaitMs, Promise.all([...this.items.values()].map(({ done }) => done)))
    if (this.unlisten !== null) await waitAtMost(stopWaitMs, this.unlisten())
  }

  /** Reads a notice that names the work. The suffix `:leases` says that somebody took a lease away. */
  private noticed(payload: string, name: string): void {
    if (payload === name) this.wake()
    else if (payload === `${name}:leases`) void this.renewAll()
  }

  /** Waits for nothing: a sweep that does not answer must not hold up the claims. */
  private poll(): void {
    this.wake()
    this.options.sweep?.().catch((error: unknown) => this.failed(error))
  }

  private async claimAll(): Promise<void> {
    const { claim, concurrencyMax } = this.options
    try {
      for (;;) {
        const limit = concurrencyMax - this.items.size
        if (limit <= 0) this.more = true
        if (limit <= 0 || this.stopped) return
        this.claimCount++
        const { items, more } = await within(answerWaitMs, claim(limit))
        this.more = more
        for (const item of items) this.begin(item)
        this.outage.worked()
        if (!more || items.length === 0) return
      }
    } catch (error) {
      this.failed(error)
    }
  }

  private begin(item: T): void {
    const abort = new AbortController()
    const done = this.options
      .run(item, abort.signal)
      .catch((error: unknown) => {
        this.options.log.error('due_work_failed', { work: this.options.name, failure: failureName(error) })
      })
      .finally(() => {
        this.items.delete(item.leaseId)
        if (this.more) this.wake()
      })
    this.items.set(item.leaseId, { abort, done })
    if (this.stopped) abort.abort(stopping)
  }

  private async renewAll(): Promise<void> {
    const leases = [...this.items.keys()]
    if (leases.length === 0 || this.options.renew === undefined) return
    try {
      const held = await within(answerWaitMs, this.options.renew(leases))
      for (const lease of leases) if (!held.has(lease)) this.items.get(lease)?.abort.abort(leaseLost)
    } catch (error) {
      // The lease may still be held, so the work continues. Its writes name the lease, so a lost one does no harm.
      this.failed(error)
    }
  }

  private failed(error: unknown): void {
    if (!this.stopped) this.outage.failed(error)
  }
}
