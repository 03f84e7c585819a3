import { failureName, type Log } from '../../log.ts'
import type { RoutingTable } from '../../machines/rules/routing.ts'
import { discoverHere, loopbackUrl } from '../../polling/discover-here.ts'
import { type DemoRuntime, startDemoRuntime } from '../../runtimes/demo-server.ts'
import type { Config } from '../../settings/config.ts'
import type { ListenAddress } from '../../settings/listen-address.ts'
import { localCustomerId } from '../accounts/first-start.ts'
import type { ChangeFeed } from '../durable/change-feed.ts'
import { sameServer } from '../node-rows/node-checks.ts'
import type { NodeRecord, PoolAdmin } from '../pool/pool-admin.ts'
import type { PoolRouter } from '../pool/pool-router.ts'

export interface LocalNodesOptions {
  readonly config: Config
  readonly pool: PoolAdmin
  readonly feed: ChangeFeed
  readonly router: Pick<PoolRouter, 'subscribe'>
  readonly log: Log
  /** Where the gateway itself listens, which is never a runtime. */
  readonly ownDoors: () => readonly ListenAddress[]
}

/** Discovers model servers on the gateway's own computer, and runs the demo runtime until another node has had a model (§22). */
export interface LocalNodes {
  /**
   * Asks the known ports of loopback once and registers new model servers. Then it starts the demo runtime if it is needed,
   * and from then on starts and stops it as nodes come and go.
   */
  lead(): Promise<void>
  /** Another process of this computer leads from now on. A demo that runs here goes on until the stop. */
  follow(): void
  stop(): Promise<void>
}

const localNode = {
  customerId: localCustomerId,
  visibility: 'private',
  privacyClass: 'private',
  nodeClass: 'local',
} as const

export function createLocalNodes({ config, pool: admin, feed, router, log, ownDoors }: LocalNodesOptions): LocalNodes {
  // No admin asked for this: the gateway does it by itself.
  const pool = admin.by(null)
  let demo: DemoRuntime | null = null
  let demoNodeId: string | null = null
  let working: Promise<void> = Promise.resolve()
  let stopped = false
  let unsubscribe = () => {}

  async function register(port: number, kind: string): Promise<void> {
    const url = loopbackUrl(port)
    const known = await pool.nodes(localCustomerId)
    // A revoked node stays revoked, because the operator has removed it.
    if (known.some((node) => sameServer(node.url, url))) return
    await pool.registerRuntimeNode({ ...localNode, url, name: kind, origin: 'discovered' })
    // The log gets only the kind, because no log contains a node's address.
    log.info('runtime_discovered', { kind })
  }

  async function startDemo(rows: readonly NodeRecord[]): Promise<void> {
    demo ??= await startDemoRuntime()
    const { url } = demo
    const row = rows[0] ?? (await pool.registerRuntimeNode({ ...localNode, url, name: 'demo', origin: 'demo' }))
    demoNodeId = row.nodeId
    // The demo runtime has a new port after every start.
    if (row.url !== url) await pool.updateNode(row.nodeId, { url })
  }

  async function endDemo(rows: readonly NodeRecord[]): Promise<void> {
    for (const { nodeId } of rows) await pool.deleteNode(nodeId)
    await demo?.stop()
    demo = null
  }

  async function reconcile(): Promise<void> {
    try {
      const rows = await pool.nodes()
      const own = rows.filter(({ origin }) => origin === 'demo')
      // The operator has revoked the demo node. Its row says so, and it must not come back.
      const refused = own.some(({ adminState }) => adminState === 'revoked')
      const wanted = config.SVC_DEMO === 'always' || (config.SVC_DEMO === 'auto' && !(await pool.anyNodeServes()))
      if (wanted && !refused && !stopped) await startDemo(own)
      else await endDemo(refused ? [] : own)
    } catch (error) {
      log.warn('demo_runtime', { failure: failureName(error) })
    }
  }
  const reconcileSoon = (): Promise<void> => {
    working = working.then(reconcile)
    return working
  }

  /** Another node has its first model: what the welcome names answered until now. */
  const replaced = ({ routes }: RoutingTable) => {
    if (demo === null || config.SVC_DEMO !== 'auto') return
    if (routes.some(({ nodeId, ready }) => ready && nodeId !== demoNodeId)) void reconcileSoon()
  }

  async function find(): Promise<void> {
    if (!config.SVC_DISCOVER) return
    const found = await discoverHere(ownDoors().map(({ port }) => port))
    for (const { port, module } of found) {
      const { kind } = module
      // No single server keeps the gateway from starting, and another gateway may have registered it meanwhile.
      await register(port, kind).catch((error: unknown) => {
        log.warn('runtime_not_registered', { kind, failure: failureName(error) })
      })
    }
  }
  const follow = () => {
    unsubscribe()
    unsubscribe = () => {}
  }

  return {
    lead: async () => {
      await find()
      // The demo of another gateway is not ours. If this one is not to run a demo, it leaves such rows alone.
      if (config.SVC_DEMO === 'never' || stopped) return
      follow()
      const ends = [feed.subscribe('nodes', () => void reconcileSoon()), router.subscribe(replaced)]
      unsubscribe = () => {
        for (const end of ends) end()
      }
      await reconcileSoon()
    },
    follow,
    stop: async () => {
      stopped = true
      follow()
      await working
      await demo?.stop()
    },
  }
}
