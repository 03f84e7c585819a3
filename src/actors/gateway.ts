import { callableHost } from '../host/own-addresses.ts'
import { failureName, type Log } from '../log.ts'
import { createAddressHash } from './audit/address-hash.ts'
import { checkChains } from './audit/audit-check.ts'
import { createConsolePage } from './console/console-page.ts'
import { createStatecharts } from './console/statecharts.ts'
import { type Actors, chainOf, createActors } from './gateway-actors.ts'
import type { GatewayHandle, GatewayParts, RunningGateway } from './gateway-handle.ts'

/** `/readyz` waits no longer for the first answers of nodes, ms. */
const probingMsMax = 5_000
/** Streams may send their last event for so long, ms. */
const lastEventMs = 500

/** Everything below HTTP: made, started, and stopped in the reverse order. */
export async function startGateway(parts: GatewayParts): Promise<RunningGateway> {
  const actors = createActors(parts, await chainOf(parts))
  await startActors(actors)
  return { ...handleOf(parts, actors), ...lifeOf(parts, actors) }
}

function observe({ metrics, router, receipts, audit, jobs, ledger, settlement, agents: { dialIn } }: Actors): void {
  metrics.observe({
    nodes: () => router.counts().nodes,
    inFlight: () => router.counts().inFlight,
    inFlightByNode: () => router.counts().inFlightByNode,
    nodeName: (nodeId) => router.nodeName(nodeId),
    queued: () => router.counts().queued,
    receiptsWritten: () => receipts.written(),
    receiptsDropped: () => receipts.dropped(),
    jobs: () => jobs.openByStatus(),
    jobsRunning: () => jobs.running(),
    jobClaims: () => jobs.claims(),
    ledger: () => ledger.state(),
    tunnels: () => dialIn.counts(),
    hellosRefused: () => dialIn.tunnelDoor.refused(),
    accessEventsWritten: () => audit.writer.written(),
    accessEventsRefused: () => audit.writer.dropped(),
    auditHeadLost: () => audit.headLost,
    payoutBatches: () => settlement.counts(),
  })
}

async function startActors(actors: Actors): Promise<void> {
  observe(actors)
  await actors.audit.start()
  await actors.auditPurge.start()
  await actors.requests.start()
  await actors.feed.start()
  await actors.poolFeed.start()
  await actors.access.start()
  await actors.limits.start()
  await actors.agents.start(actors.router, actors.poolFeed)
  actors.ledger.start()
  actors.idempotency.start()
  await actors.settlement.start()
  actors.traffic.start()
}

/** What the machine itself runs is found, then every node is asked once. */
async function fillPool({ localNodes, poolFeed, router }: Actors): Promise<void> {
  await localNodes.discover()
  await localNodes.start()
  await poolFeed.start()
  await router.whenServing()
  // What was registered a moment ago came after the first rows: it is asked once, too.
  const fresh = router.nodes().filter(({ state }) => state === 'enrolled')
  await Promise.all(fresh.map(({ nodeId }) => router.pollNow(nodeId)))
}

async function stopActors(actors: Actors, log: Log): Promise<void> {
  // Before the pool: what they run is let go and another gateway may take it at once.
  await actors.jobs.stop()
  await actors.webhooks.stop()
  await actors.settlement.stop()
  actors.idempotency.stop()
  await actors.localNodes.stop()
  actors.poolFeed.stop()
  await actors.agents.stop()
  await actors.router.stop()
  await actors.receipts.stop().catch((error: unknown) => log.error('receipts_left', { failure: failureName(error) }))
  await actors.requests
    .stop()
    .catch((error: unknown) => log.error('request_records_left', { failure: failureName(error) }))
  await actors.ledger.stop()
  await actors.auditPurge.stop()
  await actors.audit.stop().catch((error: unknown) => log.error('access_events_left', { failure: failureName(error) }))
  await actors.limits.stop()
  await actors.access.stop()
  await actors.feed.stop()
  await actors.tracing?.stop()
}

function handleOf({ config, log, database: { db }, auditKeys }: GatewayParts, actors: Actors): GatewayHandle {
  const { agents, decisions, health, listener } = actors
  return {
    ...actors,
    config,
    db,
    log,
    checkAuditChains: () => checkChains(db, auditKeys),
    enrollment: agents.enrollment,
    verifyNodeKey: agents.keyVerifier(actors.router),
    agentBundle: agents.bundle,
    routerKeys: agents.routerKeys,
    dialIn: agents.dialIn,
    nodeProofs: agents.proofs,
    statecharts: createStatecharts(),
    consolePage: createConsolePage(),
    explain: decisions.explain,
    baseUrl: () =>
      config.SVC_PUBLIC_URL?.replace(/\/+$/, '') ?? `http://${hostOf(callableHost(config.SVC_HOST))}:${listener.port}`,
    hashAddress: createAddressHash(auditKeys[0] ?? ''),
    health: health.ask,
  }
}

type Life = Omit<RunningGateway, keyof GatewayHandle>

function lifeOf({ log }: GatewayParts, actors: Actors): Life {
  const { health, jobs, webhooks, consoles, traffic, agents, chat, mixtures, listener } = actors
  const endCalls = async () => {
    chat.abortAll()
    mixtures.abortAll()
    await waitUntil(() => chat.open === 0 && mixtures.open === 0, lastEventMs)
  }
  return {
    endCalls,
    listening: async (taken) => {
      listener.port = taken
      const patience = setTimeout(health.started, probingMsMax)
      await fillPool(actors).finally(() => clearTimeout(patience))
      health.started()
      await jobs.start()
      await webhooks.start()
    },
    beginStop: () => {
      health.beginStop()
      // They never end by themselves, and the stop waits for what runs.
      consoles.stop()
    },
    handOver: () => agents.dialIn.handOver(),
    endTunnels: () => agents.dialIn.endTunnels(),
    stop: async () => {
      consoles.stop()
      traffic.stop()
      await endCalls()
      await stopActors(actors, log)
    },
  }
}

const hostOf = (host: string) => (host.includes(':') ? `[${host}]` : host)

async function waitUntil(done: () => boolean, boundMs: number): Promise<void> {
  const until = performance.now() + boundMs
  while (!done() && performance.now() < until) await Bun.sleep(10)
}
