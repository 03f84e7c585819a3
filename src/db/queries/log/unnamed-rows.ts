import { sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { accountEvents, catalogue, eventsOf, lastEvents, lockSubject, togetherWithin } from './row-states.ts'

/** What the events of the audit do not say as it is: no event has named it, or a version before wrote the last one. */
export interface UnnamedRow {
  readonly type: 'customer' | 'node' | 'model' | 'admin'
  readonly id: string
}

/** Whether an event that may be the last one of the subject says what it was. */
const isNamed = (subject: string) => `exists (select 1 from events l join newest w on w.subject = l.subject
  where l.subject = ${subject} and l.state is not null and l.created_at > w.at - ${togetherWithin})`

const selects = [
  `with ${accountEvents} select 'customer' as type, c.customer_id as id from customers c where not ${isNamed('c.customer_id')}`,
  `with ${eventsOf('node')} select 'node' as type, n.node_id as id from nodes n
    where n.kind = 'runtime' and not ${isNamed('n.node_id')}
    union all select 'node', d.node_id from deleted_nodes d
    where not ${isNamed('d.node_id')} and not exists (select 1 from nodes n where n.node_id = d.node_id)`,
  `with ${eventsOf('admin')} select 'admin' as type, a.admin_id as id from admins a
    where a.revoked_at is null and not ${isNamed('a.admin_id')}`,
  // One event says what the whole catalogue is.
  `with events as (${lastEvents(`'model_entries'::text`, `where e.target_type = 'model'`)}),
      newest as (select subject, max(created_at) as at from events group by subject)
    select 'model' as type, min(m.model_id) as id from model_entries m where not ${isNamed(`'model_entries'`)} having count(*) > 0`,
] as const

/** At most `limit`, in a fixed order. */
export async function unnamedRows(tx: Database, limit: number): Promise<readonly UnnamedRow[]> {
  const all = selects.map((select) => `(${select})`).join(' union all ')
  return tx.execute<UnnamedRow & Record<string, unknown>>(
    sql`select type, id from (${sql.raw(all)}) u order by type, id limit ${limit}`,
  )
}

/**
 * Waits for transactions that change one of them. Before the first event is written: that holds the end of this gateway's chain, for which a change
 * waits that holds its own row.
 */
export async function lockRows(tx: Database, rows: readonly UnnamedRow[]): Promise<void> {
  for (const { type, id } of rows) await lockSubject(tx, type === 'model' ? catalogue : id)
}
