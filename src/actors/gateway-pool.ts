import { broadcastTargets, packetTarget } from '../host/magic-packet.ts'
import { doorsOf } from '../settings/listen-address.ts'
import type { AccessDirectory } from './accounts/access-directory.ts'
import type { Sealing } from './accounts/sealing.ts'
import { ServerStates } from './agents/server-states.ts'
import type { AuditLog } from './audit/audit-log.ts'
import type { ChangeFeed } from './durable/change-feed.ts'
import { createLocalNodes } from './finding/local-nodes.ts'
import { createAgents } from './gateway-agents.ts'
import type { GatewayParts } from './gateway-handle.ts'
import { ModelLogs } from './loading/model-logs.ts'
import { ModelWishes } from './loading/model-wishes.ts'
import { OwnModels } from './loading/own-models.ts'
import { Rouser } from './loading/rouser.ts'
import { ServerCommands } from './loading/server-commands.ts'
import { SharedPlacements } from './placement/shared-placements.ts'
import { ModelDemands } from './planning/model-demands.ts'
import { SharedPolls } from './polls/shared-polls.ts'
import { createPoolAdmin } from './pool/pool-admin.ts'
import { createPoolFeed } from './pool/pool-feed.ts'
import { PoolRouter } from './pool/pool-router.ts'
import { CopyPace } from './pulls/copy-pace.ts'
import { ModelCopies } from './pulls/model-copies.ts'
import { NodePulls } from './pulls/node-pulls.ts'
import { askLeaderOf } from './siblings/leaders-polls.ts'
import type { Siblings } from './siblings/siblings.ts'
import { createSleepBook } from './sleep/sleep-book.ts'
import type { OwnInspector } from './telemetry/inspect.ts'
import { NodeSleeps } from './wake/node-sleeps.ts'
import { Waker } from './wake/waker.ts'

interface Kept {
  readonly feed: ChangeFeed
  readonly changedHere: ChangeFeed['changedHere']
  readonly access: AccessDirectory
  readonly audit: AuditLog
  readonly sealing: Sealing
  readonly siblings: Siblings
}

/** Nodes, however they are reached. */
export function createPool(
  parts: GatewayParts,
  { inspector: { inspect, reported } }: { readonly inspector: OwnInspector },
  { feed, changedHere, access, audit, sealing, siblings }: Kept,
  listener: { readonly port: number },
) {
  const { config, log, database, peppers, routerKeys } = parts
  const { db } = database
  const pool = createPoolAdmin({ db, trail: audit, sealing, changedHere })
  const openSecret = (sealed: Uint8Array) => sealing.open('node_api_key', sealed)
  const agents = createAgents({ config, database, feed, log, access, trail: audit, peppers, routerKeys })
  const random = parts.world?.random ?? Math.random
  const placements = new SharedPlacements({ ...database, log, onPlacement: (notice) => router.placedElsewhere(notice) })
  const placed = placements.tell.bind(placements)
  const serverStates = new ServerStates(reported)
  const polls = sharedPollsOf(parts, siblings)
  const router: PoolRouter = new PoolRouter({
    ...(polls === undefined ? {} : { polls }),
    serverStates,
    config,
    db,
    log,
    openSecret,
    agents: agents.access,
    placed,
    sleepBook: createSleepBook({ db, log, sealing }),
    inspect,
    random,
  })
  const waker = new Waker({ router, db, log, sealing, targets: () => packetTargets(config) })
  router.subscribe(({ owners }) => serverStates.keep(owners))
  const poolFeed = createPoolFeed(router, db, feed, log)
  const servers = new ServerCommands({ router, log })
  const rouser = new Rouser({ servers, router })
  const demands = new ModelDemands(() => router.table())
  const modelWishes = new ModelWishes({ db, trail: audit, pool, router, servers })
  const modelLogs = new ModelLogs({ db, trail: audit, pool, router, log })
  const ownModels = new OwnModels(servers)
  const nodeSleeps = new NodeSleeps({ config, db, trail: audit, pool, router, waker, changedHere })
  const nodePulls = new NodePulls({ db, trail: audit, pool, router })
  const pace = new CopyPace({
    bytesPerSecond: config.SVC_COPY_BYTES_PER_SECOND,
    isBusy: () => router.counts().inFlight > 0,
  })
  const modelCopies = new ModelCopies({ db, trail: audit, pool, router, sealing, proofs: agents.proofs, pace })
  const localNodes = createLocalNodes({
    config,
    pool,
    feed,
    router,
    log,
    ownDoors: () => doorsOf(config, listener.port),
  })
  return {
    pool,
    agents,
    placements,
    polls,
    router,
    waker,
    rouser,
    nodeSleeps,
    nodePulls,
    modelCopies,
    poolFeed,
    localNodes,
    demands,
    modelWishes,
    modelLogs,
    ownModels,
  }
}

/** undefined: this process is alone on its computer. */
const sharedPollsOf = ({ config, log, place }: GatewayParts, siblings: Siblings): SharedPolls | undefined =>
  place === undefined ? undefined : new SharedPolls({ config, log, leads: place.leads, ask: askLeaderOf(siblings) })

const packetTargets = ({ SVC_WAKE_ADDRESSES: named }: GatewayParts['config']) =>
  named.length === 0 ? broadcastTargets() : named.flatMap((address) => packetTarget(address) ?? [])
