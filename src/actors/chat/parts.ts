import type { Grant } from '../../host/budget.ts'
import { newId } from '../../ids.ts'
import { isFree } from '../../machines/rules/eligibility.ts'
import { type PlacementRequest, place } from '../../machines/rules/placement.ts'
import type { Route } from '../../machines/rules/routing.ts'
import { dispatch } from '../dispatch/dispatch.ts'
import { Tries } from '../dispatch/tries.ts'
import type { InferenceRequest, PartedOperation } from '../operations/operation.ts'
import type { AttemptFailure } from '../relay/attempt.ts'
import { Exchange } from './exchange.ts'
import { type ReceivedAnswer, receiveWhole } from './whole-answer.ts'

/** Fewer units are not worth a call of their own. */
const unitsLeast = 16
/** Turns per node: with several, a fast node does more of them and a slow one delays little. */
const turnsPerNode = 4

/** The request is recorded once, not its parts. */
const unrecorded = { record: () => {} }

/** A request that many nodes serve in parallel, and their answers. */
export class Parts {
  private readonly running = new Set<Exchange>()
  /** Of the parts that are done: kept until all are one answer. */
  private readonly grants: Grant[] = []
  /** The next unit to take. */
  private next = 0
  private ended = false

  private constructor(
    private readonly exchange: Exchange,
    private readonly request: PlacementRequest,
    private readonly routes: readonly Route[],
    private readonly operation: PartedOperation,
    private readonly units: number,
  ) {}

  /** null: it is done in one call, as anything that cannot be cut, costs money, or is small. */
  static of(exchange: Exchange, request: PlacementRequest): Parts | null {
    const { operation, body } = exchange.command
    if (operation.parts === undefined) return null
    const parted = operation as PartedOperation
    const units = parted.parts.count(body)
    const routes = sharingRoutes(exchange, request)
    const [first] = routes
    if (first === undefined) return null
    const small = routes.length === 1 || units < 2 * unitsLeast
    if (small && units <= parted.parts.unitsMax(first)) return null
    return new Parts(exchange, request, routes, parted, units)
  }

  abort(cause: 'client_gone' | 'shutdown' | 'total_timeout'): void {
    this.ended = true
    for (const part of this.running) {
      part.attempt?.abort(cause)
      // This also ends a part that waits for a slot; a part knows its own deadline.
      if (cause !== 'total_timeout') part.abort('shutdown')
    }
  }

  dropKept(): void {
    for (const kept of this.grants.splice(0)) kept.close()
  }

  /** The answers in the order of their units. Rejects with the first failure that no other node could make good. */
  async run(): Promise<readonly ReceivedAnswer[]> {
    const share = Math.max(unitsLeast, Math.ceil(this.units / (this.routes.length * turnsPerNode)))
    const answers = new Map<number, ReceivedAnswer>()
    const work = async (route: Route) => {
      const { parts } = this.operation
      const most = Math.min(share, parts.unitsMax(route))
      while (this.next < this.units && !this.ended) {
        const from = this.next
        this.next = Math.min(this.units, from + most)
        const body = parts.cut(this.exchange.command.body, from, this.next)
        answers.set(from, await this.part(route, body))
      }
    }
    try {
      await Promise.all(this.routes.map(work))
    } finally {
      // One part has failed for good, so the others are useless.
      if (this.running.size > 0) this.abort('client_gone')
    }
    return [...answers].sort(([a], [b]) => a - b).map(([, answer]) => answer)
  }

  private async part(route: Route, body: InferenceRequest): Promise<ReceivedAnswer> {
    const { port, command } = this.exchange
    const text = JSON.stringify(body)
    const own = { ...command, requestId: newId('req'), body, text, idempotencyKey: null, recorder: unrecorded }
    const exchange = new Exchange(port, own, port.router.table(), null)
    this.running.add(exchange)
    const attempt = (chosen: Route) => receiveWhole(exchange, chosen, this.operation.upstream(text, body, null, chosen))
    try {
      if (route.load.reading.dozing) await exchange.port.rouser.rouse(route)
      const first = await attempt(route)
      const answer = 'failure' in first ? await this.elsewhere(exchange, route, first.failure, attempt) : first
      exchange.record(answer.conclusion)
      const kept = exchange.handOver(exchange.keptBytes)
      if (kept !== null) this.grants.push(kept)
      return answer
    } finally {
      exchange.dropKept()
      exchange.attempt?.release({ kind: 'neutral' })
      this.running.delete(exchange)
    }
  }

  /** One part has failed on its node: another one gets it, as with any request (§5, failover). */
  private async elsewhere(
    part: Exchange,
    route: Route,
    failure: AttemptFailure,
    attempt: (route: Route) => Promise<ReceivedAnswer | { readonly failure: AttemptFailure }>,
  ): Promise<ReceivedAnswer> {
    const tries = new Tries(part, 1)
    if (!part.command.signal.aborted) part.port.failed(failure.code)
    if (!tries.failed(route, failure) || this.ended || this.routes.length === 1) throw tries.givenUp()
    // No money is reserved for this part, so it must not use a route that has a price by now.
    const { side } = tries
    const wanted = { ...this.request, freeOnly: true, exclude: new Set([route.profileId]), side, nowMs: Date.now() }
    const answer = await dispatch(part, wanted, attempt)
    tries.served()
    return answer
  }
}

/** The nodes among which a request may be shared out: of one side and rank, at no cost, ready now, and those first that hold the model. */
function sharingRoutes({ command, table }: Exchange, request: PlacementRequest): readonly Route[] {
  const { customerId } = command.access
  const placement = place(table, request)
  if (placement.kind !== 'placed' || !isFree(placement.route, customerId)) return []
  const open = placement.open.filter(
    (route) => isFree(route, customerId) && Math.max(route.heldUntilMs, route.load.ejectedUntilMs) <= request.nowMs,
  )
  const loaded = open.filter((route) => route.loaded !== false)
  return loaded.length === 0 ? open : loaded
}
