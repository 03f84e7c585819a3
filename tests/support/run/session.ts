import postgres from 'postgres'

/**
 * A session beside those of this client, for a transaction or a lock that stays while others work. Its user ends it. Not by the driver's `reserve()`, which
 * never resolves where the driver has to connect for it (porsager/postgres#1219).
 */
export function sessionOf(sql: postgres.Sql): postgres.Sql {
  return postgres({ ...sql.options, max: 1 } as unknown as postgres.Options<Record<string, never>>)
}
