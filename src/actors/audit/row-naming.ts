import type { Database } from '../../db/client.ts'
import { lockRows, unnamedRows } from '../../db/queries/log/unnamed-rows.ts'
import type { AuditContext, AuditTrail } from './audit-context.ts'

export interface RowNamingOptions {
  readonly db: Database
  readonly trail: AuditTrail
}

export interface RowsNamed {
  readonly named: number
  /** True: every row has its event now, and from now on `audit books` takes none without. */
  readonly all: boolean
}

/** Events of this gateway wait for the end of one transaction, which takes a few ms for each of its own. */
const rowsAtOnce = 100
/** Of one call. */
const rowsNamedMax = 2_000

/** What the last event of an action says that has named everything (§36). */
const allNamed = 'all_named'

/**
 * Lets an admin vouch for the rows that no event has named: those from before events said what their target was, and those whose event
 * was purged. Never by itself: a row that was inserted before a start would be vouched for by that start (docs/decisions/0047).
 */
export async function nameRows({ db, trail }: RowNamingOptions, audit: AuditContext): Promise<RowsNamed> {
  let named = 0
  for (;;) {
    const found = await db.transaction(async (tx) => {
      const rows = await unnamedRows(tx, rowsAtOnce)
      await lockRows(tx, rows)
      for (const { type, id } of rows) await trail.record(tx, audit, { targetType: type, targetId: id })
      if (rows.length === 0) await trail.record(tx, audit, { targetId: null, metadata: { result: allNamed } })
      return rows.length
    })
    named += found
    if (found === 0) return { named, all: true }
    if (named >= rowsNamedMax) return { named, all: false }
  }
}
