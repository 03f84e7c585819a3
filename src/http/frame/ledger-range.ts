import type { LedgerRange } from '../../db/queries/money/ledger-pages.ts'
import { type QueryValues, windowDays } from '../../protocol/wire/query.ts'
import { dayMs } from '../../time.ts'
import { type Place, pageQuery, readRange } from './page.ts'

/** Of what reads a ledger: `from` stands above `window_days`. */
export const ledgerQuery = { ...pageQuery, window_days: windowDays } as const

export function readLedgerRange(
  query: QueryValues<typeof ledgerQuery>,
  customerId: string,
  nowMs: number,
): LedgerRange {
  const { from, to } = readRange(query)
  return { customerId, from: from ?? new Date(nowMs - query.window_days * dayMs), to }
}

interface Entry {
  readonly createdAt: Date
  readonly seq: bigint | null
}
/** Entries of one moment have their order by their number. */
export const ledgerPlace = ({ createdAt: at, seq }: Entry): Place => ({ at, id: String(seq ?? 0) })
export const seqOf = (place: Place | null): bigint | null =>
  place === null || !/^[0-9]{1,18}$/.test(place.id) ? null : BigInt(place.id)
