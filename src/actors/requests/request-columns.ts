import type { RequestReader } from '../../db/queries/requests/request-groups.ts'
import type { FailedTry, RequestRecord } from '../../db/queries/requests/request-records.ts'
import { idMs } from '../../ids.ts'
import { type FinishedRequest, kindFields, type RequestKind, RequestKinds } from './request-kinds.ts'

const numberFields = [
  'tries',
  'queueMs',
  'loadMs',
  'sentMs',
  'ttftMs',
  'durationMs',
  'promptTokens',
  'completionTokens',
  'cachePercent',
] as const
type NumberField = (typeof numberFields)[number]

/** What does not fit into the columns, as of few requests. */
type Odd = Pick<RequestRecord, 'requestId' | 'costWei' | 'receiptHash' | 'failedTries'>

/** `req_` and a ULID. */
const idBytes = 30
/** `0x` and 64 hex digits. */
const hashBytes = 66
const costWeiMax = 2n ** 63n - 1n
/** Of 32 bits; as milliseconds, 24 days. */
const wholeMax = 2 ** 31 - 1
const triesMax = 32_767
/** In a column: null. */
const none = -1

const whole = (value: number, most = wholeMax) => Math.min(most, Math.max(0, Math.round(value)))
const wholeOrNone = (value: number | null | undefined) => (value == null ? none : whole(value))

const failedTryOf = (failed: FailedTry): FailedTry => ({
  ...failed,
  started_ms: whole(failed.started_ms),
  duration_ms: whole(failed.duration_ms),
})

function oddOf({ requestId, record }: FinishedRequest): Odd | null {
  const { costWei, receiptHash, failedTries } = record
  const fits =
    failedTries === null &&
    requestId.length === idBytes &&
    (receiptHash === null || receiptHash.length === hashBytes) &&
    (costWei === null || costWei <= costWeiMax)
  if (fits) return null
  return {
    requestId,
    costWei: costWei === null ? null : costWei.toString(),
    receiptHash,
    failedTries: failedTries === null ? null : failedTries.map(failedTryOf),
  }
}

/**
 * Finished requests as numbers and bytes, a place for each. As objects, which live until they are written and overwritten, they
 * gave the collector more to do than all the rest of a request (decision 24).
 */
export class RequestColumns {
  private readonly numbers: Readonly<Record<NumberField, Int32Array>>
  private readonly costs: BigInt64Array
  private readonly ids: Buffer
  private readonly hashes: Buffer
  private readonly hashed: Uint8Array
  private readonly kinds: (RequestKind | null)[]
  private readonly odd: (Odd | null)[]
  private readonly known = new RequestKinds()
  /** What is read here of one place. */
  readonly read: RequestReader<number>

  constructor(readonly size: number) {
    const columns = numberFields.map((field) => [field, new Int32Array(size)] as const)
    this.numbers = Object.fromEntries(columns) as Record<NumberField, Int32Array>
    this.costs = new BigInt64Array(size)
    this.ids = Buffer.alloc(size * idBytes)
    this.hashes = Buffer.alloc(size * hashBytes)
    this.hashed = new Uint8Array(size)
    this.kinds = new Array(size).fill(null)
    this.odd = new Array(size).fill(null)
    this.read = this.reader()
  }

  put(at: number, finished: FinishedRequest): void {
    const { record } = finished
    const { numbers } = this
    numbers.tries[at] = whole(record.attempts, triesMax)
    numbers.queueMs[at] = whole(record.queueMs)
    numbers.loadMs[at] = wholeOrNone(record.loadMs)
    numbers.sentMs[at] = wholeOrNone(record.sentMs)
    numbers.ttftMs[at] = wholeOrNone(record.ttftMs)
    numbers.durationMs[at] = whole(record.latencyMs)
    numbers.promptTokens[at] = wholeOrNone(record.usage?.prompt_tokens)
    numbers.completionTokens[at] = wholeOrNone(record.usage?.completion_tokens)
    numbers.cachePercent[at] = wholeOrNone(record.cachePercent)
    const kind = this.known.of(finished)
    const odd = oddOf(finished)
    // An array that is written to is walked by the next collection, all of it.
    if (this.kinds[at] !== kind) this.kinds[at] = kind
    if (this.odd[at] !== odd) this.odd[at] = odd
    if (odd === null) this.putBytes(at, finished)
  }

  private putBytes(at: number, { requestId, record }: FinishedRequest): void {
    const { costWei, receiptHash } = record
    this.costs[at] = costWei ?? -1n
    this.ids.latin1Write(requestId, at * idBytes, idBytes)
    this.hashed[at] = receiptHash === null ? 0 : 1
    if (receiptHash !== null) this.hashes.latin1Write(receiptHash, at * hashBytes, hashBytes)
  }

  /** null: nothing was put there. */
  record(at: number): RequestRecord | null {
    const kind = this.kinds[at]
    if (kind == null) return null
    return {
      ...kind,
      requestId: this.idAt(at),
      at: new Date(idMs(this.idAt(at))),
      tries: this.numberAt('tries', at) ?? 0,
      queueMs: this.numberAt('queueMs', at) ?? 0,
      loadMs: this.numberAt('loadMs', at),
      sentMs: this.numberAt('sentMs', at),
      ttftMs: this.numberAt('ttftMs', at),
      durationMs: this.numberAt('durationMs', at) ?? 0,
      promptTokens: this.numberAt('promptTokens', at),
      completionTokens: this.numberAt('completionTokens', at),
      cachePercent: this.numberAt('cachePercent', at),
      costWei: this.costAt(at),
      receiptHash: this.hashAt(at),
      failedTries: this.odd[at]?.failedTries ?? null,
    }
  }

  /** The place of a request; null: the columns do not hold it. */
  find(requestId: string): number | null {
    const at = this.odd.findIndex((odd) => odd?.requestId === requestId)
    if (at !== -1) return at
    if (requestId.length !== idBytes) return null
    const { ids } = this
    for (
      let from = ids.indexOf(requestId, 0, 'latin1');
      from !== -1;
      from = ids.indexOf(requestId, from + 1, 'latin1')
    ) {
      const place = from / idBytes
      if (Number.isInteger(place) && this.kinds[place] != null && this.odd[place] == null) return place
    }
    return null
  }

  private reader(): RequestReader<number> {
    const number = (field: NumberField) => (at: number) => this.numberAt(field, at)
    const shared = (field: keyof RequestKind) => (at: number) => this.kinds[at]?.[field] ?? null
    const numbers = numberFields.map((field) => [field, number(field)])
    const kinds = kindFields.map((field) => [field, shared(field)])
    const rest: Omit<RequestReader<number>, NumberField | keyof RequestKind> = {
      atMs: (at) => idMs(this.idAt(at)),
      requestId: (at) => this.idAt(at),
      costWei: (at) => this.costAt(at),
      receiptHash: (at) => this.hashAt(at),
      failedTries: (at) => {
        const tries = this.odd[at]?.failedTries ?? null
        return tries === null ? null : JSON.stringify(tries)
      },
    }
    return { ...rest, ...Object.fromEntries([...numbers, ...kinds]) } as RequestReader<number>
  }

  private numberAt(field: NumberField, at: number): number | null {
    const value = this.numbers[field][at] ?? none
    return value === none ? null : value
  }

  private idAt(at: number): string {
    return this.odd[at]?.requestId ?? this.ids.latin1Slice(at * idBytes, (at + 1) * idBytes)
  }

  private hashAt(at: number): string | null {
    const odd = this.odd[at]
    if (odd != null) return odd.receiptHash
    return this.hashed[at] === 1 ? this.hashes.latin1Slice(at * hashBytes, (at + 1) * hashBytes) : null
  }

  private costAt(at: number): string | null {
    const odd = this.odd[at]
    if (odd != null) return odd.costWei
    const cost = this.costs[at] ?? -1n
    return cost < 0n ? null : cost.toString()
  }
}
