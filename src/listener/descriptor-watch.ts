import { type Clock, systemClock } from '../clock.ts'
import type { Descriptors } from '../host/descriptors.ts'
import { loop } from '../host/loop.ts'
import { atMostEvery } from '../host/outage.ts'
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

interface DescriptorWatchOptions {
  readonly server: () => SheddingServer | null
  readonly log: Pick<Log, 'warn'>
  readonly clock?: Clock
}

/**
 * Looks at the descriptors while a server listens. When they are scarce, connections without a request are closed at
 * once and then every 5 s, and the log says so once a minute. Returns the end of it.
 */
export function watchDescriptors(
  descriptors: Descriptors,
  { server, log, clock = systemClock }: DescriptorWatchOptions,
): () => void {
  if (!Number.isFinite(descriptors.max)) return () => {}
  const shed = atMostEvery(shedMs, () => server()?.closeIdleConnections(), clock)
  const warn = () => log.warn('descriptors_low', { used: descriptors.used(), max: descriptors.max })
  const report = atMostEvery(minuteMs, warn, clock)
  const look = () => {
    descriptors.look()
    if (!descriptors.scarce) return
    shed()
    report()
  }
  const looking = loop({ pauseMs: (tookMs) => Math.max(lookMs, tookMs * costPart), run: look, clock })
  void looking.startNow()
  return () => {
    void looking.stop()
    descriptors.close()
  }
}
