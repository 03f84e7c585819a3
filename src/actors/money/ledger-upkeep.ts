import type { Clock } from '../../clock.ts'
import type { Database } from '../../db/client.ts'
import { renewReservations, staleReservations } from '../../db/queries/money/ledger.ts'
import { type Books, readBooks, reservedTotal } from '../../db/queries/money/ledger-proof.ts'
import { makeReceiptPlaces } from '../../db/queries/money/receipt-ranges.ts'
import { loop } from '../../host/loop.ts'
import { failureName, type Log } from '../../log.ts'
import { brokenRules } from '../../machines/rules/books.ts'
import { minuteMs, secondMs } from '../../time.ts'
import { sharedRun } from '../durable/shared-run.ts'

/**
 * The periodic work of the ledger: it renews open reservations, releases abandoned ones, reads and proves the books, and sorts the
 * hashes of receipts.
 */
export interface LedgerUpkeep {
  start(): void
  stop(): void
  /** Releases reservations whose renewals stopped and resolves with their number. It also runs every minute. */
  sweep(): Promise<number>
  /** The books as they are at the question or after it. Reads the whole ledger, for one caller or for many. */
  books(): Promise<Books>
  state(): UpkeepState
}

/** What the last read of the books found. */
export interface UpkeepState {
  /** null: not read yet. */
  readonly reservedWei: bigint | null
  /** How many rules the books broke at the last proof; null: there was none yet. */
  readonly brokenRules: number | null
  /** How many reservations were released since the start because their renewals had stopped. */
  readonly stale: number
}

export interface UpkeepOptions {
  readonly db: Database
  readonly log: Log
  /** A reservation without a renewal is released after this time, ms (§13). */
  readonly staleMs: number
  /** The ids of this gateway's own reservations that are rows. */
  readonly open: () => readonly string[]
  /** Resolves with how many of the reservations were open. */
  readonly release: (reservationIds: readonly string[]) => Promise<number>
  readonly clock?: Clock
}

/** How often a reservation is renewed within its life. */
const renewalsPerLife = 3
const sweepEveryMs = minuteMs
/** In one commit. */
const sweepMax = 500
const reservedReadEveryMs = 5 * secondMs
/** The proof is rare because it reads the whole ledger. */
const proofEveryMs = 10 * minuteMs
const placesEveryMs = minuteMs
/** Longer than a statement may take. */
const answerMsMax = 20 * secondMs

export function createUpkeep(options: UpkeepOptions): LedgerUpkeep {
  const { db, log, staleMs, open, release, clock } = options
  let reservedWei: bigint | null = null
  let brokenCount: number | null = null
  let stale = 0

  const every = (everyMs: number, whenFailed: string, run: () => Promise<unknown>) => {
    const onFailure = (error: unknown) => log.warn(whenFailed, { error: failureName(error) })
    return loop({ everyMs, boundMs: Math.max(everyMs, answerMsMax), run, onFailure, clock })
  }
  const sweep = async () => {
    let count = 0
    for (let found = sweepMax, released = 1; found === sweepMax && released > 0; count += released) {
      const stales = await staleReservations(db, sweepMax)
      const own = new Set(open())
      found = stales.length
      released = await release(stales.filter((id) => !own.has(id)))
    }
    stale += count
    if (count > 0) log.warn('reservations_stale', { reservations: count })
    return count
  }
  const books = sharedRun(async () => {
    const read = await readBooks(db)
    brokenCount = brokenRules(read).length
    reservedWei = read.reservedWei + read.leasedWei
    return read
  })
  const prove = async () => {
    const broken = brokenRules(await books())
    for (const rule of broken) log.error('books_do_not_balance', { rule })
  }
  const loops = [
    every(staleMs / renewalsPerLife, 'reservations_not_renewed', () => renewReservations(db, open(), staleMs)),
    every(sweepEveryMs, 'reservations_not_swept', sweep),
    every(reservedReadEveryMs, 'reserves_not_read', async () => {
      reservedWei = await reservedTotal(db)
    }),
    every(proofEveryMs, 'books_not_proven', prove),
    every(placesEveryMs, 'receipt_places_not_made', () => makeReceiptPlaces(db)),
  ]
  return {
    start: () => {
      for (const each of loops) each.start()
    },
    stop: () => {
      for (const each of loops) void each.stop()
    },
    sweep,
    books,
    state: () => ({ reservedWei, brokenRules: brokenCount, stale }),
  }
}
