import { message } from './zmtp.ts'
import { type Endpoint, openZmtp } from './zmtp-socket.ts'

/** A batch of events and its place among those of its server. */
export interface Batch {
  readonly seq: number
  readonly payload: Uint8Array
}

/** A server keeps 10,000 batches unless it is told otherwise. */
const replayedMax = 65_536
const replayMs = 10_000
const seqBytes = 8

/** The place that eight bytes name; null where they name none, as those behind the last batch of a replay. */
export function seqOf(bytes: Uint8Array | undefined): number | null {
  if (bytes?.length !== seqBytes) return null
  const seq = new DataView(bytes.buffer, bytes.byteOffset, seqBytes).getBigInt64(0)
  return seq < 0n || seq > BigInt(Number.MAX_SAFE_INTEGER) ? null : Number(seq)
}

function asked(from: number): Uint8Array {
  const bytes = Buffer.alloc(seqBytes)
  bytes.writeBigUInt64BE(BigInt(from))
  // What a request socket sends: an empty frame, then the request.
  return message(Buffer.alloc(0), bytes)
}

/**
 * Asks a server for its batches from a place on. `onBatch`: each of them, in their order. `onEnd`: all have come, or it failed.
 * What is returned ends it without a word.
 */
export function askReplay(
  endpoint: Endpoint,
  from: number,
  { onBatch, onEnd }: { readonly onBatch: (batch: Batch) => void; readonly onEnd: (whole: boolean) => void },
): () => void {
  let replayed = 0
  let isOver = false
  const over = (whole: boolean) => {
    if (isOver) return
    isOver = true
    clearTimeout(late)
    close()
    onEnd(whole)
  }
  const late = setTimeout(() => over(false), replayMs)
  late.unref()
  const close = openZmtp({
    endpoint,
    socketType: 'DEALER',
    onReady: (send) => send(asked(from)),
    onMessage: ([, place, payload]) => {
      if (isOver) return
      const seq = seqOf(place)
      if (seq === null || payload === undefined) over(seq === null && place?.every((byte) => byte === 0xff) === true)
      else if (++replayed > replayedMax) over(false)
      else onBatch({ seq, payload })
    },
    onEnd: () => over(false),
  })
  return () => {
    isOver = true
    clearTimeout(late)
    close()
  }
}
