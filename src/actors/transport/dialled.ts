import type { NodeId } from '../../ids.ts'
import type { TunnelOwners } from '../tunnel-owners.ts'
import type { Tunnels } from '../tunnels.ts'
import type { Peers } from './peer.ts'
import { type NodeTransport, TransportError } from './transport.ts'
import { createTunnelTransport } from './tunnel.ts'

export interface DialledWays {
  readonly tunnels: Tunnels
  readonly owners: TunnelOwners
  readonly peers: Peers
}

/**
 * The way to a node that dials in: its tunnel here, else the gateway that holds it, else none (`closed`). Looked up for
 * each request.
 */
export function createDialledTransport(nodeId: NodeId, { tunnels, owners, peers }: DialledWays): NodeTransport {
  const here = createTunnelTransport(() => tunnels.session(nodeId))
  return {
    fetch: async (path, init) => {
      if (tunnels.session(nodeId) !== null) return here.fetch(path, init)
      const owner = owners.owner(nodeId)
      const answer = owner === null ? null : await peers.fetch(owner, nodeId, path, init)
      if (answer !== null) return answer
      // It has just moved, or is about to be known: the rows say where it is. The request has gone nowhere yet.
      await owners.refresh()
      if (init.signal.aborted) throw new TransportError('aborted')
      if (tunnels.session(nodeId) !== null) return here.fetch(path, init)
      const next = owners.owner(nodeId)
      if (next === null || next.replicaId === owner?.replicaId) throw new TransportError('closed')
      const second = await peers.fetch(next, nodeId, path, init)
      if (second === null) throw new TransportError('closed')
      return second
    },
    close: () => here.close(),
  }
}
