import { type Clock, systemClock } from '../../clock.ts'
import type { Database } from '../../db/client.ts'
import {
  claimTunnel,
  dropOldTunnelOwners,
  releaseTunnel,
  renewTunnels,
  type TunnelOwnerRow,
  tunnelOwnerRows,
} from '../../db/queries/pool/tunnels.ts'
import { type Loop, loop } from '../../host/loop.ts'
import type { NodeId } from '../../ids.ts'
import { failureName, type Log } from '../../log.ts'
import type { TunnelEnd } from '../../protocol/tunnel/tunnel-session.ts'
import { secondMs } from '../../time.ts'
import type { ChangeFeed } from '../durable/change-feed.ts'
import { sharedRun } from '../durable/shared-run.ts'
import type { Tunnels } from './tunnels.ts'

/** Another gateway that holds a node's tunnel. */
export interface TunnelOwner {
  readonly replicaId: string
  readonly peerUrl: string
}

export interface TunnelOwnersOptions {
  readonly db: Database
  readonly feed: ChangeFeed
  readonly log: Log
  readonly tunnels: Tunnels
  readonly replicaId: string
  /** The URL by which the others reach this gateway. null if it is the only one, which forwards nothing. */
  readonly peerUrl: string | null
  readonly leaseMs?: number
  readonly clock?: Clock
}

const leaseMsDefault = 30 * secondMs
/** How often leases are renewed and read within a lease. */
const beatsPerLease = 3
/**
 * How long a node that leaves one gateway in good order may take until its tunnel at another one is claimed: it may dial twice, on a
 * busy computer. So long its requests wait, and count it as there.
 */
export const movingMs = 5 * secondMs

/** A node with a tunnel here. `epoch` is null until it was written. */
interface Claim {
  readonly nodeId: NodeId
  epoch: number | null
}

interface Held {
  readonly row: TunnelOwnerRow
  /** A time of `performance.now()`, because clocks of other computers may differ. */
  readonly untilMs: number
}

/** Which gateway on one PostgreSQL holds which tunnel (§26). */
export class TunnelOwners {
  private elsewhere = new Map<NodeId, Held>()
  private readonly own = new Map<NodeId, Claim>()
  private readonly listeners = new Set<(nodeId: NodeId, held: boolean) => void>()
  /** Writes run one after the other, so that a release does not overtake its claim. */
  private writing: Promise<unknown> = Promise.resolve()
  private readonly ends: (() => void)[] = []
  /** Nodes that have left this gateway in good order and most likely move, each with its claim and what cancels its release. */
  private readonly moving = new Map<NodeId, { readonly claim: Claim; readonly cancel: () => void }>()
  private readonly leaseMs: number
  private readonly clock: Clock
  private readonly beating: Loop
  /** Reads the rows again. It does not reject: without the database the known rows stay. */
  readonly refresh = sharedRun(() => this.read())

  constructor(private readonly options: TunnelOwnersOptions) {
    const { leaseMs = leaseMsDefault, clock = systemClock } = options
    this.leaseMs = leaseMs
    this.clock = clock
    this.beating = loop({ everyMs: leaseMs / beatsPerLease, run: () => this.beat(), clock })
  }

  /** Another gateway that can be reached and holds the node's tunnel, from memory. */
  owner(nodeId: NodeId): TunnelOwner | null {
    const held = this.elsewhere.get(nodeId)
    if (held === undefined || performance.now() > held.untilMs || held.row.peerUrl === null) return null
    return { replicaId: held.row.replicaId, peerUrl: held.row.peerUrl }
  }

  /** Whether the node left this gateway in good order, and may still be on its way to another one. */
  isMoving(nodeId: NodeId): boolean {
    return this.moving.has(nodeId)
  }

  /** Calls back when another gateway's tunnel of a node comes or goes, and when a node that left this one has come to none. */
  subscribe(changed: (nodeId: NodeId, held: boolean) => void): () => void {
    this.listeners.add(changed)
    return () => void this.listeners.delete(changed)
  }

  async start(): Promise<void> {
    const { feed, tunnels } = this.options
    this.ends.push(
      tunnels.subscribe({
        onOpen: (nodeId) => this.opened(nodeId),
        onClose: (nodeId, end) => this.closed(nodeId, end),
      }),
      feed.subscribe('tunnel_owners', () => this.refresh()),
    )
    this.beating.start()
    await this.refresh()
  }

  async stop(): Promise<void> {
    for (const end of this.ends.splice(0)) end()
    void this.beating.stop()
    for (const nodeId of [...this.own.keys()]) this.closed(nodeId, 'stopped')
    for (const { cancel } of this.moving.values()) cancel()
    await this.writing
  }

  private async read(): Promise<void> {
    const sentMs = performance.now()
    try {
      const rows = await tunnelOwnerRows(this.options.db)
      this.take(rows.filter(({ replicaId }) => replicaId !== this.options.replicaId).map((row) => held(row, sentMs)))
    } catch (error) {
      this.options.log.warn('tunnel_owners_not_read', { failure: failureName(error) })
    }
  }

  private take(found: readonly Held[]): void {
    const before = this.elsewhere
    this.elsewhere = new Map(found.map((one) => [one.row.nodeId, one]))
    for (const [nodeId, { row }] of this.elsewhere) {
      if (before.get(nodeId)?.row.epoch === row.epoch) continue
      this.arrived(nodeId)
      this.tell(nodeId, true)
    }
    for (const nodeId of before.keys()) if (!this.elsewhere.has(nodeId)) this.tell(nodeId, false)
  }

  private tell(nodeId: NodeId, there: boolean): void {
    for (const listener of this.listeners) listener(nodeId, there)
  }

  /** The claim of its newest tunnel takes the place of the one that it left here, unless that tunnel ends before it is written. */
  private arrived(nodeId: NodeId): void {
    const left = this.moving.get(nodeId)
    if (left === undefined) return
    left.cancel()
    this.moving.delete(nodeId)
    this.write(async () => {
      if (!this.own.has(nodeId)) await this.released(left.claim)
    })
  }

  private opened(nodeId: NodeId): void {
    const claim: Claim = { nodeId, epoch: null }
    this.own.set(nodeId, claim)
    this.write(() => this.claim(claim))
    this.arrived(nodeId)
  }

  private async claim(claim: Claim): Promise<void> {
    const { nodeId } = claim
    if (this.own.get(nodeId) !== claim || claim.epoch !== null) return
    const { db, replicaId, peerUrl } = this.options
    claim.epoch = await claimTunnel(db, { nodeId, replicaId, peerUrl }, this.leaseMs)
  }

  private closed(nodeId: NodeId, end: TunnelEnd): void {
    const claim = this.own.get(nodeId)
    this.own.delete(nodeId)
    if (claim === undefined) return
    // One that had requests left here may have had a tunnel elsewhere for long.
    const isElsewhere = (this.elsewhere.get(nodeId)?.row.epoch ?? 0) > (claim.epoch ?? Number.POSITIVE_INFINITY)
    if (end !== 'finished' || isElsewhere || this.options.peerUrl === null) return this.release(claim)
    // It has most likely moved, and the next holder's claim takes the place of this one: without any row in between, the
    // node would count as gone.
    const release = () => {
      this.moving.delete(nodeId)
      this.release(claim)
      if (this.owner(nodeId) === null) this.tell(nodeId, false)
    }
    this.moving.set(nodeId, { claim, cancel: this.clock.after(movingMs, release, true) })
  }

  /** A claim that cannot be released ends with its lease. */
  private release(claim: Claim): void {
    this.write(() => this.released(claim))
  }

  private async released({ nodeId, epoch }: Claim): Promise<void> {
    if (epoch !== null) await releaseTunnel(this.options.db, nodeId, epoch)
  }

  private write(work: () => Promise<void>): void {
    this.writing = this.writing.then(work).catch((error: unknown) => {
      this.options.log.warn('tunnel_owner_not_written', { failure: failureName(error) })
    })
  }

  /** Waits for nothing: leases are renewed also while a read does not answer. */
  private beat(): void {
    const { db, replicaId } = this.options
    this.write(async () => {
      for (const claim of [...this.own.values()]) await this.claim(claim)
      await renewTunnels(db, replicaId, [...this.own.keys()], this.leaseMs)
      await dropOldTunnelOwners(db)
    })
    void this.refresh()
  }
}

const held = (row: TunnelOwnerRow, sentMs: number): Held => ({ row, untilMs: sentMs + row.leftMs })
