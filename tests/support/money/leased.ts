import { groupSubject } from '../../../src/actors/log/receipt-macs.ts'
import { type Charge, settlementOf } from '../../../src/actors/money/charge.ts'
import { type LeasedCharge, settleLeased } from '../../../src/db/queries/money/leased-charges.ts'
import { takeLease } from '../../../src/db/queries/money/leases.ts'
import { newId } from '../../../src/ids.ts'
import type { TestDatabase } from '../run/postgres.ts'
import { chargeFor } from './ledger.ts'
import { testMacs } from './receipt-macs.ts'

const ttlMs = 60_000
const mark = (...group: Parameters<typeof groupSubject>) => testMacs.of(groupSubject(...group))

/** A lease that is on the disk. */
export async function leaseOf({ db }: Pick<TestDatabase, 'db'>, customerId: string, wei: bigint): Promise<string> {
  const id = newId('mls')
  const got = await takeLease(db, { id, customerId, wei, ttlMs })
  if (got !== wei) throw new Error(`leased ${got} of ${wei}`)
  return id
}

/** A charge of 60 of 100 wei under this lease, with its receipt. `receipt`: what it has beside its facts. */
export function leasedWork(
  customerId: string,
  leaseId: string,
  {
    receipt: extra,
    ...more
  }: Partial<Omit<Charge, 'receipt'>> & { readonly receipt?: Partial<Charge['receipt']> } = {},
): LeasedCharge {
  const reservation = { id: newId('req'), customerId, amountWei: 100n }
  const charge = chargeFor(customerId, 60n, more)
  const { row, receipt } = settlementOf(reservation, { ...charge, receipt: { ...charge.receipt, ...extra } }, testMacs)
  if (receipt === null) throw new Error('no receipt')
  const under = { ...reservation, leaseId, reservedAtMs: Date.now(), entry: newId('led') }
  return { reservation: under, row, receipt, sentIn: [] }
}

/** The calls of one process. */
export class LeasedCalls {
  private last = 0n

  constructor(private readonly database: Pick<TestDatabase, 'sql'>) {}

  /** The number of a call that comes later, or not at all. */
  number(): bigint {
    return ++this.last
  }

  /** `grouped` false: receipts are rows. */
  send(charges: readonly LeasedCharge[], { number = this.number(), grouped = true } = {}) {
    return settleLeased(this.database.sql, charges, { number, ttlMs, mark: grouped ? mark : null })
  }
}
