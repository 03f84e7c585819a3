/** How many leaves one batch may have (§14). */
export const payoutsPerBatchMax = 1_000
/** This number of pending payouts makes a batch due, whatever their age. */
export const pendingForBatch = 500
/** After this many reverts a batch is on hold for an operator. */
export const batchesAttemptsMax = 3

/** A batch is due once one payout has waited for `ageMs` or 500 wait, and enough money does. */
export function batchDue(
  payable: readonly { readonly createdAt: Date; readonly amountWei: bigint }[],
  { nowMs, ageMs, minWei }: { readonly nowMs: number; readonly ageMs: number; readonly minWei: bigint },
): boolean {
  if (payable.length === 0) return false
  if (payable.reduce((sum, { amountWei }) => sum + amountWei, 0n) < minWei) return false
  return payable.length >= pendingForBatch || payable.some(({ createdAt }) => nowMs - createdAt.getTime() >= ageMs)
}
