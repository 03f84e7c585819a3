import { NoAnswer, within } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import type { MemoryBudget } from '../../host/budget.ts'
import { CountedKeeper } from '../../host/counted-keeper.ts'
import { secondMs } from '../../time.ts'
import type { UpstreamForm } from '../chat/upstream-request.ts'
import { boundaryOf, FormFilter, type FormPiece, type FormRules, modelPlace } from './form-filter.ts'

/** Of one form (§28). */
export const formBytesMax = 25 * 1024 * 1024
/** A form of no more is awaited whole, so that another node may get it when the first one fails. */
const keptBytesMax = 256 * 1024
const readMsMax = 10 * secondMs
/** After the first seconds. */
const bytesPerSecondMin = 16_000
const graceMs = 5 * secondMs
/** Until a form has named its model: till then all of it is held. */
const modelMsMax = 120 * secondMs

const tooLarge = () => new Problem('payload_too_large', { detail: `A form may have at most ${formBytesMax} bytes` })
const tooSlow = () => new Problem('invalid_request', { detail: 'The form did not arrive in time' })
const brokeOff = () => new Problem('invalid_request', { detail: 'The form broke off' })

const sizeOf = (piece: FormPiece) => (typeof piece === 'symbol' ? 0 : piece.length)

/** The form's owner, and the account on which its held bytes count. */
export interface FormOwner {
  readonly memory: MemoryBudget
  readonly customerId: string
}

/** A client's form, read no faster than a node takes it. */
export class FormBody extends CountedKeeper implements UpstreamForm {
  fault: Problem | null = null
  private pieces: FormPiece[] = []
  private received = 0
  private ownHeld = 0
  private ended = false
  private opened = false
  private closed = false
  private readonly startedMs = performance.now()

  private constructor(
    private readonly reader: ReadableStreamDefaultReader<Uint8Array>,
    private readonly filter: FormFilter,
    readonly contentType: string,
    { memory, customerId }: FormOwner,
  ) {
    super(memory, customerId)
  }

  /** Throws for a faulty form before a byte is read. */
  static of({ headers, body }: Request, rules: FormRules, owner: FormOwner): FormBody {
    const contentType = headers.get('content-type') ?? ''
    const boundary = boundaryOf(contentType)
    if (boundary === null || body === null) {
      throw new Problem('unsupported_media_type', { detail: 'The body must be a form (multipart/form-data)' })
    }
    if (Number(headers.get('content-length') ?? 0) > formBytesMax) throw tooLarge()
    // Some servers do not know quotes.
    const sent = `multipart/form-data; boundary=${/^[\w'+.-]+$/.test(boundary) ? boundary : `"${boundary}"`}`
    return new FormBody(body.getReader(), new FormFilter(boundary, rules), sent, owner)
  }

  /** Resolves with the name of the model; holds the bytes before it. */
  async model(): Promise<string> {
    while (!this.ended && (this.filter.model === null || this.received <= keptBytesMax)) await this.read()
    if (this.filter.model === null) {
      throw new Problem('invalid_request', { param: 'model', detail: 'model: the form names no model' })
    }
    return this.filter.model
  }

  private get kept(): boolean {
    return this.ended && this.received <= keptBytesMax
  }

  get spent(): boolean {
    return this.opened && !this.kept
  }

  open(model: string): ReturnType<UpstreamForm['open']> {
    this.opened = true
    const name = Buffer.from(model)
    if (!this.kept) return { length: null, next: () => this.next(name) }
    const pieces = [...this.pieces]
    const length = pieces.reduce((sum, piece) => sum + (piece === modelPlace ? name.length : piece.length), 0)
    return { length, next: async () => bytesOf(pieces.shift(), name) }
  }

  /** The reader needs no more of it. */
  close(): void {
    this.closed = true
    this.ownHeld = 0
    this.dropKept()
    this.pieces = []
    this.reader.cancel().catch(() => {})
  }

  private async next(name: Buffer): Promise<Uint8Array | null> {
    while (this.pieces.length === 0 && !this.ended) await this.read()
    const piece = this.pieces.shift()
    if (piece !== undefined) this.hold(-sizeOf(piece))
    return bytesOf(piece, name)
  }

  private async read(): Promise<void> {
    try {
      await this.readOn()
    } catch (error) {
      this.fault = error instanceof Problem ? error : brokeOff()
      throw this.fault
    }
  }

  private async readOn(): Promise<void> {
    const { done, value } = await within(readMsMax, this.reader.read()).catch((error: unknown) => {
      throw error instanceof NoAnswer ? tooSlow() : error
    })
    // What had been read already would be held for ever.
    if (this.closed) throw this.fault ?? brokeOff()
    if (done) {
      this.filter.end()
      this.ended = true
    } else {
      this.received += value.length
      if (this.received > formBytesMax) throw tooLarge()
      if (!this.opened) this.refuseSlow(performance.now() - this.startedMs)
      this.filter.push(value)
    }
    for (const piece of this.filter.out.splice(0)) {
      this.hold(sizeOf(piece))
      this.pieces.push(piece)
    }
  }

  private refuseSlow(sinceMs: number): void {
    const least = Math.max(0, (sinceMs - graceMs) / secondMs) * bytesPerSecondMin
    if (sinceMs >= modelMsMax || this.received < least) throw tooSlow()
  }

  private hold(bytes: number): void {
    this.ownHeld += bytes
    if (!this.keeps(this.ownHeld)) throw this.fault ?? brokeOff()
  }

  protected override endForMemory(refusal: Problem): void {
    this.fault = refusal
    this.close()
  }
}

const bytesOf = (piece: FormPiece | undefined, model: Buffer): Uint8Array | null =>
  piece === undefined ? null : piece === modelPlace ? model : piece
