/**
 * Something costly to make and the same for everybody: made at most once in `maxAgeMs`, one at a time. A failure is not
 * kept, and is everybody's who waited for it.
 */
export function createSnapshot<T>(
  maxAgeMs: number,
  make: () => Promise<T>,
  now: () => number = () => performance.now(),
): () => Promise<T> {
  let kept: { readonly atMs: number; readonly value: Promise<T> } | null = null
  return () => {
    const nowMs = now()
    if (kept === null || nowMs - kept.atMs >= maxAgeMs) {
      const made = { atMs: nowMs, value: make() }
      kept = made
      made.value.catch(() => {
        if (kept === made) kept = null
      })
    }
    return kept.value
  }
}
