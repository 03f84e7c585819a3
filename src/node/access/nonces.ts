import { freshSeconds } from '../../protocol/signing/signatures.ts'

/** Enough for 1,000 requests a second over the 600 s that a nonce may be kept. It needs about 100 MB. */
const noncesMaxDefault = 1_000_000

/**
 * Used nonces, kept while their time stamp is fresh. In memory only: after a restart, a request of the last 300 s could
 * be replayed.
 */
export class NonceMemory {
  private readonly bySecond = new Map<number, Set<string>>()
  private held = 0
  private sweptAt = 0

  constructor(private readonly noncesMax = noncesMaxDefault) {}

  /**
   * Returns false if the nonce was already used with this time stamp, or if there is no room. `timestamp` is in Unix
   * seconds and must be fresh.
   */
  use(nonce: string, timestamp: number, nowMs: number): boolean {
    this.sweep(nowMs)
    const used = this.bySecond.get(timestamp)
    if (used?.has(nonce) === true || this.held >= this.noncesMax) return false
    if (used === undefined) this.bySecond.set(timestamp, new Set([nonce]))
    else used.add(nonce)
    this.held++
    return true
  }

  get size(): number {
    return this.held
  }

  private sweep(nowMs: number): void {
    const second = Math.floor(nowMs / 1_000)
    if (second === this.sweptAt) return
    this.sweptAt = second
    for (const [timestamp, nonces] of this.bySecond) {
      if (second - timestamp <= freshSeconds + 1) continue
      this.bySecond.delete(timestamp)
      this.held -= nonces.size
    }
  }
}
