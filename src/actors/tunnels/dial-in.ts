import type { OpenDatabase } from '../../db/client.ts'
import { type NodeId, ulid } from '../../ids.ts'
import type { Log } from '../../log.ts'
import type { Config } from '../../settings/config.ts'
import type { NodeTransport } from '../../transport/transport.ts'
import type { NodeProofs } from '../agents/node-proofs.ts'
import type { ChangeFeed } from '../durable/change-feed.ts'
import { createDialledTransport } from './dialled-transport.ts'
import { createPeerDoor, type PeerDoor } from './peer-door.ts'
import { createPeers } from './peer-transport.ts'
import { createTunnelDoor, type TunnelDoor } from './tunnel-door.ts'
import { movingMs, TunnelOwners } from './tunnel-owners.ts'
import { Tunnels } from './tunnels.ts'

/** Hears of nodes that dial in, here or at another gateway of the pool. */
export interface DialInListener {
  /** A tunnel was authenticated and is open, so the node should be asked at once. */
  onOpen?(nodeId: NodeId): void
  /** No reachable gateway holds a tunnel of the node any more. */
  onClose?(nodeId: NodeId): void
  /**
   * A node that is connected here reports a change. The message is not signed, so it is only a reason to ask the node.
   */
  onStatus?(nodeId: NodeId): void
}

/** Nodes that dial in: their tunnels, the gateways that hold them, and the way to each node (§§22, 26). */
export interface DialIn {
  readonly tunnelDoor: TunnelDoor
  readonly peerDoor: PeerDoor
  /** A transport that looks for the way to the node at each request. */
  transport(nodeId: NodeId): NodeTransport
  /** The way that a request would take now, or null if there is none. */
  way(nodeId: NodeId): 'tunnel' | 'peer' | null
  subscribe(listener: DialInListener): () => void
  /** Ends the tunnels of a revoked node here at once. */
  cut(nodeId: NodeId): void
  counts(): { readonly tunnels: number; readonly streams: number }
  start(): Promise<void>
  /** Call it before the HTTP server stops. Nodes move to the other gateways, if there are any. */
  handOver(): Promise<void>
  endTunnels(): void
  stop(): Promise<void>
}

export interface DialInOptions {
  readonly config: Config
  readonly database: OpenDatabase
  readonly feed: ChangeFeed
  readonly log: Log
  readonly proofs: NodeProofs
  /** Ids of the router's keys, newest first. */
  readonly routerKids: readonly string[]
}

export function createDialIn({ config, database, feed, log, proofs, routerKids }: DialInOptions): DialIn {
  const { SVC_CLUSTER_SECRET: secret, SVC_PEER_URL: peerUrl } = config
  const { db } = database
  const replicaId = ulid()
  const tunnels = new Tunnels({ log })
  const owners = new TunnelOwners({ db, feed, log, tunnels, replicaId, peerUrl })
  const peers = createPeers({ secret, connectTimeoutMs: config.SVC_CONNECT_TIMEOUT_MS })
  const way = (nodeId: NodeId) =>
    tunnels.session(nodeId) !== null ? 'tunnel' : owners.owner(nodeId) !== null ? 'peer' : null
  return {
    tunnelDoor: createTunnelDoor({ tunnels, check: (proof) => proofs.check(proof), routerKids }),
    peerDoor: createPeerDoor({ secret, replicaId, tunnels }),
    transport: (nodeId) => createDialledTransport(nodeId, { tunnels, owners, peers }),
    way,
    subscribe: (listener) => {
      const closed = (nodeId: NodeId) => {
        if (way(nodeId) === null) listener.onClose?.(nodeId)
      }
      const ends = [
        tunnels.subscribe({
          onOpen: (nodeId) => listener.onOpen?.(nodeId),
          // One that has left in good order counts as there until it had time to be elsewhere: its owners tell then.
          onClose: (nodeId, end) => {
            if (end !== 'finished' || peerUrl === null) closed(nodeId)
          },
          onStatus: (nodeId) => listener.onStatus?.(nodeId),
        }),
        owners.subscribe((nodeId, held) => (held ? listener.onOpen?.(nodeId) : closed(nodeId))),
      ]
      return () => {
        for (const end of ends) end()
      }
    },
    cut: (nodeId) => tunnels.close(nodeId, 'revoked'),
    counts: () => tunnels.counts(),
    start: () => {
      tunnels.start()
      return owners.start()
    },
    handOver: () => tunnels.handOver(secret === null || peerUrl === null ? 0 : movingMs),
    endTunnels: () => tunnels.stop(),
    stop: async () => {
      tunnels.stop()
      await owners.stop()
      peers.close()
    },
  }
}
