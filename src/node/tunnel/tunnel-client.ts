import { backoffMs } from '../../backoff.ts'
import { headers } from '../../brand.ts'
import { Alarm, type Clock, systemClock } from '../../clock.ts'
import { waitAtMost } from '../../deadline.ts'
import { type Loop, loop } from '../../host/loop.ts'
import { newNonce, tunnelMessage } from '../../protocol/signing/signatures.ts'
import { silentMsMax, tunnelProtocol } from '../../protocol/tunnel/tunnel-session.ts'
import { secondMs } from '../../time.ts'
import { TunnelLink } from './tunnel-link.ts'
import type { Handle } from './tunnel-requests.ts'

export interface TunnelOptions {
  /** `tunnel_url` of the enrolment: `ws:` or `wss:`. */
  readonly url: string
  readonly nodeId: string
  /** Ed25519 of the node's identity, base64url. */
  readonly sign: (message: string) => string
  /** Returns the newest router key that this node knows. It is called at each dial. */
  readonly routerKid: () => string
  /** The agent's routes in this process. */
  readonly handle: Handle
  /** Returns one JSON object, which is sent after each opening and each `statusChanged`. */
  readonly status?: () => string
  /** An operator has revoked or removed the node: there is nothing to dial for any more. */
  readonly revoked?: () => void
  readonly log: (event: TunnelLogEvent, fields: Readonly<Record<string, string | number>>) => void
  readonly random?: () => number
  /** Unix ms. */
  readonly now?: () => number
  readonly redialMsMax?: number
  readonly silentMsMax?: number
  readonly clock?: Clock
}

export type TunnelLogEvent = 'tunnel_opened' | 'tunnel_closed' | 'tunnel_not_opened' | 'tunnel_asked_to_move'

export interface NodeTunnel {
  connected(): boolean
  /** Resolves at the first tunnel, or at once if there is one. */
  whenConnected(): Promise<void>
  /** Notifies the gateway at once, before its next poll. */
  statusChanged(): void
  /** Dials anew at once, whatever became of the tunnel that was. */
  dialAnew(): void
  /** Accepts no new requests. Running ones may end within `graceMs`. */
  stop(graceMs?: number): Promise<void>
}

/**
 * The wait before a dial is random between 0 and a bound (full jitter). The bound doubles with each failure in a row,
 * ms.
 */
const redialFirstMs = 500
const redialMsMaxDefault = 30_000
/** After a tunnel has lived this long, the next failure counts as the first. */
const settledMs = 10 * secondMs
const dialMsMax = 10 * secondMs
const stopGraceMs = 30 * secondMs

/** The gateway's status (401: it does not take this node, or one of the clocks is off) or the system's code, and no more: the text names the gateway's address. */
const dialFault = (message: string) => / (?:status code: )?([1-5][0-9]{2}|E[A-Z]+)$/.exec(message)?.[1] ?? 'no_answer'

/** The type of the DOM has no headers. */
const BunWebSocket = WebSocket as unknown as new (url: string, options: Bun.WebSocketOptions) => Bun.WebSocket

/** Keeps one tunnel to the gateway for as long as the program runs (§22). */
export function startTunnel(options: TunnelOptions): NodeTunnel {
  const tunnel = new Dialler(options)
  tunnel.dial()
  return tunnel
}

class Dialler implements NodeTunnel {
  private readonly links = new Set<TunnelLink>()
  /** The tunnel on which the gateway opens new streams. */
  private newest: TunnelLink | null = null
  private dialling: Bun.WebSocket | null = null
  private readonly redial: Alarm
  private readonly beating: Loop
  private failures = 0
  private stopped = false
  private allClosed: (() => void) | null = null
  private readonly waiting: (() => void)[] = []

  constructor(private readonly options: TunnelOptions) {
    const { silentMsMax: silentMs = silentMsMax, clock = systemClock } = options
    this.redial = new Alarm(() => this.dial(), clock)
    const beat = () => {
      for (const link of [...this.links]) link.endIfSilent(silentMs)
    }
    this.beating = loop({ everyMs: silentMs / 4, run: beat, clock })
    this.beating.start()
  }

  connected(): boolean {
    return this.newest !== null
  }

  whenConnected(): Promise<void> {
    return this.connected() ? Promise.resolve() : new Promise((resolve) => this.waiting.push(resolve))
  }

  statusChanged(): void {
    const { status } = this.options
    if (status !== undefined) this.newest?.session.status(status())
  }

  dial(): void {
    if (this.stopped || this.dialling !== null) return
    this.redial.clear()
    const ws = new BunWebSocket(this.options.url, { headers: this.hello(), protocols: [tunnelProtocol] })
    this.dialling = ws
    const giveUp = setTimeout(() => ws.terminate(), dialMsMax)
    const link = new TunnelLink(ws, this.options.handle, {
      asked: () => this.askedToMove(),
      closed: (end) => this.closed(link, end),
    })
    ws.onopen = () => {
      clearTimeout(giveUp)
      this.opened(link)
    }
    let fault = 'no_answer'
    ws.onclose = ({ reason }) => {
      clearTimeout(giveUp)
      if (this.dialling === ws) this.notOpened(fault)
      else link.session.lost(reason)
    }
    // The close event that follows counts as the failure.
    ws.onerror = (event) => {
      fault = dialFault((event as ErrorEvent).message)
    }
  }

  dialAnew(): void {
    this.failures = 0
    this.dial()
  }

  private hello(): Record<string, string> {
    const { nodeId, sign, routerKid, now = Date.now } = this.options
    const timestamp = Math.floor(now() / secondMs)
    const nonce = newNonce()
    return {
      [headers.nodeId]: nodeId,
      [headers.nodeTimestamp]: String(timestamp),
      [headers.nodeNonce]: nonce,
      [headers.nodeSignature]: sign(tunnelMessage(nodeId, timestamp, nonce, routerKid())),
    }
  }

  private opened(link: TunnelLink): void {
    this.dialling = null
    const before = this.newest
    this.newest = link
    this.links.add(link)
    this.options.log('tunnel_opened', { attempts: this.failures + 1 })
    if (this.stopped) return link.session.goAway()
    // Running streams end on the old tunnel. The gateway closes it after the last one.
    before?.session.goAway()
    this.statusChanged()
    for (const resolve of this.waiting.splice(0)) resolve()
  }

  private notOpened(code: string): void {
    this.dialling = null
    this.options.log('tunnel_not_opened', { attempts: this.failures + 1, code })
    this.redialLater()
  }

  private askedToMove(): void {
    this.options.log('tunnel_asked_to_move', {})
    this.dial()
  }

  private closed(link: TunnelLink, end: string): void {
    this.links.delete(link)
    this.options.log('tunnel_closed', { code: end })
    if (this.links.size === 0) this.allClosed?.()
    if (link !== this.newest) return
    this.newest = null
    if (end === 'revoked') {
      this.stopped = true
      return this.options.revoked?.()
    }
    if (performance.now() - link.openedMs >= settledMs) this.failures = 0
    this.redialLater()
  }

  private redialLater(): void {
    if (this.stopped || this.dialling !== null || this.redial.isSet) return
    const { random = Math.random, redialMsMax: maxMs = redialMsMaxDefault } = this.options
    this.failures++
    this.redial.set(random() * backoffMs({ firstMs: redialFirstMs, maxMs }, this.failures))
  }

  async stop(graceMs = stopGraceMs): Promise<void> {
    this.stopped = true
    this.redial.clear()
    this.dialling?.terminate()
    const { promise, resolve } = Promise.withResolvers<void>()
    this.allClosed = resolve
    if (this.links.size === 0) resolve()
    for (const link of this.links) link.session.goAway()
    await waitAtMost(graceMs, promise)
    void this.beating.stop()
    for (const link of [...this.links]) link.session.close('stopped')
  }
}
