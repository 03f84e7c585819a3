import type { NodeId } from '../../ids.ts'
import type { CancelSignal } from '../../transport/call-signal.ts'
import { type NodeRequest, type NodeResponse, type NodeTransport, TransportError } from '../../transport/transport.ts'
import type { Peers } from './peer-transport.ts'
import { movingMs, type TunnelOwner, type TunnelOwners } from './tunnel-owners.ts'
import { createTunnelTransport } from './tunnel-transport.ts'
import type { Tunnels } from './tunnels.ts'

export interface DialledWays {
  readonly tunnels: Tunnels
  readonly owners: TunnelOwners
  readonly peers: Peers
}

/**
 * The way to a node that dials in: its tunnel here, else the gateway that holds it, else none (`closed`). Looked up for
 * each request.
 */
export function createDialledTransport(nodeId: NodeId, ways: DialledWays): NodeTransport {
  const transport = new DialledTransport(nodeId, ways)
  return { fetch: (path, init) => transport.fetch(path, init), close: () => transport.close() }
}

class DialledTransport {
  private readonly here: NodeTransport
  /** The gateway that no longer had the tunnel and after which none appeared. Requests do not wait for it again. */
  private gone: string | null = null

  constructor(
    private readonly nodeId: NodeId,
    private readonly ways: DialledWays,
  ) {
    this.here = createTunnelTransport(() => ways.tunnels.session(nodeId))
  }

  close(): void {
    this.here.close()
  }

  async fetch(path: string, init: NodeRequest): Promise<NodeResponse> {
    const { tunnels, owners } = this.ways
    const untilMs = performance.now() + movingMs
    let tried: TunnelOwner | null = null
    for (;;) {
      if (tunnels.session(this.nodeId) !== null) return this.here.fetch(path, init)
      const owner = owners.owner(this.nodeId)
      if (owner !== null && owner.replicaId !== tried?.replicaId) {
        const answer = await this.byPeer(owner, path, init)
        if (answer !== null) return answer
        tried = owner
        await owners.refresh()
        continue
      }
      const hasLeft = tunnels.leaving(this.nodeId) || owners.isMoving(this.nodeId)
      const moving = owner === null ? hasLeft : owner.replicaId !== this.gone
      const leftMs = untilMs - performance.now()
      if (!moving || leftMs <= 0) {
        this.gone = owner?.replicaId ?? null
        throw new TransportError('closed')
      }
      await this.nextMove(leftMs, init.signal)
      if (init.signal.aborted) throw new TransportError('aborted')
    }
  }

  /** null if the request was not sent. */
  private async byPeer(owner: TunnelOwner, path: string, init: NodeRequest): Promise<NodeResponse | null> {
    const answer = await this.ways.peers.fetch(owner, this.nodeId, path, init)
    if (answer !== null) this.gone = null
    return answer
  }

  /** Waits until the node opens a tunnel, the time is over, or the request has ended. */
  private nextMove(boundMs: number, signal: CancelSignal): Promise<void> {
    const { tunnels, owners } = this.ways
    return new Promise((resolve) => {
      const ends: (() => void)[] = []
      const done = () => {
        for (const end of ends.splice(0)) end()
        resolve()
      }
      const timer = setTimeout(done, boundMs)
      const moved = (nodeId: NodeId) => {
        if (nodeId === this.nodeId) done()
      }
      ends.push(
        () => clearTimeout(timer),
        tunnels.subscribe({ onOpen: moved, onClose: moved }),
        owners.subscribe(moved),
        () => signal.removeEventListener('abort', done),
      )
      signal.addEventListener('abort', done)
    })
  }
}
