import { type Grant, textBytes, uncountedBytesMax } from '../../host/budget.ts'
import type { CsvOwner } from './csv.ts'

/** UTF-16 units of a text that are encoded for a client at once. */
const pieceUnits = 64 * 1024
const encoder = new TextEncoder()

const isLeadSurrogate = (code: number) => code >= 0xd800 && code <= 0xdbff

/** Where the piece from `from` on ends: never between the halves of one character. */
function pieceEnd(text: string, from: number): number {
  const end = Math.min(text.length, from + pieceUnits)
  return end < text.length && isLeadSurrogate(text.charCodeAt(end - 1)) ? end - 1 : end
}

/**
 * A large text that goes out as fast as its client reads it. The grant is closed when the client has taken the last piece or
 * is gone, so that what waits for slow clients counts as well.
 */
export function keptBody(text: string, kept: Grant, left: AbortSignal): ReadableStream<Uint8Array> {
  let at = 0
  let rest = text
  const drop = () => {
    rest = ''
    kept.close()
  }
  // Of a client that left before the answer was there, the stream is never asked for anything.
  if (left.aborted) drop()
  else left.addEventListener('abort', drop, { once: true })
  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (at < rest.length) {
          const end = pieceEnd(rest, at)
          controller.enqueue(encoder.encode(rest.slice(at, end)))
          at = end
          return
        }
        left.removeEventListener('abort', drop)
        drop()
        controller.close()
      },
      cancel: drop,
    },
    { highWaterMark: 0 },
  )
}

/** A text that counts for its owner where it is large. Throws where there is no memory for it. */
export function countedBody(
  text: string,
  { memory, keeperId }: CsvOwner,
  left: AbortSignal,
): string | ReadableStream<Uint8Array> {
  const bytes = textBytes(text.length)
  if (bytes <= uncountedBytesMax) return text
  const kept = memory.open(keeperId, null)
  if (!kept.hold(bytes)) throw memory.refusal()
  kept.settle(bytes)
  return keptBody(text, kept, left)
}
