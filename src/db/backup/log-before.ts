import type { Checkpoint } from '../../protocol/log/checkpoint.ts'
import { connect } from '../client.ts'

/** Where the log of a database stands that is to be replaced; null: it has none that this version can read. */
export async function logBefore(url: string): Promise<Checkpoint | null> {
  const sql = connect(url, { max: 1, connection: { application_name: 'penstock-restore' } })
  try {
    const [row] = await sql.unsafe<{ origin: string; size: string; root: Uint8Array }[]>(
      'select origin, size::text as size, root from public.log_state',
    )
    return row === undefined ? null : { ...row, size: Number(row.size) }
  } catch {
    // An empty database has no such table. What else is wrong with it, the restore itself tells.
    return null
  } finally {
    await sql.end({ timeout: 5 })
  }
}
