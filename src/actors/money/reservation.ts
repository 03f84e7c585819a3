import type { ReserveRow, SettleRow } from '../../db/queries/money/ledger.ts'
import { newId } from '../../ids.ts'

/** Money that is set aside for one request or job. End it exactly once, with `settle` or `release`. */
export interface Reservation {
  readonly id: string
  readonly customerId: string
  readonly amountWei: bigint
}

type Outcome = Pick<
  SettleRow,
  'chargedWei' | 'shareWei' | 'feeWei' | 'receiptHash' | 'node' | 'owner' | 'kind' | 'held'
>

/** Nothing is charged, and all of it goes back. */
export const released: Outcome = {
  chargedWei: 0n,
  shareWei: 0n,
  feeWei: 0n,
  receiptHash: null,
  node: null,
  owner: null,
  kind: null,
  held: false,
}

export const reserveRow = ({ id, customerId, amountWei }: Reservation): ReserveRow => ({
  id,
  customer: customerId,
  amountWei,
  entry: newId('led'),
  // A private job costs nothing and reserves nothing (specification, 6).
  job: null,
})

/** Has the ids of all entries that it may make, so that a row that is sent again makes none twice. */
export function settleRow({ id }: Pick<Reservation, 'id'>, outcome: Outcome): SettleRow {
  return {
    id,
    chargedWei: outcome.chargedWei,
    shareWei: outcome.shareWei,
    feeWei: outcome.feeWei,
    receiptHash: outcome.receiptHash,
    node: outcome.node,
    owner: outcome.owner,
    kind: outcome.kind,
    held: outcome.held,
    debit: newId('led'),
    release: newId('led'),
    payout: newId('pay'),
    fee: newId('fee'),
  }
}
