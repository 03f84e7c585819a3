/** Calls by which the concurrency of a route is judged. */
export const callsKept = 200
/** So many more calls than were on time must have been late beyond a limit. */
const excessMin = 3
/** A first token is late by this share of what its prompt needs, and of the mean wait for one of the slots. */
const lateOwnShare = 0.5
const lateWaitShare = 0.25
/** A limit beyond which no call was placed for `callsKept` calls grows by this share, and by one at least. */
const growthShare = 0.25
const concurrencyMax = 4_095
/** Stands beside the concurrency of a call that was late. */
const lateBit = 4_096
/** By concurrency, while one route is judged: how many more calls were late than on time. Empty between. */
const excessAt = new Int16Array(concurrencyMax + 1)

/**
 * True if a first token came so late that its call must have waited for a slot. `expectedMs`: to read its prompt.
 * `durationMs`: the mean length of a call; with n calls at work, one ends each n-th part of it.
 */
export const isLate = (readMs: number, expectedMs: number, durationMs: number, concurrency: number): boolean =>
  readMs - expectedMs > Math.max(lateOwnShare * expectedMs, (lateWaitShare * durationMs) / concurrency)

/**
 * How many calls a route answers at once, of a server that does not say or says it wrongly. Up to its limit a first token
 * comes when its prompt was read; beyond, it waits until another call has ended. As in Netflix's concurrency-limits, the
 * concurrency is sought at which times leave their floor: here the one that best divides the calls that were late from
 * those that were not. https://github.com/Netflix/concurrency-limits
 */
export class ConcurrencyLimit {
  /** Calls that are answered at once; null: no queue was seen, and none is assumed. */
  limit: number | null = null
  /** A ring: the concurrency of each call, and whether it was late. */
  private calls: Uint16Array | null = null
  private kept = 0
  private next = 0
  /** Calls since the last one beyond the limit. */
  private within = 0
  /** Requests that the server worked on at its last report, if others waited there then. */
  private busyWhileQueued: number | null = null

  /** `concurrency`: the calls there when this one was placed, itself included. */
  learn(concurrency: number, late: boolean): void {
    this.calls ??= new Uint16Array(callsKept)
    this.calls[this.next] = Math.min(concurrency, concurrencyMax) | (late ? lateBit : 0)
    this.next = (this.next + 1) % callsKept
    this.kept = Math.min(this.kept + 1, callsKept)
    this.within = this.limit !== null && concurrency > this.limit ? 0 : this.within + 1
    this.judge(this.calls)
  }

  /**
   * The server reports how many requests it works on and how many wait. One that waits at two reports in a row waits for
   * a slot, and not only for the next step of its server.
   */
  reported(busy: number, queued: number): void {
    const before = this.busyWhileQueued
    this.busyWhileQueued = queued > 0 && busy > 0 ? busy : null
    if (this.busyWhileQueued !== null && before !== null) this.settle(Math.max(busy, before))
    else if (queued === 0 && this.limit !== null && busy > this.limit) this.settle(null)
  }

  /** What was learnt before it is known better now. */
  private settle(limit: number | null): void {
    this.limit = limit
    this.kept = 0
    this.next = 0
    this.within = 0
  }

  private judge(calls: Uint16Array): void {
    let most = 1
    for (let at = 0; at < this.kept; at++) {
      const call = calls[at] ?? 0
      const concurrency = call & concurrencyMax
      if (concurrency > most) most = concurrency
      excessAt[concurrency] = (excessAt[concurrency] ?? 0) + (call >= lateBit ? 1 : -1)
    }
    let [excess, greatest, limit, beyond] = [0, 0, 0, 0]
    for (let concurrency = most; concurrency > 1; concurrency--) {
      excess += excessAt[concurrency] ?? 0
      if (concurrency - 1 === this.limit) beyond = excess
      if (excess <= greatest) continue
      greatest = excess
      limit = concurrency - 1
    }
    excessAt.fill(0, 0, most + 1)
    if (greatest >= excessMin) {
      if (this.limit === null) this.within = 0
      this.limit = limit
    } else if (beyond <= -excessMin) this.limit = null
    else if (this.limit !== null && this.within >= callsKept) this.grow(this.limit)
  }

  /** No call went beyond it, and it may be higher by now. */
  private grow(limit: number): void {
    this.within = 0
    this.limit = limit + Math.max(1, Math.floor(limit * growthShare))
  }
}
