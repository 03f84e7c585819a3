import { type SQL, sql } from 'drizzle-orm'
import type { Sql } from 'postgres'
import { prepared } from './prepared.ts'

/** Each number of groups is a statement of its own, which a connection keeps. */
const groupsPerStatement = 4

export const inParts = <T>(values: readonly T[], size: number): readonly (readonly T[])[] =>
  Array.from({ length: Math.ceil(values.length / size) }, (_, at) => values.slice(at * size, (at + 1) * size))

/** Calls of functions that write a group each: all or none. */
export async function insertGroups(client: Sql, calls: readonly SQL[]): Promise<void> {
  const [first = [], ...others] = inParts(calls, groupsPerStatement)
  if (others.length === 0) return insertPart(client, first)
  await client.begin(async (transaction) => {
    for (const part of [first, ...others]) await insertPart(transaction, part)
  })
}

async function insertPart(client: Pick<Sql, 'unsafe'>, calls: readonly SQL[]): Promise<void> {
  if (calls.length > 0) await prepared(client).execute(sql`select ${sql.join([...calls], sql`, `)}`)
}
