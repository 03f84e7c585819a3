import { expect } from 'bun:test'
import { rowFaults } from '../../../src/db/queries/log/proof.ts'
import type { ReserveRow, SettleRow } from '../../../src/db/queries/money/ledger.ts'
import { reserveAll, settleAll } from '../../../src/db/queries/money/ledger.ts'
import { ledgerPage } from '../../../src/db/queries/money/ledger-pages.ts'
import type { MarkedReceipt } from '../../../src/db/queries/money/receipts.ts'
import { newId } from '../../../src/ids.ts'
import { splitCharge } from '../../../src/machines/rules/pricing.ts'
import type { TestDatabase } from '../run/postgres.ts'
import { chargeFor, expectBooksBalance } from './ledger.ts'
import { marked } from './receipt-macs.ts'

const ttlMs = 60_000
/** Larger than any group: all charges are rows. */
export const neverGrouped = 1_000_000

export interface Work {
  readonly customerId: string
  readonly reservedWei: bigint
  /** 0: it is released. */
  readonly chargedWei: bigint
  readonly feeBps: number
  readonly held?: boolean
}

export interface WrittenWork {
  readonly rows: readonly SettleRow[]
  readonly receipts: readonly MarkedReceipt[]
}

/** Sets the money of this work aside, and says what is to be committed for it. */
export async function reserved({ db }: Pick<TestDatabase, 'db'>, work: readonly Work[]): Promise<WrittenWork> {
  const ids = work.map(() => newId('req'))
  const held = work.map(
    ({ customerId, reservedWei }, at): ReserveRow => ({
      id: ids[at] ?? '',
      customer: customerId,
      amountWei: reservedWei,
      entry: newId('led'),
      job: null,
    }),
  )
  const refused = (await reserveAll(db, held, ttlMs)).filter((outcome) => outcome !== 'reserved')
  if (refused.length > 0) throw new Error(`not reserved: ${refused.join()}`)
  const receipts: MarkedReceipt[] = []
  const rows = work.map(({ customerId, chargedWei, feeBps, held: waits = false }, at): SettleRow => {
    const { shareWei, feeWei } = splitCharge(chargedWei, feeBps)
    const { receipt } = chargeFor(customerId, chargedWei, { nodeId: `node_${at % 2}` })
    const billed = chargedWei > 0n
    if (billed) receipts.push(marked({ ...receipt, billed, status: waits ? 'held' : 'accepted' }))
    const ids4 = { debit: newId('led'), release: newId('led'), payout: newId('pay'), fee: newId('fee') }
    return {
      id: ids[at] ?? '',
      chargedWei,
      shareWei,
      feeWei,
      receiptHash: billed ? receipt.hash : null,
      node: billed ? `node_${at % 2}` : null,
      owner: null,
      kind: billed ? 'hosted_chat' : null,
      held: waits,
      ...ids4,
    }
  })
  return { rows, receipts }
}

/** One commit; as groups from `groupFrom` charges of a customer on. */
export const commit = ({ db }: Pick<TestDatabase, 'db'>, { rows, receipts }: WrittenWork, groupFrom = 1) =>
  settleAll(db, rows, receipts, groupFrom)

/** The books balance, and no row of money breaks a rule. What operators decide on has no approval event in these tests. */
export async function expectSound({ db }: Pick<TestDatabase, 'db'>): Promise<void> {
  await expectBooksBalance(db)
  expect((await rowFaults(db)).filter(({ rule }) => !rule.includes('approval event'))).toEqual([])
}

export const charges = (customerId: string, count: number, more: Partial<Work> = {}): readonly Work[] =>
  Array.from({ length: count }, (_, at) => ({
    customerId,
    reservedWei: 100n,
    chargedWei: BigInt(10 + at),
    feeBps: 1_000,
    ...more,
  }))

export const everything = (customerId: string) => ({ customerId, from: new Date(0), to: null })
/** In their order. */
export const entriesOf = async ({ db }: Pick<TestDatabase, 'db'>, customerId: string) =>
  (await ledgerPage(db, everything(customerId), null, 10_000)).toReversed()

export const groupsOf = ({ sql }: Pick<TestDatabase, 'sql'>, customerId: string) =>
  sql<{ rows: number; moved: boolean; seq: string }[]>`select rows, shares_moved as moved, last_seq::text as seq
    from charge_groups where customer_id = ${customerId} order by last_seq`
