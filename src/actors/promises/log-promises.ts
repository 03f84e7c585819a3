import { randomBytes } from 'node:crypto'
import { batchMax, type LogPromise } from '../../protocol/log/promise.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'
import { promiseTexts } from './promise-batch.ts'

export interface LogPromisesOptions {
  /** The newest of SVC_LOG_KEY. */
  readonly key: Pick<SigningKey, 'sign'>
  /** The name of the log now; null: this gateway adds nothing to it, and promises nothing. */
  readonly log: () => string | null
  /** Unix ms. */
  readonly now?: () => number
}

/** A slot where it stands in an answer's text. */
interface Gap {
  readonly at: number
  readonly length: number
  readonly slot: LogPromise
}

/** An answer whose promises are still to be signed. */
interface Unfilled {
  readonly text: string
  /** In the order of the text, at least one. */
  readonly gaps: readonly Gap[]
  readonly told: (filled: string) => void
}

/** What is signed together: what became durable together. */
interface Batch {
  readonly answers: Unfilled[]
  /** The gaps of all of them. */
  promises: number
}

/** A receipt that is listed twice has one slot; one that the text does not have has none. */
function gapsIn(text: string, slots: readonly LogPromise[]): readonly Gap[] {
  const gaps: Gap[] = []
  for (const slot of slots) {
    const written = JSON.stringify(slot)
    const at = text.indexOf(written)
    if (at >= 0 && !gaps.some((gap) => gap.at === at)) gaps.push({ at, length: written.length, slot })
  }
  return gaps.length > 1 ? gaps.sort((a, b) => a.at - b.at) : gaps
}

/** `texts`: of all promises of a batch, `first` the first of this answer's. */
function filled({ text, gaps }: Unfilled, texts: readonly string[], first: number): string {
  let whole = ''
  let from = 0
  for (let index = 0; index < gaps.length; index++) {
    const { at, length } = gaps[index] as Gap
    whole += text.slice(from, at) + texts[first + index]
    from = at + length
  }
  return whole + text.slice(from)
}

/**
 * The log's promises at the ends of answers (§36). Those of one callback of the event loop share a signature over the root of their tree: charges
 * become durable in groups, whose answers leave together. One that is alone is signed by itself. Nothing waits for another callback.
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

  /** Told the text with a promise in the place of each slot. Of a slot that it does not have nothing is promised. */
  fill(text: string, slots: readonly LogPromise[], told: (filled: string) => void): void {
    const gaps = gapsIn(text, slots)
    if (gaps.length === 0) return told(text)
    this.batch ??= this.begin()
    const { batch } = this
    batch.answers.push({ text, gaps, told })
    batch.promises += gaps.length
    if (batch.promises >= batchMax) this.sign(batch)
  }

  private begin(): Batch {
    const batch: Batch = { answers: [], promises: 0 }
    // At the end of the turn (`setImmediate`) the answers would leave behind the work of all other sockets (decision 33).
    process.nextTick(() => this.sign(batch))
    return batch
  }

  private sign(batch: Batch): void {
    // A full one was signed before.
    if (this.batch !== batch) return
    this.batch = null
    const texts = this.texts(batch.answers)
    let first = 0
    for (const answer of batch.answers) {
      answer.told(filled(answer, texts, first))
      first += answer.gaps.length
    }
  }

  /** In the order of the answers and their gaps. The last answer may have more than one signature has room for. */
  private texts(answers: readonly Unfilled[]): readonly string[] {
    const { key, log } = this.options
    const slots = answers.flatMap(({ gaps }) => gaps.map(({ slot }) => slot))
    // The log's name may have changed since the answers were written.
    const stamp = { log: log() ?? (slots[0] as LogPromise).log, ms: this.now() }
    const texts: string[] = []
    for (let at = 0; at < slots.length; at += batchMax) {
      const hashes = slots.slice(at, at + batchMax).map(({ hash }) => hash)
      texts.push(...promiseTexts(stamp, hashes, (text) => key.sign(text)))
    }
    return texts
  }
}
