import { insertStart } from '../db/queries/audit/change-marks.ts'
import { holdsWithin, waitAtMost, within } from '../deadline.ts'
import { ServerLooks } from '../discovery/server-looks.ts'
import { failureName, type Log } from '../log.ts'
import { doorsOf } from '../settings/listen-address.ts'
import { createAddressHash } from './audit/address-hash.ts'
import { checkChains } from './audit/audit-check.ts'
import { builtConsole, bundleConsole, createPage } from './console/console-page.ts'
import { builtManual, bundleManual } from './console/manual.ts'
import { createStatecharts } from './console/statecharts.ts'
import { builtVerifyPage, bundleVerifyPage } from './console/verify-page.ts'
import { type Actors, createActors } from './gateway-actors.ts'
import type { GatewayHandle, GatewayParts, RunningGateway } from './gateway-handle.ts'
import { evmChainOf } from './gateway-money.ts'
import { hardwareOf, placesOf } from './pool/views/pool-counts.ts'

/** How long `/readyz` waits for the first answers of nodes, ms. */
const probingMsMax = 5_000
/** How long the row of the start may take, ms, and how many of them are kept. */
const startMsMax = 2_000
const startsKeptMax = 1_000
/** How long streams may take to send their last event, ms. */
const lastEventMs = 500
const endLookMs = 10

/** The same of every gateway that a process starts, and made once. */
const pages = {
  consolePage: createPage(builtConsole, bundleConsole),
  verifyPage: createPage(builtVerifyPage, bundleVerifyPage),
  manual: createPage(builtManual, bundleManual),
}

/** Everything below HTTP: made, started, and stopped in the reverse order. */
export async function startGateway(parts: GatewayParts): Promise<RunningGateway> {
  const actors = createActors(parts, await evmChainOf(parts))
  await startActors(actors)
  return { ...handleOf(parts, actors), ...lifeOf(parts, actors) }
}

function observe({
  metrics,
  router,
  placements,
  planner,
  receipts,
  audit,
  jobs,
  ledger,
  settlement,
  memory,
  sequencer,
  agents: { dialIn },
}: Actors): void {
  metrics.observe({
    nodes: () => router.counts().nodes,
    inFlight: () => router.counts().inFlight,
    inFlightByNode: () => router.counts().inFlightByNode,
    nodeName: (nodeId) => router.nodeName(nodeId),
    claimsAtBound: () => router.counts().claimsAtBound,
    queued: () => router.counts().queued,
    memory: () => memory,
    hardware: () => hardwareOf(router.nodes(), (nodeId) => router.nodeName(nodeId)),
    places: () => placesOf(router.nodes(), (nodeId) => router.nodeName(nodeId)),
    placements: () => placements.counts,
    wantedReplicas: () => planner.wantedReplicas(),
    receiptsWritten: () => receipts.written(),
    receiptsDropped: () => receipts.dropped(),
    receiptsForged: () => sequencer.forged(),
    logStopped: () => sequencer.stopped(),
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
  // Who polls for all processes is known by the time when the nodes are.
  actors.polls?.start(actors.router.heard)
  await actors.audit.start()
  await actors.auditPurge.start()
  await actors.requests.start()
  await actors.feed.start()
  await actors.poolFeed.start()
  await actors.placements.start()
  await actors.access.start()
  await actors.limits.start()
  await actors.agents.start(actors.router, actors.poolFeed)
  await actors.timed.start()
  await actors.sequencer.start()
  actors.cosigning.start()
  actors.ledger.start()
  actors.idempotency.start()
  await actors.settlement.start()
  actors.traffic.start()
  actors.alerts.start()
  actors.planner.start()
}

/** How long a start waits for nodes that have not answered by then, ms: some may never. */
const freshPollsMs = 2_000

/** Discovers the model servers on this computer where this process leads, then asks every node once. */
async function fillPool({ localNodes, planner, poolFeed, router }: Actors, leads: boolean): Promise<void> {
  if (leads) {
    planner.lead()
    await localNodes.lead()
  }
  await poolFeed.start()
  await router.whenServing()
  // A node that was registered a moment ago was not among the first rows, so it is asked now.
  const fresh = router.nodes().filter(({ state }) => state === 'enrolled')
  await waitAtMost(freshPollsMs, Promise.all(fresh.map(({ nodeId }) => router.pollNow(nodeId))))
}

async function stopActors(actors: Actors, log: Log): Promise<void> {
  // The jobs stop before the pool. They give up their leases, so that another gateway may take the jobs at once.
  await actors.jobs.stop()
  await actors.webhooks.stop()
  await actors.settlement.stop()
  actors.idempotency.stop()
  await actors.planner.stop()
  await actors.alerts.stop()
  actors.waker.stop()
  await actors.localNodes.stop()
  actors.poolFeed.stop()
  actors.polls?.stop()
  await actors.cosigning.stop()
  await actors.agents.stop()
  await actors.placements.stop()
  await actors.router.stop()
  await actors.receipts.stop().catch((error: unknown) => log.error('receipts_left', { failure: failureName(error) }))
  await actors.requests
    .stop()
    .catch((error: unknown) => log.error('request_records_left', { failure: failureName(error) }))
  await actors.ledger.stop()
  await actors.sequencer.stop()
  await actors.auditPurge.stop()
  await actors.audit.stop().catch((error: unknown) => log.error('access_events_left', { failure: failureName(error) }))
  await actors.limits.stop()
  await actors.access.stop()
  await actors.feed.stop()
  actors.siblings.close()
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
    joining: agents.joining,
    serverLooks: new ServerLooks(),
    verifyNodeKey: agents.keyVerifier(actors.router),
    agentBundle: agents.bundle,
    routerKeys: agents.routerKeys,
    routerIdentity: agents.router,
    dialIn: agents.dialIn,
    nodeProofs: agents.proofs,
    payees: agents.payees,
    nodeAlarms: agents.nodeAlarms,
    statecharts: createStatecharts(),
    ...pages,
    explain: (requestId) => decisions.explain(requestId),
    leaving: () => listener.leaving,
    doors: () => doorsOf(config, listener.port),
    hashAddress: createAddressHash(auditKeys[0] ?? ''),
    health: health.ask,
  }
}

type Life = Omit<RunningGateway, keyof GatewayHandle>

function lifeOf({ log, place, world, database: { db } }: GatewayParts, actors: Actors): Life {
  const { health, jobs, webhooks, consoles, traffic, agents, chat, mixtures, listener, localNodes, planner, polls } =
    actors
  const endCalls = async () => {
    chat.abortAll()
    mixtures.abortAll()
    await holdsWithin(lastEventMs, endLookMs, () => chat.open === 0 && mixtures.open === 0)
  }
  return {
    endCalls,
    listening: async (taken) => {
      listener.port = taken
      if (place?.leads ?? true) {
        const startedAt = new Date(world?.now?.() ?? Date.now())
        await within(startMsMax, insertStart(db, startedAt, startsKeptMax)).catch((error: unknown) =>
          log.warn('start_not_kept', { failure: failureName(error) }),
        )
      }
      const patience = setTimeout(health.started, probingMsMax)
      await fillPool(actors, place?.leads ?? true).finally(() => clearTimeout(patience))
      health.started()
      await jobs.start()
      await webhooks.start()
    },
    listensOn: (taken) => {
      listener.port = taken
    },
    lead: () => {
      planner.lead()
      polls?.lead()
      return localNodes.lead()
    },
    follow: () => {
      planner.follow()
      polls?.follow()
      return localNodes.follow()
    },
    beginLeave: () => {
      listener.leaving = true
    },
    beginStop: () => health.beginStop(),
    endConsoles: () => consoles.stop(),
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
