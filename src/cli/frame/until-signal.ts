import { atLauncherEnd } from '../../host/launcher.ts'

/** A terminal sends Ctrl-C to the whole process group, and the launcher passes it on, so it arrives twice. */
const sameSignalMs = 1_000

/**
 * Resolves at the first signal. A later second signal ends the process at once. `onHangUp` says what SIGHUP means
 * outside of a terminal; null: it is a signal like the others.
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
    atLauncherEnd(() => {
      firstMs ??= performance.now()
      resolve()
    })
    process.on('SIGHUP', () => {
      const instead = inTerminal || firstMs !== null ? null : onHangUp()
      if (instead === null) onSignal()
      else void instead()
    })
  })
}
