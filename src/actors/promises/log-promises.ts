import { randomBytes } from 'node:crypto'
import { batchMax, type LogPromise, promisesText, promiseText, writtenPromise } from '../../protocol/log/promise.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'
import { batchOf } from './promise-batch.ts'

export interface LogPromisesOptions {
  /** The newest of SVC_LOG_KEY. */
  readonly key: Pick<SigningKey, 'sign'>
  /** The name of the log now; null: this gateway adds nothing to it, and promises nothing. */
  readonly log: () => string | null
  /** Unix ms. */
  readonly now?: () => number
}

/** What is signed together: the slots of one turn of the event loop. */
interface Batch {
  readonly slots: LogPromise[]
  /** In the order of the slots, as JSON. */
  readonly signed: Promise<readonly string[]>
  readonly resolve: (texts: readonly string[]) => void
}

/**
 * The log's promises at the ends of answers (§36). Those of one turn of the event loop share a signature over the root of their tree: charges
 * become durable in groups, whose answers leave together. One that is alone is signed by itself. Nothing waits for a later turn.
 */
export class LogPromises {
  private readonly now: () => number
  private batch: Batch | null = null
  /** No node knows it, so that no answer can hold what it stands for. */
  private readonly secret = randomBytes(16).toString('hex')

  constructor(private readonly options: LogPromisesOptions) {
    this.now = options.now ?? Date.now
  }

  /** Stands for a promise in the text of an answer that is not durable yet. null: the log promises nothing now. */
  slot(hash: string): LogPromise | null {
    const log = this.options.log()
    return log === null ? null : { hash, log, promised_at: '', signature_ed25519: this.secret }
  }

  /** The text with a promise in the place of each slot. Of a slot that it does not have nothing is promised. */
  async fill(text: string, slots: readonly LogPromise[]): Promise<string> {
    let filled = text
    for (const { written, promise } of this.asked(text, slots)) {
      const told = await promise
      const at = filled.indexOf(written)
      // A receipt that is listed twice has one slot.
      if (at < 0) continue
      filled = filled.slice(0, at) + told + filled.slice(at + written.length)
    }
    return filled
  }

  /** All are asked for in this turn, so that they share a signature. */
  private asked(text: string, slots: readonly LogPromise[]) {
    return slots.flatMap((slot) => {
      const written = JSON.stringify(slot)
      return text.includes(written) ? [{ written, promise: this.promise(slot) }] : []
    })
  }

  private async promise(slot: LogPromise): Promise<string> {
    this.batch ??= this.begin()
    const { batch } = this
    const at = batch.slots.push(slot) - 1
    if (batch.slots.length >= batchMax) this.sign(batch)
    return (await batch.signed)[at] as string
  }

  private begin(): Batch {
    const { promise: signed, resolve } = Promise.withResolvers<readonly string[]>()
    const batch: Batch = { slots: [], signed, resolve }
    setImmediate(() => this.sign(batch))
    return batch
  }

  private sign(batch: Batch): void {
    // A full one was signed before the end of its turn.
    if (this.batch !== batch) return
    this.batch = null
    batch.resolve(this.texts(batch.slots))
  }

  private texts(slots: readonly LogPromise[]): readonly string[] {
    const { key, log } = this.options
    // The log's name may have changed since the answers were written.
    const stamp = { log: log() ?? (slots[0] as LogPromise).log, ms: this.now() }
    const promised = slots.map(({ hash }) => ({ ...stamp, hash }))
    const [first, second] = promised
    if (first !== undefined && second === undefined) {
      return [JSON.stringify(writtenPromise(first, key.sign(promiseText(first)), null))]
    }
    const { root, places } = batchOf(promised)
    const signature = key.sign(promisesText(stamp, promised.length, root))
    return promised.map((one, at) => JSON.stringify(writtenPromise(one, signature, places[at])))
  }
}
