import { readBooks } from '../../../src/db/queries/money/ledger-proof.ts'
import { brokenRules } from '../../../src/machines/rules/books.ts'
import { metricSum } from '../../support/gateways/metric.ts'
import { promptly } from '../../support/run/pace.ts'
import type { HostileGateway } from './hostile-gateway.ts'
import { leaksIn } from './leaks.ts'
import { anyMarker } from './markers.ts'
import { leakedPages } from './pages.ts'
import type { Fault } from './verdict.ts'

/** The counters go back within a deadline of the gateway, and what is idle is closed by the nodes. */
const restMs = 30_000
const lookMs = 20
/** Polls and idle connections to the database come and go. */
const descriptorsSlack = 12
/** Two minutes later an agent looks up what it has signed, each minute, and keeps the connection: both of its ends count. */
const descriptorsPerAgent = 2
const idsPerQuery = 5_000

/** What a gateway keeps of answers, forms and exports. Where it does not tell, the heap at rest has to (`lanes.ts`). */
export const keptBytesMetric = 'svc_memory_kept_bytes'

async function gauges(gateway: HostileGateway): Promise<Readonly<Record<string, number>>> {
  const texts = await Promise.all(
    gateway.urls.map(async (url) => (await fetch(`${url}/metrics`, { headers: { connection: 'close' } })).text()),
  )
  const value = (name: string) => texts.reduce((sum, text) => sum + metricSum(text, name), 0)
  if (leaksIn(texts.join('\n')).length > 0) return { leaked: 1 }
  return {
    inFlight: value('svc_requests_in_flight'),
    queued: value('svc_requests_queued'),
    tunnelStreams: value('svc_tunnel_streams'),
    memoryKept: value(keptBytesMetric),
  }
}

/** The oldest transaction that was under way when the tables were last looked through. */
const lookedFrom = new WeakMap<object, string>()
/** A transaction that runs anywhere on the server keeps what ended since its start among what is looked at: told once. */
const toldRows = new WeakMap<object, Set<string>>()

/**
 * Whether any column of any table has a marker in it, as text or as bytes. What was there at the last look and has not changed since
 * is not read again: after a million cases that would be millions of rows, each time.
 */
export async function leakedRows(gateway: Pick<HostileGateway, 'database'>): Promise<readonly Fault[]> {
  const { sql } = gateway.database
  const [before] = await sql<{ xmin: string }[]>`select pg_snapshot_xmin(pg_current_snapshot())::text as xmin`
  const tables = await sql<{ name: string }[]>`
    select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema')`
  const faults: Fault[] = []
  const told = toldRows.get(gateway) ?? new Set()
  toldRows.set(gateway, told)
  for (const { name } of tables) {
    const rows = await sql.begin(async (tx) => {
      await tx`set local statement_timeout = '10min'`
      return tx.unsafe<{ row: string; version: string }[]>(
        `select t::text as row, v.version from ${name} t, concat_ws(' ', '${name}', t.xmin, t.ctid) as v (version)
         where t.xmin::text::bigint >= $3::bigint and (t::text ~ $1 or t::text ~ $2)
           and v.version not in (select json_array_elements_text($4::text::json)) limit 3`,
        [anyMarker.text.source, anyMarker.bytesAsHex.source, lookedFrom.get(gateway) ?? '0', JSON.stringify([...told])],
      )
    })
    for (const { row, version } of rows) {
      told.add(version)
      faults.push({ kind: 'leak', detail: `${name}: ${row}` })
    }
  }
  lookedFrom.set(gateway, before?.xmin ?? '0')
  return faults
}

async function moneyFaults({ database: { db, sql } }: HostileGateway): Promise<readonly Fault[]> {
  const broken = brokenRules(await readBooks(db)).map((rule): Fault => ({ kind: 'books', detail: rule }))
  const [open] = await sql<{ n: number; wei: string }[]>`
    select (select count(*)::int from reservations where status = 'open') as n,
      (select sum(reserved_wei)::text from customers) as wei`
  if (open?.n === 0 && open.wei === '0') return broken
  return [...broken, { kind: 'not at rest', detail: `${open?.n} reservations, ${open?.wei} wei` }]
}

/** Debits of requests whose caller was told that they failed. */
export async function chargedForNothing(
  { database: { sql } }: HostileGateway,
  requestIds: readonly string[],
): Promise<readonly Fault[]> {
  const faults: Fault[] = []
  for (let from = 0; from < requestIds.length; from += idsPerQuery) {
    const ids = requestIds.slice(from, from + idsPerQuery)
    const rows = await sql<{ id: string }[]>`
      select reservation_id as id from ledger_entries where kind = 'debit' and reservation_id in ${sql(ids)}`
    for (const { id } of rows) faults.push({ kind: 'charged for nothing', detail: id })
  }
  return faults
}

interface ShownNode {
  readonly node_id: string
  readonly state: string
  readonly in_flight: number
  readonly runtimes: readonly { readonly models: readonly { readonly model: string }[] }[]
}

/** The nodes whose calls have not ended, by their models: each lane has one of its own. */
async function restless(gateway: HostileGateway): Promise<readonly string[]> {
  const { nodes } = await gateway.admin<{ nodes: readonly ShownNode[] }>('GET', '/v1/admin/nodes')
  return nodes
    .filter(({ in_flight: calls }) => calls > 0)
    .map(({ node_id: id, state, in_flight: calls, runtimes }) => {
      const models = runtimes.flatMap(({ models: served }) => served.map(({ model }) => model))
      return `${calls} of ${models.join()} (${id}, ${state})`
    })
}

/** The counters are asked for again and again, the books once those are still: of a long run they are long. */
async function counterFaults(gateway: HostileGateway, descriptorsMax: number): Promise<readonly Fault[]> {
  const beganMs = performance.now()
  for (;;) {
    const counts = await gauges(gateway)
    const descriptors = gateway.descriptors()
    const still = Object.values(counts).every((n) => n === 0) && descriptors <= descriptorsMax
    const money = still ? await moneyFaults(gateway) : []
    if (still && money.length === 0) return []
    const tookMs = performance.now() - beganMs
    if (tookMs > restMs && tookMs > promptly(restMs)) {
      const seen = { ...counts, calls: await restless(gateway), descriptors, descriptorsMax, money }
      return [{ kind: 'not at rest', detail: JSON.stringify(seen) }]
    }
    await Bun.sleep(lookMs)
  }
}

/** How many descriptors a gateway has that nobody asks; after a warm-up. */
export async function descriptorsAtRest(gateway: HostileGateway): Promise<number> {
  await Bun.sleep(300)
  return gateway.descriptors() + descriptorsSlack + descriptorsPerAgent * gateway.agents()
}

/** Nobody asks any more: everything is back where it was, and nothing was kept. */
export async function restFaults(gateway: HostileGateway, descriptorsMax: number): Promise<readonly Fault[]> {
  const faults = [
    ...(await counterFaults(gateway, descriptorsMax)),
    ...(await leakedRows(gateway)),
    ...(await leakedPages(gateway)),
  ]
  for (const line of gateway.logFaults.splice(0)) faults.push({ kind: 'leak', detail: line })
  if (gateway.dead) faults.push({ kind: 'dead', detail: 'the process has ended' })
  return faults
}
