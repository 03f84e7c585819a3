import type { RunningGateway } from '../actors/gateway-handle.ts'
import { Closing } from '../listener/closing.ts'
import type { Cleanup } from './cleanup.ts'

/** Timeout for sending the last events of streams, ms. */
const lastBytesMs = 500
/** A client that keeps a connection busy has sent another request within this, and heard that the connection is over, ms. */
const heardMs = 1_000

/**
 * What remains when a process ends. `beside_others`: processes that share its port go on. `moves_nodes`: other gateways may, and
 * nodes that dialled in move there. `last`: nothing.
 */
export type Remaining = 'beside_others' | 'moves_nodes' | 'last'

export interface EndingOptions {
  readonly gateway: RunningGateway
  /** Where clients come in. */
  readonly servers: readonly Bun.Server<unknown>[]
  /** Where other processes and gateways come in. */
  readonly doors: readonly Bun.Server<unknown>[]
  readonly cleanup: Cleanup
}

/** The end of a process that answers requests, in order, without a reset connection (§1). */
export class Ending {
  readonly closed: Promise<void>
  private readonly listeners: Closing
  private readonly doors: Closing
  private readonly close: () => void
  private draining: Promise<void> | null = null
  private stopping: Promise<void> | null = null

  constructor(private readonly options: EndingOptions) {
    this.listeners = new Closing(options.servers)
    this.doors = new Closing(options.doors)
    const { promise, resolve } = Promise.withResolvers<void>()
    this.closed = promise
    this.close = resolve
  }

  drain(): void {
    const { gateway } = this.options
    gateway.beginStop()
    this.draining ??= this.leave(gateway.config.SVC_DRAIN_MS)
  }

  stop(remaining: Remaining): Promise<void> {
    this.stopping ??= this.end(remaining)
    return this.stopping
  }

  /** The time for which new requests are still answered. */
  private leave(ms: number): Promise<void> {
    this.options.gateway.log.info('stopping')
    this.options.gateway.beginLeave()
    this.listeners.begin()
    return Bun.sleep(ms)
  }

  private async end(remaining: Remaining): Promise<void> {
    const { gateway, cleanup } = this.options
    const beside = remaining === 'beside_others'
    // While others go on, a load balancer has nothing to hear.
    if (beside) this.draining ??= this.leave(heardMs)
    else this.drain()
    await this.draining
    const untilMs = performance.now() + gateway.config.SVC_SHUTDOWN_GRACE_MS
    const asked = gateway.config.SVC_PEER_URL !== null
    const moves = remaining === 'moves_nodes'
    // Other gateways ask at this listener for its nodes, until these have moved.
    if (moves && asked) await gateway.handOver()
    await this.listeners.close()
    gateway.endConsoles()
    // Where processes share a port, a node that is told to move earlier would come back to this one.
    if (beside) await gateway.handOver()
    this.close()
    await this.listeners.answered(untilMs)
    if (moves && !asked) await gateway.handOver()
    await this.doors.close()
    await this.doors.answered(untilMs)
    await gateway.endCalls()
    gateway.endTunnels()
    await this.listeners.quiet(lastBytesMs)
    await this.doors.quiet(lastBytesMs)
    await cleanup.run()
  }
}
