/** A terminal's Ctrl-C arrives twice: to the whole group, and once more through the launcher. */
const sameSignalMs = 1_000

/** Resolves when the operator wants an end; a second wish, later, ends the process at once. */
export function untilSignal(): Promise<void> {
  return new Promise((resolve) => {
    let firstMs: number | null = null
    const onSignal = () => {
      firstMs ??= performance.now()
      if (performance.now() - firstMs > sameSignalMs) process.exit(1)
      resolve()
    }
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, onSignal)
  })
}
