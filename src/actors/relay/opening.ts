/** Until the status of a stream is certain: with its first chunk, or when that has been awaited for long enough. */
export class Opening {
  committed = false
  private atMs = Number.POSITIVE_INFINITY
  private waiting: { resolve(): void; reject(error: unknown): void } | null = null

  /** Resolves with the commit. `byMs`: `performance.now()` when the status waits no longer. */
  begin(byMs: number): Promise<void> {
    const opening = Promise.withResolvers<void>()
    this.waiting = opening
    this.atMs = byMs
    return opening.promise
  }

  /** The status waits no longer. */
  isDue(nowMs: number): boolean {
    return nowMs >= this.atMs
  }

  /** From here on the status is 200 and failures are events. */
  commit(): void {
    this.committed = true
    this.atMs = Number.POSITIVE_INFINITY
    this.waiting?.resolve()
    this.waiting = null
  }

  refuse(error: unknown): void {
    this.atMs = Number.POSITIVE_INFINITY
    this.waiting?.reject(error)
    this.waiting = null
  }
}
