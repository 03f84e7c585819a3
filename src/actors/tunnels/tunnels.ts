import { waitAtMost } from '../../deadline.ts'
import { type Loop, loop } from '../../host/loop.ts'
import type { NodeId } from '../../ids.ts'
import type { Log } from '../../log.ts'
import { pingEveryMs, silentMsMax, type TunnelEnd, type TunnelSession } from '../../protocol/tunnel/tunnel-session.ts'
import { GatewayTunnel, type SocketHandler } from './tunnel-socket.ts'

/** Hears what happens to the tunnels of this gateway. */
export interface TunnelListener {
  /** A tunnel was authenticated and is now the newest of its node. */
  onOpen?(nodeId: NodeId): void
  /** The node has no more tunnel here. */
  onClose?(nodeId: NodeId, end: TunnelEnd): void
  /** One JSON object that the node has sent by itself. It is not signed, so it is only a reason to ask the node. */
  onStatus?(nodeId: NodeId, text: string): void
}

/** The newest tunnel, and an older one whose streams are ending. */
const tunnelsPerNodeMax = 2

export interface TunnelsOptions {
  readonly log: Log
  readonly pingEveryMs?: number
  readonly silentMsMax?: number
}

/** The tunnels that end at this gateway (§22). */
export class Tunnels {
  /** The newest tunnel is the last one. */
  private readonly byNode = new Map<NodeId, GatewayTunnel[]>()
  private readonly listeners = new Set<TunnelListener>()
  private readonly beating: Loop
  private stopping = false
  private left: (() => void) | null = null

  constructor(private readonly options: TunnelsOptions) {
    this.beating = loop({ everyMs: options.pingEveryMs ?? pingEveryMs, run: () => this.beat() })
  }

  /**
   * The socket handler for a node that has just proved its identity. null while the gateway stops and accepts no
   * tunnels.
   */
  accept(nodeId: NodeId): SocketHandler | null {
    if (this.stopping) return null
    const { handler } = new GatewayTunnel({
      opened: (tunnel) => this.opened(nodeId, tunnel),
      status: (text) => this.tell((listener) => listener.onStatus?.(nodeId, text)),
      ending: (tunnel) => this.ending(nodeId, tunnel),
      closed: (tunnel, end) => this.closed(nodeId, tunnel, end),
    })
    return handler
  }

  /** The tunnel for new requests to the node: the newest one that accepts any. */
  session(nodeId: NodeId): TunnelSession | null {
    const newest = this.byNode.get(nodeId)?.at(-1)
    return newest?.session.accepting === true ? newest.session : null
  }

  /** True if the node has a tunnel here and asked for no more requests on it, because it moves to another gateway. */
  leaving(nodeId: NodeId): boolean {
    return this.byNode.get(nodeId)?.at(-1)?.session.accepting === false
  }

  subscribe(listener: TunnelListener): () => void {
    this.listeners.add(listener)
    return () => void this.listeners.delete(listener)
  }

  /** Closes every tunnel of the node at once. */
  close(nodeId: NodeId, end: 'revoked'): void {
    for (const { session } of [...(this.byNode.get(nodeId) ?? [])]) session.close(end)
  }

  counts(): { readonly tunnels: number; readonly streams: number } {
    const all = [...this.byNode.values()].flat()
    return { tunnels: all.length, streams: all.reduce((sum, { session }) => sum + session.openStreams, 0) }
  }

  start(): void {
    this.beating.start()
  }

  /**
   * Accepts no new tunnels, asks every node to dial another gateway, and waits at most `waitMs` until all have done so.
   */
  async handOver(waitMs: number): Promise<void> {
    this.stopping = true
    for (const tunnel of this.all()) tunnel.session.goAway()
    const { promise, resolve } = Promise.withResolvers<void>()
    this.left = resolve
    this.checkLeft()
    await waitAtMost(waitMs, promise)
  }

  stop(): void {
    this.stopping = true
    void this.beating.stop()
    for (const tunnel of this.all()) tunnel.session.close('stopped')
  }

  private all(): readonly GatewayTunnel[] {
    return [...this.byNode.values()].flat()
  }

  private opened(nodeId: NodeId, tunnel: GatewayTunnel): void {
    // The node was authenticated before the stop began and connected after it.
    if (this.stopping) return tunnel.session.close('stopped')
    const tunnels = this.byNode.get(nodeId) ?? []
    this.byNode.set(nodeId, tunnels)
    tunnels.push(tunnel)
    while (tunnels.length > tunnelsPerNodeMax) tunnels[0]?.session.close('superseded')
    const older = tunnels.length > 1 ? tunnels[0] : undefined
    if (older?.session.openStreams === 0) older.session.close('superseded')
    this.options.log.info('tunnel_opened', { node_id: nodeId })
    this.tell((listener) => listener.onOpen?.(nodeId))
  }

  /** A tunnel that accepts no more requests closes with its last stream. */
  private ending(nodeId: NodeId, tunnel: GatewayTunnel): void {
    const { session } = tunnel
    if (!session.accepting) this.checkLeft()
    if (session.openStreams > 0) return
    if (!session.accepting) session.close('finished')
    else if (this.byNode.get(nodeId)?.at(-1) !== tunnel) session.close('superseded')
  }

  private closed(nodeId: NodeId, tunnel: GatewayTunnel, end: TunnelEnd): void {
    const tunnels = this.byNode.get(nodeId)
    const at = tunnels?.indexOf(tunnel) ?? -1
    if (tunnels === undefined || at === -1) return
    tunnels.splice(at, 1)
    this.options.log.info('tunnel_closed', { node_id: nodeId, code: end })
    if (tunnels.length === 0) {
      this.byNode.delete(nodeId)
      this.tell((listener) => listener.onClose?.(nodeId, end))
    }
    this.checkLeft()
  }

  private checkLeft(): void {
    if (this.left !== null && this.all().every(({ session }) => !session.accepting)) this.left()
  }

  private tell(what: (listener: TunnelListener) => void): void {
    for (const listener of this.listeners) what(listener)
  }

  private beat(): void {
    const now = performance.now()
    for (const tunnel of this.all()) {
      if (now - tunnel.lastMessageAtMs <= (this.options.silentMsMax ?? silentMsMax)) tunnel.sendPing()
      else {
        tunnel.session.close('silent')
        tunnel.terminate()
      }
    }
  }
}
