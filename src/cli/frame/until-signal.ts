/** A terminal's Ctrl-C arrives twice: to the whole group, and once more through the launcher. */
const sameSignalMs = 1_000

/**
 * Resolves when the operator wants an end; a second wish, later, ends the process at once. `onHangUp`: what
 * SIGHUP means outside of a terminal, whose end it tells otherwise; null: the end as well.
 */
export function untilSignal(onHangUp: () => (() => Promise<void>) | null = () => null): Promise<void> {
  return new Promise((resolve) => {
    let firstMs: number | null = null
    const onSignal = () => {
      firstMs ??= performance.now()
      if (performance.now() - firstMs > sameSignalMs) process.exit(1)
      resolve()
    }
    const inTerminal = process.stdin.isTTY || process.stdout.isTTY
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, onSignal)
    process.on('SIGHUP', () => {
      const instead = inTerminal || firstMs !== null ? null : onHangUp()
      if (instead === null) onSignal()
      else void instead()
    })
  })
}
