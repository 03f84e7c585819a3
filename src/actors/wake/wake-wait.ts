import { Problem } from '../../errors.ts'
import type { NodeId } from '../../ids.ts'
import { notWoken } from '../../machines/refusals/asleep.ts'
import type { Route } from '../../machines/rules/routing.ts'
import type { Config } from '../../settings/config.ts'
import { retrySeconds, secondMs } from '../../time.ts'
import type { CancelSignal } from '../../transport/call-signal.ts'
import type { Router } from '../pool/router.ts'
import type { SlotWait } from '../pool/slot-queue.ts'
import type { Ticket } from '../pool/waiting-line.ts'
import type { Waker } from './waker.ts'

export interface WakePort {
  readonly config: Pick<Config, 'SVC_WAKE_WAIT_MS'>
  readonly router: Pick<Router, 'waitForSlot'>
  readonly waker: Pick<Waker, 'hold' | 'failed'>
}

/** A computer that did not wake needs a person. */
const notWokenRetrySeconds = 60

/** A node that a request began to wake late within its clock has not failed when that is over. */
const fairShare = 0.5

interface Held {
  readonly release: () => void
  /** `performance.now()`. */
  readonly sinceMs: number
}

/** The sleeping nodes that one request waits for, all within one clock. */
export class WakeWait {
  private leftMs: number
  /** Until the end of the request's search, however often it looks meanwhile. */
  private readonly held = new Map<NodeId, Held>()

  constructor(private readonly port: WakePort) {
    this.leftMs = port.config.SVC_WAKE_WAIT_MS
  }

  /** Until the node is awake, or something else may serve. */
  async wait(route: Route, modelId: string, ticket: Ticket, ending: CancelSignal): Promise<SlotWait> {
    const { config, router, waker } = this.port
    const { nodeId } = route
    const fromMs = performance.now()
    const held = this.held.get(nodeId) ?? { release: waker.hold(nodeId), sinceMs: fromMs }
    this.held.set(nodeId, held)
    ticket.awaits = null
    ticket.waking = nameOf(route)
    const waited = await router.waitForSlot(modelId, ticket, this.leftMs, ending)
    ticket.waking = null
    this.leftMs = Math.max(0, this.leftMs - (performance.now() - fromMs))
    const tookMs = performance.now() - held.sinceMs
    if (waited === 'timeout' && tookMs >= config.SVC_WAKE_WAIT_MS * fairShare) waker.failed(nodeId)
    return waited
  }

  /** The answer to a wait in vain. */
  refusal(route: Route, waited: 'full' | 'timeout'): Problem {
    if (waited === 'full') {
      const retryAfterSeconds = retrySeconds(route.load.reading.wake.leftMs(Date.now()))
      return new Problem('capacity_exhausted', { retryAfterSeconds })
    }
    const detail = notWoken(nameOf(route), Math.round(this.port.config.SVC_WAKE_WAIT_MS / secondMs))
    return new Problem('node_asleep', { retryAfterSeconds: notWokenRetrySeconds, detail })
  }

  /** The request waits no more. */
  end(): void {
    for (const { release } of this.held.values()) release()
    this.held.clear()
  }
}

const nameOf = ({ asleep, nodeId }: Route): string => asleep?.name ?? nodeId
