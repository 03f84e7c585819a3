import { AlertWatch, wantedForAlerts } from './console/alert-watch.ts'
import { ConsoleFeed } from './console/console-feed.ts'
import { ConsoleSeats, OpenConsoles } from './console/console-seats.ts'
import { durableCharts } from './console/durable-charts.ts'
import { createTraffic } from './console/traffic.ts'
import type { GatewayParts, OwnFacts } from './gateway-handle.ts'
import type { SharedPolls } from './polls/shared-polls.ts'
import type { PoolRouter } from './pool/pool-router.ts'
import { liveNode } from './pool/views/live-node.ts'
import { loadsOf, withLoads } from './siblings/loads.ts'
import { createPooledInspector, movedSince } from './siblings/pooled-inspector.ts'
import { pooledReadings, readingsOnWire } from './siblings/pooled-readings.ts'
import { pooledTotals, totalsOnWire } from './siblings/pooled-totals.ts'
import type { Siblings } from './siblings/siblings.ts'
import type { OwnInspector } from './telemetry/inspect.ts'
import type { Metrics } from './telemetry/metrics.ts'

interface Watched {
  readonly inspector: OwnInspector
  readonly metrics: Metrics
}

/** What consoles look at, of this process and of its siblings (§33). */
export function createConsoles(
  { config, log, database, world }: GatewayParts,
  { inspector, metrics }: Watched,
  { router, polls, siblings }: { router: PoolRouter; polls: SharedPolls | undefined; siblings: Siblings },
) {
  const pooled = createPooledInspector(inspector, siblings)
  const live = () => router.nodes().map(liveNode)
  const loads = () => loadsOf(live())
  const durable = durableCharts(database.db)
  const resting = new Set(Object.keys(durable))
  const own: OwnFacts = {
    loads,
    moved: (sinceMs) => movedSince({ inspector, process: siblings.name, loads: loads(), durable: resting }, sinceMs),
    totals: async () => totalsOnWire(siblings.name, await metrics.totals()),
    readings: () => readingsOnWire(metrics, wantedForAlerts, siblings.index),
    polls: (since) => polls?.told(since) ?? null,
  }
  const traffic = createTraffic({ totals: pooledTotals(metrics.totals, siblings), log })
  const alerts = new AlertWatch({
    read: () => pooledReadings(metrics, wantedForAlerts, siblings),
    log,
    clock: world?.alertClock,
  })
  const nodes = () => withLoads(live(), pooled.loads())
  const consolesElsewhere = (token: string) => siblings.ask('consoles', { token }, OpenConsoles)
  return {
    own,
    traffic,
    alerts,
    consoles: new ConsoleFeed({ inspector: pooled, traffic, nodes, durable, log }),
    consoleSeats: new ConsoleSeats(config.SVC_CONSOLES_MAX, consolesElsewhere),
  }
}
