import { CallPlaces } from '../dialects/members/call-places.ts'
import { isObject } from '../json/json-object.ts'

const KiB = 1024
const MiB = 1024 * KiB

/**
 * Bounds of one answer of a node, in addition to its bytes (§27). A model's answer stays far below each of them;
 * without them a node can make the gateway write, and clients keep, many times what it has sent itself.
 */
export const toolCallsMax = 256
/** Times that an answer changes between reasoning, text and tool calls. */
const blockChangesMax = 4_096
/** More than a request can ask for. */
export const choicesMax = 128
/** Lines of a stream that are no JSON. */
export const skippedLinesMax = 1_024
/** An answer that is longer is read in one turn of the event loop and ended in another. */
export const longBytesMin = MiB

const outputFactor = 8
/** Of the 4 MiB that are free for every answer the error has a place that follows where they are used up. */
const outputBytesFree = 4 * MiB - 16 * KiB

/** How much of an answer may be written to the client for what its node has sent of it, bytes. */
export class OutputMeter {
  nodeBytes = 0
  private writtenBytes = 0

  onBytes(nodeBytes: number): void {
    this.nodeBytes += nodeBytes
  }

  wrote(bytes: number): void {
    this.writtenBytes += bytes
  }

  /** What may still be written behind `bytes` more; less than 0: these are too many. */
  bytesLeft(bytes: number): number {
    return outputFactor * this.nodeBytes + outputBytesFree - this.writtenBytes - bytes
  }
}

/** The parts of a chunk that dialects distinguish. */
export type Block = 'thought' | 'text' | 'calls'

/** Counts the parts of an answer, chunk by chunk. */
export class AnswerCount {
  private block: Block | null = null
  private changes = 0
  /** By choice; null: none has called. */
  private places: Map<number, CallPlaces> | null = null
  private calls = 0

  /** False: it is more than an answer may have. */
  enters(block: Block): boolean {
    if (block === this.block) return true
    if (this.block !== null) this.changes++
    this.block = block
    return this.changes <= blockChangesMax
  }

  isIn(block: Block): boolean {
    return block === this.block
  }

  /** The parts of calls of one chunk, each with the index of its call; null: these are more calls than an answer may have. */
  placed(choice: number, calls: readonly unknown[]): readonly unknown[] | null {
    if (calls.length > toolCallsMax) return null
    let places = this.places?.get(choice)
    const before = places?.count ?? 0
    let out: unknown[] | null = null
    for (let at = 0; at < calls.length; at++) {
      const call = calls[at]
      if (!isObject(call)) continue
      places ??= this.begin(choice)
      const placed = places.of(call)
      if (placed === call) continue
      out ??= [...calls]
      out[at] = placed
    }
    this.calls += (places?.count ?? 0) - before
    return this.calls <= toolCallsMax ? (out ?? calls) : null
  }

  /** Only for a choice that calls: a node may name any number of choices. */
  private begin(choice: number): CallPlaces {
    const places = new CallPlaces()
    this.places ??= new Map()
    this.places.set(choice, places)
    return places
  }
}
