import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Sql, TransactionSql } from 'postgres'

/** One file for each function of the database, as `CREATE OR REPLACE FUNCTION`. */
const folder = resolve(import.meta.dir, '../src/db/functions')

interface DefinedFunction {
  readonly name: string
  /** Name, arguments and result: what `CREATE OR REPLACE` cannot change. */
  readonly signature: string
  readonly address: string
  readonly definition: string
}

export interface FunctionFile {
  readonly name: string
  readonly text: string
}

export const functionFiles = (): readonly FunctionFile[] =>
  readdirSync(folder)
    .sort()
    .map((file) => ({ name: file.replace(/\.sql$/, ''), text: readFileSync(join(folder, file), 'utf8').trim() }))

/** The functions of the database, all of which are ours. */
const defined = (sql: Sql | TransactionSql) =>
  sql<DefinedFunction[]>`
    select p.proname as name, p.oid::regprocedure::text as address, pg_get_functiondef(p.oid) as definition,
      p.oid::regprocedure || ' ' || pg_get_function_result(p.oid) as signature
    from pg_proc p where p.pronamespace = 'public'::regnamespace order by 1, 2`

class Undone extends Error {}

/** What the database would define if it had been made from `files` alone; nothing is changed. */
async function definedBy(sql: Sql, files: readonly FunctionFile[]): Promise<readonly DefinedFunction[]> {
  let found: readonly DefinedFunction[] = []
  const trial = sql.begin(async (transaction) => {
    // A function may call one that comes later.
    await transaction`set local check_function_bodies = off`
    for (const { address } of await defined(transaction)) await transaction.unsafe(`drop function ${address} cascade`)
    for (const { text } of files) await transaction.unsafe(text)
    found = await defined(transaction)
    throw new Undone()
  })
  await trial.catch((error: unknown) => {
    if (!(error instanceof Undone)) throw error
  })
  return found
}

/** The statements that make the functions of a migrated database those of `files`; empty: they are. */
export async function functionChanges(
  sql: Sql,
  files: readonly FunctionFile[] = functionFiles(),
): Promise<readonly string[]> {
  const [present, wanted] = [await defined(sql), await definedBy(sql, files)]
  const kept = new Set(wanted.map(({ signature }) => signature))
  const same = new Set(present.map(({ definition }) => definition))
  const changed = new Set(wanted.filter(({ definition }) => !same.has(definition)).map(({ name }) => name))
  return [
    ...present.filter(({ signature }) => !kept.has(signature)).map(({ address }) => `DROP FUNCTION ${address};`),
    ...files.filter(({ name }) => changed.has(name)).map(({ text }) => text),
  ]
}
