import { type Clock, systemClock } from './clock.ts'

/** Thrown when an answer did not come in time. The caller no longer waits for it. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer'
  constructor() {
    super('no answer in time')
  }
}

/**
 * A query that was sent just as its connection ended may never settle (postgres.js 3.4.9, seen): what only one
 * conversation at a time may do must not wait for such a one for ever.
 */
export async function within<T>(ms: number, answer: Promise<T>, clock: Clock = systemClock): Promise<T> {
  let cancel = () => {}
  const late = new Promise<never>((_, reject) => {
    cancel = clock.after(ms, () => reject(new NoAnswer()), true)
  })
  try {
    return await Promise.race([answer, late])
  } finally {
    cancel()
  }
}

/** Looks every `everyMs` until it holds, for at most `ms`. Resolves with whether it does. */
export async function holdsWithin(ms: number, everyMs: number, holds: () => boolean): Promise<boolean> {
  for (const untilMs = performance.now() + ms; performance.now() < untilMs; await Bun.sleep(everyMs)) {
    if (holds()) return true
  }
  return holds()
}

/** Waits until the work has ended, well or not, but no longer than this. */
export async function waitAtMost(ms: number, work: Promise<unknown>, clock: Clock = systemClock): Promise<void> {
  await within(ms, work, clock).catch(() => {})
}
