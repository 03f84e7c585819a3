import type { ClaimedKey, IdempotentOutcome } from '../../db/queries/accounts/idempotency.ts'
import type { Route } from '../../machines/rules/routing.ts'
import type { TokenUsage } from '../../protocol/chat/token-usage.ts'
import type { ChatCommand } from './chat-command.ts'
import type { Exchange } from './exchange.ts'
import { PaidCall, refuseAboveCap } from './paid-call.ts'

/** The calls of a request that are still to be made, when money is first needed. */
export interface ChargedCalls {
  readonly wanted: () => readonly number[]
  /** Without its text. */
  readonly commandOf: (at: number) => ChatCommand
}

/** What calls that were charged have cost together. */
export interface ChargedTotal {
  readonly receiptHash: string
  readonly usage: TokenUsage
}

/**
 * The money of a request that is several calls. It is set aside for all of them before the first goes to a machine of others, so that
 * none is refused for money when others are done. Each is charged by itself, with its own receipt; the client's idempotency key and
 * its bound of the price are those of the request.
 */
export class CallsMoney {
  private readonly calls = new Map<number, PaidCall>()
  private reserving: Promise<void> | null = null
  private claimed: ClaimedKey | null = null
  private over = false
  private ending: Promise<void> | null = null

  constructor(
    private readonly exchange: Exchange,
    private readonly charged: ChargedCalls,
  ) {}

  /**
   * The money of one call; null: it is free by the prices of the quote, whatever has a price since. Refuses as `PaidCall.reserve` does, for all
   * of them.
   */
  async of(at: number, route: Route): Promise<PaidCall | null> {
    this.reserving ??= this.reserve(route)
    await this.reserving
    return this.calls.get(at) ?? null
  }

  /** null: nothing was charged. */
  get costWei(): bigint | null {
    let sum: bigint | null = null
    for (const { chargedWei } of this.calls.values()) if (chargedWei !== null) sum = (sum ?? 0n) + chargedWei
    return sum
  }

  private async reserve(route: Route): Promise<void> {
    const { exchange, calls, charged } = this
    const { port, command } = exchange
    const { operation, idempotencyKey: key, access, requestId } = command
    let quoteWei = 0n
    for (const at of charged.wanted()) {
      const own = charged.commandOf(at)
      const paid = new PaidCall(port, own, {
        promptEstimate: operation.estimate(own.body).tokens,
        outputMax: exchange.billedOutput(route),
        ...(key === null ? {} : { keyOf: requestId }),
        // The key is in use while this one stands. The call of this id may have ended on a machine of the customer's own.
        ...(key !== null && calls.size === 0 ? { guards: true } : {}),
      })
      const ownWei = paid.quote(route)
      // It is free.
      if (ownWei === 0n) continue
      calls.set(at, paid)
      quoteWei += ownWei
    }
    refuseAboveCap(command, quoteWei)
    if (key !== null) {
      this.claimed = await port.idempotency.claim(command, key)
      for (const paid of calls.values()) paid.shared = this.claimed
      // The client left meanwhile.
      if (this.over) return this.free()
    }
    await port.ledger.refuseUncovered(access.customerId, quoteWei)
    const reserved = await Promise.allSettled([...calls.values()].map(async (paid) => paid.reserve(route)))
    const refused = reserved.find((each) => each.status === 'rejected')
    if (refused !== undefined) throw refused.reason
  }

  /** The request is over: what no call has used goes back. The first call counts. `total`: of those that were charged; null: none was. */
  end(total: ChargedTotal | null): Promise<void> {
    this.ending ??= this.close(total)
    return this.ending
  }

  private async close(total: ChargedTotal | null): Promise<void> {
    this.over = true
    const { claimed } = this
    if (this.costWei === null) this.free()
    this.claimed = null
    try {
      if (claimed !== null && total !== null && this.costWei !== null) await this.tell({ key: claimed, ...total })
    } finally {
      for (const paid of this.calls.values()) paid.release()
    }
  }

  /** What became of the charges, when all have ended: of a list that failed some are still on their way, and a receipt that a key names is there. */
  private async tell(outcome: IdempotentOutcome): Promise<void> {
    const ends = await Promise.allSettled([...this.calls.values()].flatMap(({ charging }) => charging ?? []))
    const became = new Set(ends.map((end) => (end.status === 'fulfilled' ? end.value : 'unknown')))
    if (became.has('settled')) return this.complete(outcome)
    // All came too late, and nothing is billed. Of charges of which nothing is known the key stays as it is: nothing is billed twice.
    if (!became.has('unknown')) this.exchange.port.idempotency.release(outcome.key)
  }

  /** In the commit that gives back what kept the key in use, since in between the key would count as left behind; where it was charged, behind it. */
  private async complete(outcome: IdempotentOutcome): Promise<void> {
    const { port } = this.exchange
    const [guard] = this.calls.values()
    // The ledger has logged why it failed.
    const completed = await guard?.releaseCompleting(outcome).catch(() => false)
    if (completed !== true) await port.idempotency.complete(outcome)
  }

  private free(): void {
    if (this.claimed !== null) this.exchange.port.idempotency.release(this.claimed)
    this.claimed = null
  }
}
