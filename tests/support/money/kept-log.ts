import type postgres from 'postgres'

/** What a backup brings back of the public log and of what stands in it. */
const tables = [
  'log_entries',
  'log_forks',
  'log_receipts',
  'log_tiles',
  'log_state',
  'log_checkpoints',
  'log_cosignatures',
  'receipt_rows',
  'receipt_groups',
] as const

/** Backups so far: one database may have several. */
let kepts = 0

/** Keeps a database's log as it is now. What is returned puts it back between two turns, as a restore of a backup does, any number of times. */
export async function keepLog(sql: postgres.Sql): Promise<() => Promise<void>> {
  const kept = kepts++
  for (const table of tables) await sql.unsafe(`create table kept_${kept}_${table} as table ${table}`)
  return async () => {
    await sql.begin(async (tx) => {
      await tx`select pg_advisory_xact_lock(7413, 80)`
      for (const table of tables) {
        const overriding = table === 'receipt_rows' ? 'overriding system value' : ''
        await tx.unsafe(`delete from ${table}`)
        await tx.unsafe(`insert into ${table} ${overriding} select * from kept_${kept}_${table}`)
      }
    })
  }
}
