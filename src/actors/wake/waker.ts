import type { Database } from '../../db/client.ts'
import { claimPacket, storeWakePause } from '../../db/queries/pool/sleeping.ts'
import { type Loop, loop } from '../../host/loop.ts'
import { magicPacket, type PacketTarget, sendMagicPacket } from '../../host/magic-packet.ts'
import type { NodeId } from '../../ids.ts'
import { failureName, type Log } from '../../log.ts'
import { shareNetwork } from '../../machines/sleep/networks.ts'
import { probeBytesMax } from '../../polling/runtime-probe.ts'
import { nodeWakePath } from '../../protocol/wire/nodes/agent.ts'
import { macsMax, type WakeOrder } from '../../protocol/wire/nodes/power.ts'
import { isoTime, secondMs } from '../../time.ts'
import type { Sealing } from '../accounts/sealing.ts'
import type { PoolNode } from '../pool/nodes/pool-node.ts'
import type { PoolRouter } from '../pool/pool-router.ts'

export interface WakerOptions {
  readonly router: Pick<PoolRouter, 'pooled' | 'nodesOf' | 'transport' | 'hinted'>
  readonly db: Database
  readonly log: Log
  readonly sealing: Pick<Sealing, 'open'>
  /** Where packets go from here. */
  readonly targets: () => readonly PacketTarget[]
  /** Between two packets for one node, by all gateways together, ms. Tests wait less. */
  readonly everyMs?: number
}

/** Between two packets for one node (§39), ms. */
const everyMsDefault = 2 * secondMs
/** A gateway whose turn comes a little early takes it. */
const gapShare = 0.9
/** Awake agents that send one packet. */
const helpersMax = 3
const orderMs = 5 * secondMs

/** Somebody waits for the node. */
interface Waking {
  readonly sending: Loop
  waiting: number
}

/** Wakes sleeping nodes by magic packets, from here and by awake agents of the same network, while anybody waits for them. */
export class Waker {
  private readonly waking = new Map<NodeId, Waking>()
  private stopped = false

  constructor(private readonly options: WakerOptions) {}

  /** A request waits for the node: a packet at once, and again while it sleeps. Call the result exactly once, at the end of the wait. */
  hold(nodeId: NodeId): () => void {
    const waking = this.waking.get(nodeId) ?? this.begin(nodeId)
    waking.waiting++
    this.options.router.pooled(nodeId)?.wake.begun(Date.now())
    return () => {
      if (--waking.waiting > 0) return
      this.waking.delete(nodeId)
      void waking.sending.stop()
      const node = this.options.router.pooled(nodeId)
      // A computer that is on its way up is measured until it serves.
      if (node?.state === 'asleep') node.wake.givenUp()
    }
  }

  /** A request has waited for the node as long as it may: until a pause is over, no other wakes it. */
  failed(nodeId: NodeId): void {
    const { router, log, db } = this.options
    const node = router.pooled(nodeId)
    const nowMs = Date.now()
    if (node?.state !== 'asleep' || !node.wake.failed(nowMs)) return
    const { inVain, pausedUntilMs } = node.wake
    log.warn('node_not_woken', { node_id: nodeId, in_vain: inVain, until: isoTime(pausedUntilMs) })
    const vain = { count: inVain, until: isoTime(pausedUntilMs) }
    // Without the database the others find it out by themselves.
    storeWakePause(db, nodeId, vain, isoTime(nowMs)).catch((error: unknown) =>
      log.warn('sleep_not_stored', { node_id: nodeId, failure: failureName(error) }),
    )
  }

  stop(): void {
    this.stopped = true
    for (const { sending } of this.waking.values()) void sending.stop()
    this.waking.clear()
  }

  private begin(nodeId: NodeId): Waking {
    const { everyMs = everyMsDefault, log } = this.options
    const sending = loop({
      everyMs,
      run: (given) => this.send(nodeId, everyMs * gapShare, given),
      onFailure: (error) => log.warn('wake_not_sent', { node_id: nodeId, failure: failureName(error) }),
    })
    const waking = { sending, waiting: 0 }
    this.waking.set(nodeId, waking)
    if (!this.stopped) void sending.startNow()
    return waking
  }

  /** One packet, unless another gateway has just sent one. While the database is away each gateway sends its own. */
  private async send(nodeId: NodeId, gapMs: number, given: AbortSignal): Promise<void> {
    const { router, db, log, targets } = this.options
    const node = router.pooled(nodeId)
    // Somebody waits for its first answer: the usual time between two polls would be added to it.
    router.hinted(nodeId)
    const macs = node?.row.macs ?? []
    if (node?.state !== 'asleep' || macs.length === 0) return
    if (!(await claimPacket(db, nodeId, gapMs).catch(() => true))) return
    // The request that waited has ended meanwhile, or the node is awake.
    if (given.aborted || node.state !== 'asleep') return
    const secureOn = this.secretOf(node)
    const orders = macs.slice(0, macsMax).map((mac) => ({ mac, ...(secureOn === null ? {} : { secure_on: secureOn }) }))
    const sent = orders.map(({ mac }) => sendMagicPacket(magicPacket(mac, secureOn), targets()))
    const asked = helpersFor(node, router.nodesOf(node.row.customerId)).map((helper) => this.ask(helper, orders, given))
    const failed = (await Promise.allSettled([...sent, ...asked])).filter((each) => each.status === 'rejected')
    log.info('wake_sent', { node_id: nodeId, ways: sent.length + asked.length - failed.length, failed: failed.length })
    if (failed.length === sent.length + asked.length) throw failed[0]?.reason
  }

  private secretOf({ row: { wakeSecretSealed: sealed } }: PoolNode): string | null {
    return sealed === null ? null : this.options.sealing.open('node_wake_secret', sealed)
  }

  private async ask({ row: { nodeId } }: PoolNode, orders: readonly WakeOrder[], given: AbortSignal): Promise<void> {
    const transport = this.options.router.transport(nodeId)
    if (transport === null) throw new Error('the helper has left')
    for (const order of orders) {
      const response = await transport.fetch(nodeWakePath, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(order),
        signal: AbortSignal.any([given, AbortSignal.timeout(orderMs)]),
      })
      await response.text(probeBytesMax)
      if (response.status !== 202) throw new Error('the helper would not')
    }
  }
}

const isUp = ({ state }: PoolNode) => ['ready', 'live', 'draining', 'yielding'].includes(state)

/** A node without an agent is where its URL leads. */
const placesOf = ({ row: { networks, url } }: PoolNode): readonly string[] =>
  networks ?? (url === null ? [] : [new URL(url).hostname])

/** Awake agents of the same owner in the same network, whose owner lets them send packets. */
function helpersFor(sleeper: PoolNode, nodes: Iterable<PoolNode>): readonly PoolNode[] {
  const places = placesOf(sleeper)
  const helpers: PoolNode[] = []
  for (const node of nodes) {
    const { power } = node
    if (node === sleeper || !isUp(node) || power?.wakes_others !== true) continue
    if (shareNetwork(places, power.networks ?? [])) helpers.push(node)
    if (helpers.length === helpersMax) break
  }
  return helpers
}
