import type { OpenDatabase } from '../../db/client.ts'
import { Problem, type ProblemCode } from '../../errors.ts'
import type { CustomerId } from '../../ids.ts'
import type { Log } from '../../log.ts'
import {
  concurrencyRetrySeconds,
  jitteredSeconds,
  type LimitView,
  rateLimitHeaders,
} from '../../machines/rules/quota.ts'
import { dayMs, secondMs, secondsToUtcMidnight, utcDay } from '../../time.ts'
import type { Access } from '../accounts/access.ts'
import { LeaseBook } from './lease-book.ts'
import type { LeaseAnswer } from './lease-queue.ts'
import { type LimitLease, leaseTtlMs } from './limit-lease.ts'

/** One admitted request. Its units must be returned exactly once. */
export interface Admission {
  /** `RateLimit` and `RateLimit-Policy` for the answer. Absent if the account has no limit with a window. */
  readonly headers?: Readonly<Record<string, string>>
  /** Calls that it may make at once; absent: the account has no such limit. */
  readonly slots?: number
  /** `tokens`: the request's actual use. The rest of the reservation goes back to the day's quota. */
  settle(tokens: number): void
}

/** Quota, rate and concurrency of an account, exact over all gateways on one PostgreSQL (§17). */
export interface Limits {
  /**
   * Admits or refuses with `Problem` (`rate_limited`, `concurrency_limited`, `daily_token_quota_exceeded`; without the
   * database, once the local lease is spent, `service_unavailable`). Returns no promise if the account has no limits or
   * the local lease suffices: then the request path does not wait. `tokens`: an upper bound of the request's use. `calls`:
   * it counts as so many; of their slots it takes what is free here, but one at least.
   */
  admit(access: Access, tokens: number, calls?: number): Admission | Promise<Admission>
}

/** The names of an account's limits in `RateLimit-Policy`. */
type LimitName = 'chat' | 'chat-tokens'
type RateHeaders = Readonly<Record<string, string>>

export interface LimitsOptions {
  readonly db: OpenDatabase['db']
  readonly sql: OpenDatabase['sql']
  readonly log: Log
  readonly publicPerMinute: number
  readonly adminPerMinute: number
  /** Unix ms; decides the day of a quota. */
  readonly now?: () => number
  readonly random?: () => number
  /** How long after a crash the slots of a gateway become free, ms. */
  readonly leaseTtlMs?: number
}

interface Account {
  slots: LimitLease | null
  rate: LimitLease | null
  quota: LimitLease | null
  day: string
}

const unlimited: Admission = { settle: () => {} }
const noHeaders: RateHeaders = {}
/** §17. */
const nodeReportsPerMinute = 12

/**
 * The limits that protect the gateway itself. They refuse with `rate_limited`. Without the database they admit
 * everything.
 */
export class GatewayLimits implements Limits {
  private readonly now: () => number
  private readonly random: () => number
  private readonly book: LeaseBook
  private readonly accounts = new Map<CustomerId, Account>()

  constructor(private readonly options: LimitsOptions) {
    this.now = options.now ?? Date.now
    this.random = options.random ?? Math.random
    const ttlMs = options.leaseTtlMs ?? leaseTtlMs
    this.book = new LeaseBook({ ...options, now: this.now, ttlMs, afterTick: () => this.forgetIdle() })
  }

  start(): Promise<void> {
    return this.book.start()
  }

  /** Returns all units that are not held, so that other gateways need not wait until they expire. */
  async stop(): Promise<void> {
    await this.book.stop()
    this.accounts.clear()
  }

  admit(access: Access, tokens: number, calls = 1): Admission | Promise<Admission> {
    const { dailyTokenQuota, rateLimitRpm, maxConcurrency } = access.policy
    // No number would make everything fit from now on.
    if (!(Number.isFinite(tokens) && tokens >= 0)) throw new RangeError('a reservation is a number of tokens')
    if (dailyTokenQuota === null && rateLimitRpm === null && maxConcurrency === null) return unlimited
    const account = this.account(access)
    // At least one unit, so that a request of unknown size counts its real use against its own lease.
    const units = Math.max(1, Math.ceil(tokens))
    const slot = account.slots === null ? 0 : account.slots.tryTake(1)
    const quota = slot === null ? null : account.quota === null ? 0 : account.quota.tryTake(units)
    const rate = quota === null ? null : account.rate === null ? 0 : account.rate.tryTake(calls)
    if (slot !== null && quota !== null && rate !== null)
      return this.admission(access, account, units, slot, quota, calls)
    if (slot !== null) account.slots?.giveBack(1, slot)
    if (quota !== null) account.quota?.giveBack(units, quota)
    // These are the leases of this moment, because a new day may begin while the request waits.
    return this.ask(access, { ...account }, units, calls)
  }

  /** A request that uses neither tokens nor a slot: it counts toward the rate of its account alone. Refuses as `admit` does. */
  takeRequest(access: Access): RateHeaders | Promise<RateHeaders> {
    if (access.policy.rateLimitRpm === null) return noHeaders
    const account = this.account(access)
    if (account.rate?.tryTake(1) !== null) return this.headers(access, account) ?? noHeaders
    return this.ask(access, { ...account, slots: null, quota: null }, 1, 1).then(({ headers }) => headers ?? noHeaders)
  }

  /** A node's signed report. */
  takeNodeReport(nodeId: string): RateHeaders | Promise<RateHeaders> {
    return this.takeRate(`node:${nodeId}`, 'node-payouts', nodeReportsPerMinute)
  }

  /** A public GET; `ipHash`: the keyed hash of the address. */
  takePublic(ipHash: string): RateHeaders | Promise<RateHeaders> {
    return this.takeRate(`ip:${ipHash}`, 'public', this.options.publicPerMinute)
  }

  /** An admin request; `tokenHash`: any stable hash of the token. */
  takeAdmin(tokenHash: string): RateHeaders | Promise<RateHeaders> {
    return this.takeRate(`admin:${tokenHash}`, 'admin', this.options.adminPerMinute)
  }

  private async ask(access: Access, account: Account, units: number, calls: number): Promise<Admission> {
    const slot = account.slots === null ? 0 : this.epochOf(await account.slots.take(1), 'slots', access, account)
    let quota = 0
    let held = false
    try {
      if (account.quota !== null) quota = this.epochOf(await account.quota.take(units), 'quota', access, account)
      held = true
      if (account.rate !== null) this.epochOf(await account.rate.take(calls), 'rate', access, account)
    } catch (problem) {
      account.slots?.giveBack(1, slot)
      if (held) account.quota?.giveBack(units, quota)
      throw problem
    }
    return this.admission(access, account, units, slot, quota, calls)
  }

  private admission(
    access: Access,
    account: Account,
    units: number,
    slot: number,
    quotaEpoch: number,
    calls: number,
  ): Admission {
    const { slots, quota } = account
    const headers = this.headers(access, account)
    const more = slots === null || calls === 1 ? 0 : moreSlots(slots, slot, calls - 1)
    let open = true
    const settle = (tokens: number) => {
      if (!open) return
      open = false
      for (let held = 0; held <= more; held++) slots?.giveBack(1, slot)
      quota?.giveBack(units - Math.max(0, Math.ceil(tokens)), quotaEpoch)
    }
    return { settle, ...(headers === null ? {} : { headers }), ...(slots === null ? {} : { slots: more + 1 }) }
  }

  private epochOf(answer: LeaseAnswer, kind: 'slots' | 'quota' | 'rate', access: Access, account: Account): number {
    if (answer.kind === 'taken') return answer.epoch
    if (answer.kind === 'away') throw new Problem('service_unavailable', { retryAfterSeconds: 1 })
    const refused = (code: ProblemCode, retryAfterSeconds: number, limit?: LimitName) => {
      const spent = limit === undefined ? undefined : { limit, retryAfterSeconds }
      return new Problem(code, { retryAfterSeconds, headers: this.headers(access, account, spent) ?? noHeaders })
    }
    switch (kind) {
      case 'slots':
        throw refused('concurrency_limited', concurrencyRetrySeconds)
      case 'quota':
        throw refused('daily_token_quota_exceeded', secondsToUtcMidnight(this.now()), 'chat-tokens')
      case 'rate':
        throw refused('rate_limited', jitteredSeconds(answer.waitMs, this.random()), 'chat')
    }
  }

  /** `spent` is the limit that refuses and the seconds that `Retry-After` will name. */
  private headers(
    access: Access,
    account: Account,
    spent?: { readonly limit: LimitName; readonly retryAfterSeconds: number },
  ): RateHeaders | null {
    const { rateLimitRpm, dailyTokenQuota } = access.policy
    const views: LimitView[] = []
    if (account.rate !== null && rateLimitRpm !== null) {
      views.push(rateView('chat', rateLimitRpm, account.rate))
    }
    if (account.quota !== null && dailyTokenQuota !== null) {
      views.push({
        name: 'chat-tokens',
        limit: dailyTokenQuota,
        windowSeconds: dayMs / secondMs,
        remaining: account.quota.remaining(),
        resetSeconds: secondsToUtcMidnight(this.now()),
      })
    }
    if (views.length === 0) return null
    return rateLimitHeaders(
      views.map((view) => (view.name === spent?.limit ? spentView(view, spent.retryAfterSeconds) : view)),
    )
  }

  private takeRate(key: string, name: string, perMinute: number): RateHeaders | Promise<RateHeaders> {
    // When the book is full, neither this gateway nor the database has to remember further addresses.
    if (this.book.full()) return noHeaders
    const lease = this.book.rate(key)
    lease.setLimit(perMinute)
    const judge = (answer: LeaseAnswer): RateHeaders => {
      if (answer.kind === 'away') return noHeaders
      const view = rateView(name, perMinute, lease)
      if (answer.kind === 'taken') return rateLimitHeaders([view])
      const retryAfterSeconds = jitteredSeconds(answer.waitMs, this.random())
      const headers = rateLimitHeaders([spentView(view, retryAfterSeconds)])
      throw new Problem('rate_limited', { retryAfterSeconds, headers })
    }
    const answer = lease.take(1)
    return answer instanceof Promise ? answer.then(judge) : judge(answer)
  }

  private account(access: Access): Account {
    const { customerId, policy } = access
    let account = this.accounts.get(customerId)
    if (account === undefined) {
      account = { slots: null, rate: null, quota: null, day: '' }
      this.accounts.set(customerId, account)
    }
    account.slots = current(account.slots, policy.maxConcurrency, () => this.book.slots(customerId))
    account.rate = current(account.rate, policy.rateLimitRpm, () => this.book.rate(`customer:${customerId}`))
    if (policy.dailyTokenQuota === null) account.quota = null
    else {
      const day = utcDay(this.now())
      // Requests that took from yesterday's lease keep it until they have settled.
      if (account.day !== day) account.quota = null
      account.day = day
      account.quota = current(account.quota, policy.dailyTokenQuota, () => this.book.quota(customerId, day))
    }
    return account
  }

  private forgetIdle(): void {
    const ended = (lease: LimitLease | null) => lease === null || lease.closed
    for (const [customerId, { slots, rate, quota }] of this.accounts) {
      if (ended(slots) && ended(rate) && ended(quota)) this.accounts.delete(customerId)
    }
  }
}

/** Takes up to `most` further slots, as far as they are here, and says how many. */
function moreSlots(slots: LimitLease, epoch: number, most: number): number {
  let taken = 0
  while (taken < most) {
    const own = slots.tryTake(1)
    if (own === null) break
    if (own !== epoch) {
      slots.giveBack(1, own)
      break
    }
    taken++
  }
  return taken
}

/** The open lease of a limit with its current limit, or null if there is no limit. */
function current(lease: LimitLease | null, limit: number | null, open: () => LimitLease): LimitLease | null {
  if (limit === null) return null
  const usable = lease === null || lease.closed ? open() : lease
  usable.setLimit(limit)
  return usable
}

function rateView(name: string, perMinute: number, lease: LimitLease): LimitView {
  const perSecond = perMinute / 60
  const remaining = lease.remaining(perSecond)
  return { name, limit: perMinute, windowSeconds: 60, remaining, resetSeconds: (perMinute - remaining) / perSecond }
}

/** The view of a limit that refuses: whatever remains is not enough, and its time is that of `Retry-After`. */
function spentView(view: LimitView, retryAfterSeconds: number): LimitView {
  return { ...view, remaining: 0, resetSeconds: retryAfterSeconds }
}
