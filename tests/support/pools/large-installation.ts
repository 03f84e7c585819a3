import type { Sql } from 'postgres'
import { type OpenDatabase, openDatabase } from '../../../src/db/client.ts'
import { keepRequestRecords } from '../../../src/db/queries/requests/request-records.ts'
import { receiptText, textHash } from '../../../src/protocol/receipts/receipt.ts'
import { dayMs } from '../../../src/time.ts'
import { factsOf } from '../money/forging.ts'
import { charges, commit, reserved } from '../money/groups.ts'
import { insertGroup } from '../money/insert-receipts.ts'
import { insertRequests } from './request-rows.ts'

const sizes = { nodes: 2_000, customers: 100_000 }

/** The id of the n-th of a kind. */
const idOf = (prefix: string, n: string) => `'${prefix}_' || lpad((${n})::text, 26, '0')`
export const customerAt = (n: number): string => `cus_${String(n).padStart(26, '0')}`

/** One connection on which a statement may take its time. */
export async function patientDatabase(url: string): Promise<OpenDatabase> {
  const opened = openDatabase({ url, connectionsMax: 1 })
  await opened.sql`set statement_timeout = 0`
  return opened
}

/** Customers with a key each; all nodes are public. */
export async function insertAccounts(sql: Sql): Promise<void> {
  await sql.unsafe(`insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed, balance_wei)
    select ${idOf('cus', 'n')}, 'customer ' || n, sha256(('token ' || n)::bytea), '\\x00', 1000000000000
    from generate_series(1, ${sizes.customers}) n`)
  await sql.unsafe(`insert into gateway_keys (key_id, customer_id, key_hash, display_prefix, name)
    select ${idOf('key', 'n')}, ${idOf('cus', 'n')}, sha256(('key ' || n)::bytea), 'svk_', 'key ' || n
    from generate_series(1, ${sizes.customers}) n`)
}

/** Agents that have never dialled in. */
export async function insertNodes(sql: Sql): Promise<void> {
  await sql.unsafe(`insert into nodes (node_id, customer_id, kind, name, visibility, privacy_class, node_class)
    select ${idOf('node', 'n')}, ${idOf('cus', 'n')}, 'agent', 'box ' || n, 'public', 'public', 'standard'
    from generate_series(1, ${sizes.nodes}) n`)
}

const groupRows = 250
const templates = 40
const requestsOwn = 100_000
const days = 7

/** Copies the rows of a table so many times. `changed`: what is another in the n-th copy, by column. */
async function copyRows(
  sql: Sql,
  table: string,
  times: number,
  changed: Readonly<Record<string, string>>,
): Promise<void> {
  const columns = await sql<{ name: string }[]>`
    select column_name as name from information_schema.columns where table_name = ${table} order by ordinal_position`
  const names = columns.map(({ name }) => name)
  const values = names.map((name) => changed[name] ?? `t.${name}`)
  await sql.unsafe(`insert into ${table} (${names.join(', ')})
    select ${values.join(', ')} from (select *, row_number() over () as at from ${table}) t, generate_series(1, ${times}) n`)
}

/** Apart by so much, the numbers of a copy are those of no other. */
const apart = 100_000_000
const shifted = (array: string) => `(select array_agg(x + n::bigint * ${apart}) from unnest(t.${array}) x)`
const moment = (column: string) => `t.${column} - n * interval '${days} days' / copies.count`

/**
 * So many requests of the last week, as many free receipts and as many charges with what belongs to them, each in groups of
 * 250: a few that the gateway's own code writes, and copies of them with numbers, moments and customers of their own.
 */
export async function insertRecords({ db, sql }: OpenDatabase, rows: number, now: number): Promise<void> {
  await keepRequestRecords(db, new Date(now - (days + 1) * dayMs), new Date(now), new Date(0))
  const own = Math.min(rows, requestsOwn)
  const requestCopies = Math.round(rows / own) - 1
  // Whole minutes: the moments of a group count from its own.
  const minutes = Math.floor((days * 24 * 60) / (requestCopies + 1))
  await insertRequests(
    sql,
    `select 'req_' || lpad(i::text, 26, '0'), to_timestamp(${now / 1_000}) - interval '${minutes} minutes' + i * (interval '${minutes} minutes' / ${own}),
      ${idOf('cus', 'i / 1000 % 1000 + 1')}, ${idOf('key', 'i / 1000 % 1000 + 1')}, 'chat', true, 'model-' || i % 20, ${idOf('node', 'i % 10 + 1')}, 1, 0, null, 2,
      (i * 7919::bigint % 4000)::int, 4000, 100, 200, null, case when i % 100 = 1 then 429 when i % 1000 = 2 then 502 else 200 end,
      case when i % 100 = 1 then 'rate_limited' when i % 1000 = 2 then 'upstream_error' end, null, '0x' || repeat('ab', 32), null
    from generate_series(1, ${own}) i`,
  )
  const back = (column: string) => `t.${column} - n * interval '${minutes} minutes'`
  await copyRows(sql, 'request_groups', requestCopies, {
    group_id: `t.group_id || ' ' || n`,
    minute: back('minute'),
    oldest: back('oldest'),
    newest: back('newest'),
  })
  for (let at = 1; at <= templates; at++) {
    const customerId = customerAt(at)
    await commit({ db }, await reserved({ db }, charges(customerId, groupRows, { reservedWei: 1_000n })))
    const free = Array.from({ length: groupRows }, () => {
      const facts = factsOf({ nodeId: `node_${String((at % 10) + 1).padStart(26, '0')}` })
      return { hash: textHash(receiptText(facts)), text: receiptText(facts), customerId, facts }
    })
    await insertGroup({ sql }, free)
  }
  const times = Math.max(1, Math.round(rows / (templates * groupRows)) - 1)
  const at = (column: string) => moment(column).replace('copies.count', String(times))
  const customer = idOf('cus', `(t.at + n * ${templates}) % ${sizes.customers} + 1`)
  // A group is known by its first entry.
  const copy = idOf('led', 't.at * 1000000 + n')
  const numbers = {
    last_seq: `t.last_seq + n::bigint * ${apart}`,
    first_seq: `t.first_seq + n::bigint * ${apart}`,
    created_at: at('created_at'),
  }
  await copyRows(sql, 'charge_groups', times, {
    ...numbers,
    debit_seq: shifted('debit_seq'),
    release_seq: shifted('release_seq'),
    group_id: copy,
    debit_ids: `array[${copy}] || t.debit_ids[2:]`,
    customer_id: customer,
  })
  await copyRows(sql, 'receipt_groups', times, {
    ...numbers,
    seq: shifted('seq'),
    hashes: `sha256((n || ' ' || t.first_seq)::bytea) || substring(t.hashes from 33)`,
    first_hash: `sha256((n || ' ' || t.first_seq)::bytea)`,
  })
  await sql.unsafe('analyze')
}
