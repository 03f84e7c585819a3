import { holdsWithin, waitAtMost } from '../deadline.ts'
import { secondMs } from '../time.ts'
import { socketsAt } from './kernel-sockets.ts'
import { acceptAtOnce, refuseConnections } from './listening-socket.ts'
import { type OwnSocket, ownSocketsAt, seesSockets } from './own-sockets.ts'
import { handshakingAt } from './socket-diagnosis.ts'

/** Bun's server, as far as its end goes. */
export interface ClosableServer {
  /** Undefined: it listens on a Unix socket. */
  readonly port?: number | undefined
  readonly pendingRequests: number
  /** Closes the listener and the connections that wait for a further request, and resolves when what runs has ended. */
  stop(force?: boolean): Promise<void>
}

/** Containers may forbid the question: the table of all sockets says the same, and takes ten times as long. */
const isHandshaking = (port: number, family: OwnSocket['family']): boolean =>
  handshakingAt(port, family) ?? socketsAt(port, family).some(({ state }) => state === 'handshaking')

/** The kernel asks the client of a deferred connection again after a second. */
const deferredMs = 1.5 * secondMs
/** A handshake that is under way ends within this, or its client is too far away to be waited for. */
const handshakeMs = 250
/** A client that has connected sends its request within this, or loses nothing but its connection. */
const firstBytesMs = 2 * secondMs
/** The same if the program cannot see whether such a connection exists. */
const blindMs = 300
/** A look for connections that are being made takes milliseconds. */
const lookMs = 20

/**
 * Closes listeners without a reset of any connection that the kernel has accepted for them: neither one that waits to
 * be accepted, nor one that has sent nothing yet, nor one whose request arrives meanwhile.
 */
export class Closing {
  private readonly ports: readonly number[]
  private begunMs: number | null = null
  private closedMs = Number.NEGATIVE_INFINITY
  private ended: Promise<unknown> = Promise.resolve()

  constructor(private readonly servers: readonly ClosableServer[]) {
    this.ports = servers.flatMap(({ port }) => port ?? [])
  }

  /** The listeners take connections as before, and no longer leave them to the kernel. */
  begin(): void {
    if (this.begunMs !== null) return
    this.begunMs = performance.now()
    for (const port of this.ports) acceptAtOnce(port)
  }

  /** Resolves when the listeners are closed. Accepted connections continue, even if their request is yet to come. */
  async close(): Promise<void> {
    this.begin()
    await until((this.begunMs ?? 0) + deferredMs, () => !this.handshaking())
    for (const port of this.ports) refuseConnections(port)
    await until(performance.now() + handshakeMs, () => !this.handshaking() && !this.waiting())
    // Bytes in the kernel are read before the connections that wait for a request are closed.
    await nextTurn()
    await nextTurn()
    this.ended = Promise.all(this.servers.map((server) => server.stop()))
    this.closedMs = performance.now()
  }

  /** Resolves when all requests have their answers, or at `untilMs`. Open WebSockets do not count (seen). */
  async answered(untilMs: number): Promise<void> {
    await until(untilMs, () => this.servers.every(({ pendingRequests }) => pendingRequests === 0))
  }

  /** Resolves when the last bytes have left, also those of answers to clients that were slow to ask; bounded. */
  async quiet(lastBytesMs: number): Promise<void> {
    await until(this.closedMs + (seesSockets ? firstBytesMs : blindMs), () => seesSockets && !this.connected())
    await waitAtMost(lastBytesMs, this.ended)
  }

  /** Connections that are being made belong to no process yet. */
  private handshaking(): boolean {
    const listeners = this.own('listening')
    const families = new Set(listeners.map(({ family }) => family))
    return this.ports.some((port) => [...families].some((family) => isHandshaking(port, family)))
  }

  private waiting(): boolean {
    return this.own('listening').some(({ waiting }) => waiting > 0)
  }

  private connected(): boolean {
    return this.own('open').length > 0
  }

  private own(wanted: OwnSocket['state']): readonly OwnSocket[] {
    return ownSocketsAt(this.ports).filter(({ state }) => state === wanted)
  }
}

const until = (untilMs: number, holds: () => boolean) => holdsWithin(untilMs - performance.now(), lookMs, holds)
const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve))
