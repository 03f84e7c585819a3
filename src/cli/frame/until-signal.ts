/** A terminal sends Ctrl-C to the whole process group, and the launcher passes it on, so it arrives twice. */
const sameSignalMs = 1_000

/** Resolves at the first signal. A later second signal ends the process at once. */
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
