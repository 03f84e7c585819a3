import { randomBytes } from 'node:crypto'
import { Alarm, type Clock, systemClock } from '../../clock.ts'
import {
  batchMax,
  type LogPromise,
  type Promised,
  promisesText,
  promiseText,
  writtenPromise,
} from '../../protocol/log/promise.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'
import { secondMs } from '../../time.ts'
import { batchOf } from './promise-batch.ts'

export interface LogPromisesOptions {
  /** The newest of SVC_LOG_KEY. */
  readonly key: Pick<SigningKey, 'sign'>
  /** The name of the log now; null: this gateway adds nothing to it, and promises nothing. */
  readonly log: () => string | null
  /** Unix ms. */
  readonly now?: () => number
  readonly clock?: Clock
}

/** Signatures of one process: each takes 11 to 17 µs of the thread that answers. */
const signaturesPerSecond = 200
/** So many may follow each other at once; what comes then waits for the next one. */
const burst = 4
const signatureEveryMs = secondMs / signaturesPerSecond

interface Waiting {
  readonly slot: LogPromise
  readonly resolve: (promise: LogPromise) => void
}

/**
 * The log's promises at the ends of answers (§36). Those of one turn of the event loop share a signature over the root of their tree, and
 * so do those that come while the process has used up its signatures: 5 ms at most. One that is alone is signed by itself.
 */
export class LogPromises {
  private readonly now: () => number
  private readonly clock: Clock
  private readonly alarm: Alarm
  private waiting: Waiting[] = []
  /** Signatures that may follow at once, and when that was counted. */
  private free = burst
  private countedMs: number
  /** No node knows it, so that no answer can hold what it stands for. */
  private readonly secret = randomBytes(16).toString('hex')

  constructor(private readonly options: LogPromisesOptions) {
    const { now = Date.now, clock = systemClock } = options
    this.now = now
    this.clock = clock
    this.countedMs = clock.now()
    this.alarm = new Alarm(() => this.late(), clock)
  }

  /** Stands for a promise in the text of an answer that is not durable yet. null: the log promises nothing now. */
  slot(hash: string): LogPromise | null {
    const log = this.options.log()
    return log === null ? null : { hash, log, promised_at: '', signature_ed25519: this.secret }
  }

  /** The text with a promise in the place of each slot. Of a slot that it does not have nothing is promised. */
  async fill(text: string, slots: readonly LogPromise[]): Promise<string> {
    const asked = slots.flatMap((slot) => {
      const written = JSON.stringify(slot)
      return text.includes(written) ? [{ written, promise: this.promise(slot) }] : []
    })
    let filled = text
    for (const { written, promise } of asked) {
      const told = JSON.stringify(await promise)
      // In a replacement text `$` would have a meaning of its own.
      filled = filled.replace(written, () => told)
    }
    return filled
  }

  private promise(slot: LogPromise): Promise<LogPromise> {
    return new Promise((resolve) => {
      this.waiting.push({ slot, resolve })
      if (this.waiting.length >= batchMax) this.sign()
      // Charges become durable in groups, whose answers leave together: at the end of this turn.
      else if (this.waiting.length === 1) setImmediate(() => this.due())
    })
  }

  /** Something waits: it is signed now, or when the next signature is due. */
  private due(): void {
    if (this.waiting.length === 0 || this.alarm.isSet) return
    if (this.takesFree()) this.sign()
    else this.alarm.set(signatureEveryMs)
  }

  /** The wait is over, also where the timer rang a little early. */
  private late(): void {
    this.takesFree()
    this.sign()
  }

  private takesFree(): boolean {
    const nowMs = this.clock.now()
    this.free = Math.min(burst, this.free + (nowMs - this.countedMs) / signatureEveryMs)
    this.countedMs = nowMs
    if (this.free < 1) return false
    this.free--
    return true
  }

  /** The log's name may have changed since the answer was written. */
  private stamp({ log }: LogPromise) {
    return { log: this.options.log() ?? log, ms: this.now() }
  }

  private alone(slot: LogPromise): LogPromise {
    const promised = { ...this.stamp(slot), hash: slot.hash }
    return writtenPromise(promised, this.options.key.sign(promiseText(promised)), null)
  }

  /** All that wait, by one signature. */
  private sign(): void {
    const { waiting } = this
    const [first] = waiting
    this.waiting = []
    this.alarm.clear()
    if (first === undefined) return
    if (waiting.length === 1) return first.resolve(this.alone(first.slot))
    const stamp = this.stamp(first.slot)
    const promised = waiting.map(({ slot }) => ({ ...stamp, hash: slot.hash }))
    const { root, places } = batchOf(promised)
    const signature = this.options.key.sign(promisesText(stamp, waiting.length, root))
    for (const [at, { resolve }] of waiting.entries()) {
      resolve(writtenPromise(promised[at] as Promised, signature, places[at]))
    }
  }
}
