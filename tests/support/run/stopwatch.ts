/**
 * Returns how many milliseconds have passed since this call. It is for what must take at least so long, and for what
 * more time allows more of. It is for no upper bound: a busy machine breaks each of them, and bench/ measures.
 */
export function stopwatch(): () => number {
  const beganMs = performance.now()
  return () => performance.now() - beganMs
}
