import type postgres from 'postgres'
import { sessionOf } from '../../../src/db/client.ts'

/** As a gateway that is at its turn of the log: no other one goes on with it until what is returned is called. */
export async function holdLog(sql: postgres.Sql): Promise<() => Promise<void>> {
  const holder = sessionOf(sql)
  await holder`select pg_advisory_lock(7413, 80)`
  return () => holder.end()
}
