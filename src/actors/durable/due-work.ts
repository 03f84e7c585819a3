import type { OpenDatabase } from '../../db/client.ts'
import { listenTo } from '../../db/queries/change-feed.ts'
import { within } from '../../deadline.ts'
import { failureName, type Log } from '../../log.ts'
import { secondMs } from '../../time.ts'

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
}

export const stopping = new DOMException('the gateway stops', 'AbortError')
export const leaseLost = new DOMException('the lease is lost', 'AbortError')
const stopWaitMs = 5 * secondMs
const answerWaitMs = 20 * secondMs
const pollJitter = 0.1

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
  private claiming: Promise<void> | null = null
  private again = false
  private more = false
  private claimCount = 0
  private away = false
  private stopped = false
  private pollTimer: ReturnType<typeof setTimeout> | null = null
  private renewTimer: ReturnType<typeof setInterval> | null = null
  private unlisten: (() => Promise<void>) | null = null

  constructor(private readonly options: DueWorkOptions<T>) {}

  async start(): Promise<void> {
    const { sql, name, renew, renewEveryMs } = this.options
    // Without a connection the polls alone find the work. The driver listens again by itself once it has listened.
    this.unlisten = await within(
      answerWaitMs,
      listenTo(sql, dueWorkChannel, (payload) => this.noticed(payload, name)),
    ).catch(() => null)
    if (renew !== undefined) {
      this.renewTimer = setInterval(() => void this.renewAll(), renewEveryMs ?? 20 * secondMs)
    }
    this.poll()
  }

  /** Says that something may be due. */
  wake(): void {
    if (this.stopped) return
    if (this.claiming !== null) {
      this.again = true
      return
    }
    this.claiming = this.claimAll().finally(() => {
      this.claiming = null
      if (!this.again) return
      this.again = false
      this.wake()
    })
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
    if (this.pollTimer !== null) clearTimeout(this.pollTimer)
    if (this.renewTimer !== null) clearInterval(this.renewTimer)
    await this.claiming
    for (const { abort } of this.items.values()) abort.abort(stopping)
    await within(stopWaitMs, Promise.all([...this.items.values()].map(({ done }) => done))).catch(() => {})
    if (this.unlisten !== null) await within(stopWaitMs, this.unlisten()).catch(() => {})
  }

  /** Reads a notice that names the work. The suffix `:leases` says that somebody took a lease away. */
  private noticed(payload: string, name: string): void {
    if (payload === name) this.wake()
    else if (payload === `${name}:leases`) void this.renewAll()
  }

  private poll(): void {
    if (this.stopped) return
    const { pollMs, sweep } = this.options
    this.wake()
    void sweep?.().catch((error: unknown) => this.failed(error))
    this.pollTimer = setTimeout(() => this.poll(), pollMs * (1 - pollJitter + 2 * pollJitter * Math.random()))
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
        this.back()
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
    if (this.away || this.stopped) return
    this.away = true
    this.options.log.warn('due_work_lost', { work: this.options.name, failure: failureName(error) })
  }

  private back(): void {
    if (!this.away) return
    this.away = false
    this.options.log.info('due_work_back', { work: this.options.name })
  }
}
