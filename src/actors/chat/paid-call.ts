import { inEther } from '../../amounts.ts'
import type { ClaimedKey, IdempotentOutcome } from '../../db/queries/accounts/idempotency.ts'
import { Problem } from '../../errors.ts'
import { newId, type RequestId } from '../../ids.ts'
import { chargeOf, clampUsage, type Prices, priceOf } from '../../machines/rules/pricing.ts'
import type { Route } from '../../machines/rules/routing.ts'
import { wholeTokens } from '../../protocol/chat/token-estimate.ts'
import { type TokenUsage, withDetails } from '../../protocol/chat/token-usage.ts'
import { fits } from '../../protocol/validation/fits.ts'
import { fieldSentence } from '../../protocol/validation/sentences.ts'
import { wei } from '../../protocol/wire/shapes.ts'
import type { Settled } from '../money/charge.ts'
import type { Idempotency } from '../money/idempotency.ts'
import type { Ledger } from '../money/ledger.ts'
import type { NewReceipt } from '../money/receipt-writer.ts'
import type { Reservation } from '../money/reservation.ts'
import type { Router } from '../pool/router.ts'
import type { ChatCommand } from './chat-command.ts'

export interface PaidCallPort {
  readonly router: Pick<Router, 'usageReported'>
  readonly ledger: Ledger
  readonly idempotency: Idempotency
  readonly config: { readonly SVC_PROTOCOL_FEE_BPS: number; readonly SVC_OUTPUT_TOKENS_DEFAULT: number }
}

/** Costs this caller money: own machines never do (specification, 6). */
export const isBilled = (route: Route, customerId: string) => route.prices !== null && route.customerId !== customerId

const capField = 'svc.max_price_wei'
const invalidCap = (cap: string) =>
  new Problem('invalid_request', { param: capField, detail: fieldSentence(capField, wei, cap) })
const capExceeded = (quoteWei: bigint, capWei: bigint) =>
  new Problem('max_price_exceeded', {
    param: capField,
    detail: `This request is quoted at ${inEther(quoteWei)}; ${capField} allows ${inEther(capWei)}.`,
  })

/** Refuses with `max_price_exceeded`, and with `invalid_request` a cap that is no amount. */
export function refuseAboveCap({ body }: ChatCommand, quoteWei: bigint): void {
  const cap = body.svc?.max_price_wei
  if (cap === undefined) return
  if (!fits(wei, cap)) throw invalidCap(cap)
  if (quoteWei > BigInt(cap)) throw capExceeded(quoteWei, BigInt(cap))
}

/** `max_tokens` of a billed request that has none, so that its quote is a true bound (§13). */
export function billedCeiling(route: Route, standard: number, policyMax: number | null): number {
  return Math.min(route.maxOutputLength ?? Number.POSITIVE_INFINITY, standard, policyMax ?? Number.POSITIVE_INFINITY)
}

interface CallBounds {
  readonly promptEstimate: number
  /** `max_tokens`, given or injected. */
  readonly outputMax: number
  /** It is one of several calls that have a client's key together, the key of the request with this id. */
  readonly keyOf?: RequestId
  /** By the id of that request others look for what is reserved for this call. */
  readonly guards?: true
}

/**
 * The money of one request on machines of others: reserved before the first call, charged for what passed, released
 * when nothing did. One reservation for all of its tries: a model has one price.
 */
export class PaidCall {
  private reservation: Reservation | null = null
  /** The prices of the quote: later changes of the catalogue do not count. */
  private prices: Prices | null = null
  private ended = false
  private breached = false
  /** True if the node's usage claim is at its bound; null without a claim. */
  private atBound: boolean | null = null
  /** The client's key, once it is ours. */
  private claimed: ClaimedKey | null = null
  /** The debit, never more than was reserved; null if nothing was charged. */
  chargedWei: bigint | null = null
  /** What becomes of its charge: resolves when that is durable, rejects when it will never be known; null: none was made. */
  charging: Promise<Settled['outcome']> | null = null

  private readonly promptEstimate: number
  private readonly outputMax: number
  /** Of the reservation. */
  private readonly id: RequestId
  /** Written as a row: a repeated request with the same key looks for the reservation in the database, or the charge says something of the key. */
  private readonly asRow: boolean
  /** The key that it has together with other calls, once that is claimed. */
  shared: ClaimedKey | null = null

  /** `before`: of the model that was tried before this one, at other prices; null: none was. The client's key goes over to this one. */
  constructor(
    private readonly port: PaidCallPort,
    private readonly command: ChatCommand,
    { promptEstimate, outputMax, keyOf, guards }: CallBounds,
    private readonly before: PaidCall | null = null,
  ) {
    this.promptEstimate = promptEstimate
    this.outputMax = outputMax
    this.asRow = command.idempotencyKey !== null || keyOf !== undefined
    if (before === null) this.id = guards === true && keyOf !== undefined ? keyOf : command.requestId
    else {
      // The ledger knows an id once.
      this.id = before.reservation === null ? before.id : newId('req')
      this.claimed = before.claimed
      before.claimed = null
    }
  }

  /** The most that it can cost on this route, wei. */
  quote(route: Route): bigint {
    return quoteOf(route, this.promptEstimate, this.outputMax)
  }

  /**
   * null: done at once. Refuses with `max_price_exceeded`, `insufficient_funds`, `service_unavailable`, or `invalid_request` for a cap that is no
   * amount.
   */
  reserve(route: Route): Promise<void> | null {
    // The client of a list may have left while its account was read.
    if (this.reservation !== null || this.ended) return null
    const prices = pricesOf(route)
    const amountWei = this.quote(route)
    refuseAboveCap(this.command, amountWei)
    const { access, idempotencyKey } = this.command
    const wanted = { id: this.id, customerId: access.customerId, amountWei }
    this.prices = prices
    if (idempotencyKey !== null) return this.reserveWithKey(wanted, idempotencyKey)
    const reserved = this.port.ledger.reserve(wanted, { asRow: this.asRow })
    if (reserved instanceof Promise) return this.whenReserved(reserved)
    this.reservation = reserved
    return null
  }

  private async reserveWithKey(wanted: Reservation, idempotencyKey: string): Promise<void> {
    // A key without a reservation is free after two minutes, and a model may take longer to answer that it cannot.
    if (this.claimed === null || this.before?.reservation === null) {
      this.claimed = await this.port.idempotency.claim(this.command, idempotencyKey)
      // The client left meanwhile, so its idempotency key must be freed here.
      if (this.ended) return this.giveBack()
    }
    return this.whenReserved(this.port.ledger.reserve(wanted, { asRow: this.asRow }))
  }

  private async whenReserved(reserved: Reservation | Promise<Reservation>): Promise<void> {
    this.reservation = await reserved
    // The client left meanwhile.
    if (this.ended) this.giveBack()
  }

  /** Of an estimated answer: no more tokens than were asked for can be billed, though more text came. */
  bound(completionTokens: number): number {
    return Math.min(completionTokens, this.outputMax)
  }

  /** The billed part of the node's reported usage (§5, usage). */
  clamp(usage: TokenUsage, outputWeight: number): TokenUsage {
    const clamped = clampUsage(
      { promptTokens: usage.prompt_tokens, completionTokens: usage.completion_tokens },
      { promptTokens: this.promptEstimate, completionTokens: wholeTokens(outputWeight) },
      this.outputMax,
    )
    this.breached = clamped.breached
    this.atBound = clamped.atBound
    const { promptTokens, completionTokens } = clamped.usage
    const paid = {
      prompt_tokens: promptTokens,
      completion_tokens: completionTokens,
      total_tokens: promptTokens + completionTokens,
    }
    return withDetails(paid, usage.cached_tokens, usage.reasoning_tokens)
  }

  /** Resolves when debit and receipt are durable. */
  charge(route: Route, usage: TokenUsage, receipt: NewReceipt): Promise<Settled['outcome']> {
    this.charging = this.makeCharge(route, usage, receipt)
    return this.charging
  }

  private async makeCharge(route: Route, usage: TokenUsage, receipt: NewReceipt): Promise<Settled['outcome']> {
    const { reservation, prices } = this
    if (reservation === null || prices === null) throw new Error('a billed call without a reservation')
    this.ended = true
    if (this.atBound !== null) this.port.router.usageReported(route, this.atBound)
    const actualWei = priceOf(prices, usage.prompt_tokens, usage.completion_tokens)
    // A stream is written down before its charge is durable.
    this.chargedWei = chargeOf(actualWei, reservation.amountWei)
    const settled = await this.port.ledger.settle(reservation, {
      actualWei,
      receipt: this.breached ? { ...receipt, status: 'held' } : receipt,
      nodeId: route.nodeId,
      ownerId: route.customerId,
      kind: this.command.operation.receiptKind,
      feeBps: this.port.config.SVC_PROTOCOL_FEE_BPS,
      prices,
      ...(this.claimed === null ? {} : { completes: { key: this.claimed, usage } }),
      ...(this.shared === null ? {} : { keeps: this.shared }),
    })
    this.chargedWei = settled.chargedWei
    return settled.outcome
  }

  /** Nothing passed. After a charge it does nothing. */
  release(): void {
    if (this.ended) return
    this.ended = true
    this.giveBack()
    this.before?.release()
  }

  /** Nothing passed, but other calls of the request were charged: `completes` is their key. False: this one had ended, and the key is as it was. */
  async releaseCompleting(completes: IdempotentOutcome): Promise<boolean> {
    if (this.ended || this.reservation === null) return false
    this.ended = true
    return this.port.ledger.releaseCompleting(this.reservation, completes)
  }

  /** Another model is tried. What is reserved here goes back, except that a client's key counts as in use only while it stands. */
  leave(): void {
    if (this.claimed === null) this.release()
  }

  private giveBack(): void {
    if (this.reservation !== null) this.port.ledger.release(this.reservation)
    if (this.claimed !== null) this.port.idempotency.release(this.claimed)
    this.claimed = null
  }
}

/** The most that a call can cost on a route with a price, wei. */
export const quoteOf = (route: Route, promptTokens: number, outputMax: number) =>
  priceOf(pricesOf(route), promptTokens, outputMax)

function pricesOf(route: Route): Prices {
  if (route.prices === null) throw new Error('a free route has no price')
  return { baseWei: 0n, ...route.prices }
}
