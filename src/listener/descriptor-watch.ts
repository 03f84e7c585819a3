import type { Descriptors } from '../host/descriptors.ts'
import type { Log } from '../log.ts'
import { minuteMs } from '../time.ts'

/** Bun's server, as far as its connections go. */
export interface SheddingServer {
  /** Closes the connections that wait for a further request. */
  closeIdleConnections(): number
}

const lookMs = 250
/** If counting is slow, it may cost at most this share of the time. */
const costPart = 50
/** How often idle connections are closed while descriptors are scarce. */
const shedMs = 5_000

/**
 * Looks at the descriptors while a server listens. When they are scarce, connections without a request are closed at
 * once and then every 5 s, and the log says so once a minute. Returns the end of it.
 */
export function watchDescriptors(
  descriptors: Descriptors,
  { server, log }: { readonly server: () => SheddingServer | null; readonly log: Pick<Log, 'warn'> },
): () => void {
  if (!Number.isFinite(descriptors.max)) return () => {}
  let timer: ReturnType<typeof setTimeout>
  let shedAtMs = Number.NEGATIVE_INFINITY
  let loggedAtMs = Number.NEGATIVE_INFINITY
  const look = () => {
    const beganMs = performance.now()
    descriptors.look()
    if (descriptors.scarce && beganMs - shedAtMs >= shedMs) {
      shedAtMs = beganMs
      server()?.closeIdleConnections()
    }
    if (descriptors.scarce && beganMs - loggedAtMs >= minuteMs) {
      loggedAtMs = beganMs
      log.warn('descriptors_low', { used: descriptors.used(), max: descriptors.max })
    }
    timer = setTimeout(look, Math.max(lookMs, (performance.now() - beganMs) * costPart))
    timer.unref()
  }
  look()
  return () => {
    clearTimeout(timer)
    descriptors.close()
  }
}
