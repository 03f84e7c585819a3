import {
  socketBytesMax,
  type TunnelEnd,
  TunnelSession,
  type TunnelSocket,
} from '../../protocol/tunnel/tunnel-session.ts'
import { type Handle, TunnelledRequest } from './tunnel-requests.ts'

export interface LinkEvents {
  /** The gateway asks for another tunnel. */
  asked(): void
  closed(end: TunnelEnd): void
}

/**
 * Bun's client does not report the end of its backpressure, so it is checked at this interval while streams wait, ms.
 */
const drainLookMs = 2

/** The node's end of one tunnel. */
export class TunnelLink implements TunnelSocket {
  readonly session: TunnelSession
  readonly openedMs = performance.now()
  private lastMessageAtMs = performance.now()

  constructor(
    private readonly ws: Bun.WebSocket,
    handle: Handle,
    events: LinkEvents,
  ) {
    this.session = new TunnelSession({
      role: 'node',
      socket: this,
      opened: (stream, head) => new TunnelledRequest(stream, head, handle),
      goAway: events.asked,
      idle: () => {},
      closed: events.closed,
    })
    ws.binaryType = 'nodebuffer'
    const alive = () => {
      this.lastMessageAtMs = performance.now()
    }
    ws.onmessage = ({ data }) => {
      alive()
      this.session.receive(data as Buffer | string)
    }
    // Bun answers pings by itself and emits an event.
    ws.addEventListener('ping', alive)
  }

  /** The gateway pings regularly. Without pings it counts as gone, whatever TCP says. */
  endIfSilent(silentMs: number): void {
    if (performance.now() - this.lastMessageAtMs <= silentMs) return
    this.session.close('silent')
    this.ws.terminate()
  }

  send(message: Buffer): boolean {
    this.ws.send(message as Buffer<ArrayBuffer>)
    return true
  }

  /** Bun's client cannot. */
  together(work: () => void): void {
    work()
  }

  bufferedBytes(): number {
    return this.ws.bufferedAmount
  }

  awaitDrain(): void {
    setTimeout(() => {
      if (this.ws.readyState !== WebSocket.OPEN) return
      if (this.ws.bufferedAmount > socketBytesMax / 2) this.awaitDrain()
      else this.session.drained()
    }, drainLookMs)
  }

  close(code: number, reason: string): void {
    this.ws.close(code, reason)
  }
}
