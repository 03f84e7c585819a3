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
  readonly onFilled: (filled: string) => void
}

/** What brings answers together: the commit of their charges, or, where they are free, a turn of the event loop. */
export type Gathering = 'commit' | 'turn'

/** How a slot for a receipt of this log is written. */
interface SlotForm {
  readonly log: string
  /** Behind the hash, which stands first. */
  readonly end: string
  readonly length: number
}

/** What is signed together. */
interface Batch {
  readonly answers: Unfilled[]
  /** Of all of their gaps, in that order. */
  readonly hashes: string[]
  /** Of the first of them: that of now may have changed since then. */
  readonly log: string
}

const hashFrom = '{"hash":"'.length
/** `0x` and 64 hex digits. */
const hashLength = 66

/**
 * The slot of an answer that has one, as nearly all: found by what all slots of this process end with, so that none is written down again. null: it
 * is not there, or somewhere else.
 */
function onlyGap(text: string, slot: LogPromise, { end, length }: SlotForm): Gap | null {
  const at = text.lastIndexOf(end) + end.length - length
  return at >= 0 && text.startsWith(slot.hash, at + hashFrom) ? { at, length, slot } : null
}

/** A receipt that is listed twice has one slot; one that the text does not have has none. */
function gapsIn(text: string, slots: readonly LogPromise[], form: SlotForm): readonly Gap[] {
  const [first] = slots
  const only = first === undefined || slots.length > 1 ? null : onlyGap(text, first, form)
  if (only !== null) return [only]
  const gaps: Gap[] = []
  for (const slot of slots) {
    const written = JSON.stringify(slot)
    // From the end of the text, where it stands, however long the answer is.
    const at = text.lastIndexOf(written)
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
 * The log's promises at the ends of answers (§36). Those of one commit share a signature over the root of their tree: charges become
 * durable in groups, whose answers leave together. Free answers share one with those of their turn of the event loop. One that is alone is signed
 * by itself.
 */
export class LogPromises {
  private readonly now: () => number
  private readonly open: Record<Gathering, Batch | null> = { commit: null, turn: null }
  /** No node knows it, so that no answer can hold what it stands for. */
  private readonly secret = randomBytes(16).toString('hex')
  private form: SlotForm = this.formOf('')

  constructor(private readonly options: LogPromisesOptions) {
    this.now = options.now ?? Date.now
  }

  /** Stands for a promise in the text of an answer that is not durable yet. null: the log promises nothing now. */
  slot(hash: string): LogPromise | null {
    const log = this.options.log()
    return log === null ? null : this.slotOf(hash, log)
  }

  private slotOf(hash: string, log: string): LogPromise {
    return { hash, log, promised_at: '', signature_ed25519: this.secret }
  }

  private formOf(log: string): SlotForm {
    const written = JSON.stringify(this.slotOf('', log))
    return { log, end: written.slice(hashFrom), length: written.length + hashLength }
  }

  /** Told the text with a promise in the place of each slot. Of a slot that it does not have nothing is promised. */
  fill(text: string, slots: readonly LogPromise[], by: Gathering, onFilled: (filled: string) => void): void {
    const log = slots[0]?.log ?? ''
    if (this.form.log !== log) this.form = this.formOf(log)
    const gaps = gapsIn(text, slots, this.form)
    const [first] = gaps
    if (first === undefined) return onFilled(text)
    this.open[by] ??= this.begin(first.slot.log, by)
    const batch = this.open[by]
    batch.answers.push({ text, gaps, onFilled })
    for (const { slot } of gaps) batch.hashes.push(slot.hash)
    if (batch.hashes.length >= batchMax) this.sign(batch, by)
  }

  private begin(log: string, by: Gathering): Batch {
    const batch: Batch = { answers: [], hashes: [], log }
    const sign = () => this.sign(batch, by)
    // At the end of the turn the answers of a commit would leave behind the work of all other sockets (decision 33).
    if (by === 'commit') process.nextTick(sign)
    else setImmediate(sign)
    return batch
  }

  private sign(batch: Batch, by: Gathering): void {
    // A full one was signed before.
    if (this.open[by] !== batch) return
    this.open[by] = null
    const texts = this.texts(batch)
    let first = 0
    for (const answer of batch.answers) {
      answer.onFilled(filled(answer, texts, first))
      first += answer.gaps.length
    }
  }

  /** In the order of the hashes. The last answer may have more than one signature has room for. */
  private texts({ hashes, log }: Batch): readonly string[] {
    const stamp = { log: this.options.log() ?? log, ms: this.now() }
    if (hashes.length <= batchMax) return promiseTexts(stamp, hashes, this.signed)
    const parts: (readonly string[])[] = []
    for (let at = 0; at < hashes.length; at += batchMax)
      parts.push(promiseTexts(stamp, hashes.slice(at, at + batchMax), this.signed))
    return parts.flat()
  }

  private readonly signed = (text: string): string => this.options.key.sign(text)
}
