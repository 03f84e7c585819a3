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

/** The upper bound for a node's reported usage before anybody pays for it (§5, usage). */
const usageCeiling = {
  prompt: (estimate: number) => Math.floor(1.5 * estimate) + 64,
  completion: (estimate: number, maxTokens: number | null) =>
    Math.min(maxTokens ?? Number.POSITIVE_INFINITY, Math.floor(1.5 * estimate) + 64),
} as const

export interface Usage {
  readonly promptTokens: number
  readonly completionTokens: number
}

/**
 * `breached` means that the node reported impossible usage. Its receipt is on hold until an operator has looked at it.
 */
export function clampUsage(
  reported: Usage,
  estimate: Usage,
  maxTokens: number | null,
): { readonly usage: Usage; readonly breached: boolean } {
  const promptTokens = Math.min(reported.promptTokens, usageCeiling.prompt(estimate.promptTokens))
  const completionTokens = Math.min(
    reported.completionTokens,
    usageCeiling.completion(estimate.completionTokens, maxTokens),
  )
  const breached = promptTokens < reported.promptTokens || completionTokens < reported.completionTokens
  return { usage: { promptTokens, completionTokens }, breached }
}
