/** Thrown when an answer did not come in time. Nobody waits for it any more. */
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
export async function within<T>(ms: number, answer: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new NoAnswer()), ms)
  })
  try {
    return await Promise.race([answer, late])
  } finally {
    clearTimeout(timer)
  }
}
