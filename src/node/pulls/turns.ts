import { sleep } from '../../clock.ts'

/** Resolves when the next piece of a file may go; never rejects. */
export type Turn = (signal: AbortSignal) => Promise<void>

/** A piece of a file that is read, sent or written at once, bytes. */
export const pieceBytes = 64 * 1024
/** Between two looks whether somebody still waits for a first token, ms. */
const lookMs = 10
/** So long a piece waits for first tokens at most, ms: a file goes on at a quarter of a megabyte per second on a computer that never rests. */
const heldMsMax = 250

/** Files leave the network and the disk to those who wait for a first token here. `isAwaited`: somebody does. */
export function createTurn(isAwaited: () => boolean): Turn {
  return async (signal) => {
    for (let heldMs = 0; heldMs < heldMsMax && !signal.aborted && isAwaited(); heldMs += lookMs) {
      await sleep(lookMs, signal)
    }
  }
}

export const atOnce: Turn = () => Promise.resolve()
