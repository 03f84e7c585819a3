/** Wei per unit; all 0 is free. */
export interface Prices {
  readonly baseWei: bigint
  readonly promptTokenWei: bigint
  readonly completionTokenWei: bigint
}

const basisPoints = 10_000n

const tokens = (count: number): bigint => {
  if (!Number.isSafeInteger(count) || count < 0) throw new RangeError('a number of tokens is a whole number from 0')
  return BigInt(count)
}

/** Exact: base + prompt tokens × price + completion tokens × price (§9, §13). */
export function priceOf(prices: Prices, promptTokens: number, completionTokens: number): bigint {
  return (
    prices.baseWei + tokens(promptTokens) * prices.promptTokenWei + tokens(completionTokens) * prices.completionTokenWei
  )
}

/** The debited amount, which is never more than the reservation. */
export function chargeOf(actualWei: bigint, reservedWei: bigint): bigint {
  return actualWei < reservedWei ? actualWei : reservedWei
}

export interface Split {
  readonly feeWei: bigint
  /** The node's share. */
  readonly shareWei: bigint
}

/** The fee is rounded down and the node gets all the rest, so that both always add up to the amount (§9). */
export function splitCharge(amountWei: bigint, feeBps: number): Split {
  if (!Number.isInteger(feeBps) || feeBps < 0 || feeBps > 10_000)
    throw new RangeError('a fee is 0 to 10000 basis points')
  const feeWei = (amountWei * BigInt(feeBps)) / basisPoints
  return { feeWei, shareWei: amountWei - feeWei }
}

/** The largest plausible prompt: the model's templates and special tokens add to the sent text. */
const promptBound = (estimate: number) => Math.floor(1.5 * estimate) + 64
/** The most that can be true of the output: a tokenizer makes more of odd texts, and an end or a tool call adds a few. */
const completionBound = (estimate: number) => estimate + Math.max(8, Math.floor(estimate / 2))
/** A claim of output above this share of its bound lies at the bound: honest ones end far below. */
const atBoundShare = 0.9

export interface Usage {
  readonly promptTokens: number
  readonly completionTokens: number
}

export interface ClampedUsage {
  /** The usage that is billed. */
  readonly usage: Usage
  /** The node reported impossible usage. Its receipt is on hold until an operator has looked at it. */
  readonly breached: boolean
  /** The claim is impossible, or the most that is still possible: many of them make a node one to look at. */
  readonly atBound: boolean
}

/**
 * The billed part of a node's reported usage (§5, usage): nothing if no output passed. `estimate`: the gateway's own,
 * of the text that passed.
 */
export function clampUsage(reported: Usage, estimate: Usage, maxTokens: number | null): ClampedUsage {
  const promptMost = promptBound(estimate.promptTokens)
  const completionMost = completionBound(estimate.completionTokens)
  const outputMost = Math.min(maxTokens ?? Number.POSITIVE_INFINITY, completionMost)
  return {
    usage: {
      promptTokens: Math.min(reported.promptTokens, promptMost),
      completionTokens: estimate.completionTokens === 0 ? 0 : Math.min(reported.completionTokens, outputMost),
    },
    breached: reported.promptTokens > promptMost || reported.completionTokens > outputMost,
    atBound: reported.promptTokens >= promptMost || reported.completionTokens > atBoundShare * completionMost,
  }
}

/** How many of a node's last claims the review looks at. */
const claimsLooked = 100
/** More of them at the bound make the node one to review. */
const atBoundMost = 5

/** Summary of a node's last usage claims for paid calls (§5). */
export interface UsageClaims {
  readonly calls: number
  /** Of these: as much as could still be true, or more. */
  readonly atBound: number
}

export const needsReview = ({ atBound }: UsageClaims): boolean => atBound > atBoundMost

/** Slides over a node's last claims. */
export class LastClaims implements UsageClaims {
  private readonly last = new Uint8Array(claimsLooked)
  private next = 0
  calls = 0
  atBound = 0

  add(atBound: boolean): void {
    const bit = atBound ? 1 : 0
    this.atBound += bit - (this.last[this.next] ?? 0)
    this.last[this.next] = bit
    this.next = (this.next + 1) % claimsLooked
    if (this.calls < claimsLooked) this.calls++
  }
}
