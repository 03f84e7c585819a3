import type { ServerWebSocket } from 'bun'
import { payloadBytesMax } from '../../protocol/tunnel/tunnel-frames.ts'
import { type TunnelEnd, TunnelSession, type TunnelSocket } from '../../protocol/tunnel/tunnel-session.ts'

/** What Bun's one WebSocket handler passes on to the `data` of each socket; Elysia's own wrapping parses and awaits. */
export interface SocketHandler {
  open(ws: ServerWebSocket<SocketHandler>): void
  message(ws: ServerWebSocket<SocketHandler>, message: Buffer | string): void
  drain(): void
  ping(): void
  pong(): void
  close(ws: unknown, code: number, reason: string): void
}

/** For Bun's server. A longer message than a frame's is answered with a code up to this, and cut beyond it. */
export const tunnelSocketOptions = {
  maxPayloadLength: 2 * payloadBytesMax,
  /** Pings and their answers keep a tunnel alive long before this limit. */
  idleTimeout: 120,
  perMessageDeflate: false,
} as const

export interface TunnelEvents {
  opened(tunnel: GatewayTunnel): void
  status(text: string): void
  /** The node asks for the end of the tunnel, or its last stream has ended. */
  ending(tunnel: GatewayTunnel): void
  closed(tunnel: GatewayTunnel, end: TunnelEnd): void
}

/** The gateway's end of one tunnel. */
export class GatewayTunnel implements TunnelSocket {
  readonly session: TunnelSession
  readonly handler: SocketHandler
  /** The time (`performance.now()`) of the last message. */
  lastMessageAtMs = performance.now()
  private ws: ServerWebSocket<SocketHandler> | null = null

  constructor(events: TunnelEvents) {
    this.session = new TunnelSession({
      role: 'gateway',
      socket: this,
      status: (text) => events.status(text),
      goAway: () => events.ending(this),
      idle: () => events.ending(this),
      closed: (end) => events.closed(this, end),
    })
    const alive = () => {
      this.lastMessageAtMs = performance.now()
    }
    this.handler = {
      open: (ws) => {
        this.ws = ws
        alive()
        events.opened(this)
      },
      message: (_, message) => {
        alive()
        this.session.receive(message)
      },
      drain: () => this.session.drained(),
      ping: alive,
      pong: alive,
      close: (_ws, _code, reason) => this.session.lost(reason),
    }
  }

  send(message: Buffer): boolean {
    return this.ws !== null && this.ws.sendBinary(message) !== 0
  }

  bufferedBytes(): number {
    return this.ws?.getBufferedAmount() ?? 0
  }

  together(work: () => void): void {
    if (this.ws === null) work()
    else this.ws.cork(work)
  }

  /** Bun calls `drain` by itself. */
  awaitDrain(): void {}

  close(code: number, reason: string): void {
    this.ws?.close(code, reason)
  }

  sendPing(): void {
    this.ws?.ping()
  }

  /** A peer that is gone would not answer the closing handshake. */
  terminate(): void {
    this.ws?.terminate()
  }
}
