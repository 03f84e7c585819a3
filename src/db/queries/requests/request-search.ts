import { type SQL, sql } from 'drizzle-orm'
import { arrayOf } from '../../arrays.ts'
import type { Database } from '../../client.ts'
import { groupName, okStatus, type RequestColumn, requestColumns, tagsBetween } from './request-groups.ts'
import { groupMayHave, outcomeFits } from './request-outcomes.ts'
import type { RequestFilter, RequestPlace, RequestRecord } from './request-records.ts'

export interface RequestPage {
  readonly records: readonly RequestRecord[]
  /** The search ended here with fewer than were asked for, and may go on behind it; null: there are no more, or enough. */
  readonly searchedTo: RequestPlace | null
}

interface Search {
  readonly filter: RequestFilter
  readonly after: RequestPlace | null
}

/** What a group must have for one of its requests to fit. */
function namesFor({ model, nodeId, customerId, keyId, status, code, tag }: RequestFilter): readonly string[] {
  return [
    ...(model === null ? [] : [groupName('model', model)]),
    ...(nodeId === null ? [] : [groupName('node', nodeId)]),
    ...(customerId === null ? [] : [groupName('customer', customerId)]),
    ...(keyId === null ? [] : [groupName('key', keyId)]),
    ...(status === null || status === okStatus ? [] : [groupName('status', status)]),
    ...(code === null ? [] : [groupName('code', code)]),
    ...(tag === null ? [] : [groupName('tag', tag)]),
  ]
}

/** What of a request is looked at, and what must hold of it: no more of its group is taken apart. */
function lookedAt({ model, nodeId, customerId, keyId, status, code, ttftMsMin, outcome, tag }: RequestFilter) {
  const wanted: Partial<Record<RequestColumn['field'], string | number | null>> = {
    model,
    nodeId,
    customerId,
    keyId,
    status,
    code,
    ttftMs: ttftMsMin,
    tags: tag,
  }
  const [names, fits, ends]: [SQL[], SQL[], SQL[]] = [[], [], []]
  for (const [at, column] of requestColumns.entries()) {
    const value = wanted[column.field] ?? null
    const ofOutcome = outcome !== null && (column.field === 'status' || column.field === 'code')
    if (value === null && !ofOutcome) continue
    const name = sql.raw(column.column)
    const own = sql`coalesce(e.${name}, ${shared(column, at)})`
    names.push(name)
    if (ofOutcome) ends.push(own)
    if (value !== null) fits.push(holds(column, own, value))
  }
  const [ended, endedWith] = ends
  if (outcome !== null && ended !== undefined && endedWith !== undefined)
    fits.push(outcomeFits(outcome, ended, endedWith))
  return { names, fits }
}

/** What a request's own value must be for what was asked for. */
function holds({ field }: RequestColumn, own: SQL, value: string | number): SQL {
  if (field === 'ttftMs') return sql`${own} >= ${value}::integer`
  return field === 'tags' ? sql`${value} = any (string_to_array(${own}, ${tagsBetween}))` : sql`${own} = ${value}`
}

/** `at_ms` is the second of the array's places, which count from 1. */
const sharedPlace = (at: number) => (at === 0 ? 1 : at + 2)
const shared = ({ type }: RequestColumn, at: number) => sql.raw(`g.shared[${sharedPlace(at)}]::${type}`)

interface Found {
  readonly minute: string
  readonly group_id: string
  /** Its place in the group, from 1. */
  readonly place: number
  /** How many are in the group. */
  readonly rows: number
  /** Unix ms. */
  readonly at: number
}

interface Step {
  /** How many requests are looked through. */
  readonly requests: number
  /** Of any groups, or of those alone that have the names asked for. */
  readonly named: boolean
}

/**
 * Most pages are full with what the newest groups have, whatever is in them. The second step takes the server some 30 ms: then a
 * page ends.
 */
function stepOf(turn: number, limit: number): Step {
  return turn === 0
    ? { requests: 1_000 + 2 * limit, named: false }
    : { requests: 24_000 * requestsTimes ** (turn - 1), named: true }
}
const requestsTimes = 8

const moment = (at: Date) => sql`${at.toISOString()}::timestamptz`
const texts = (values: readonly string[]) => arrayOf('text', values)

/**
 * The newest groups, of `requests` requests, that may have what is looked for; `reach` is the newest moment of those behind them.
 * By an outcome they are told by how their names begin, which no index finds: but a group is one of 250 requests.
 */
function nearGroups(
  { outcome, ttftMsMin }: RequestFilter,
  { from, last }: { readonly from: SQL; readonly last: SQL },
  names: readonly string[],
  requests: number,
): SQL {
  if (outcome === null)
    return sql`select * from request_groups_newest(${from}, ${last}, ${texts(names)}, ${ttftMsMin}::integer, ${requests}::integer)`
  return sql`
    with fitting as (
      select g.minute, g.group_id, g.newest, sum(g.rows) over (order by g.newest desc, g.group_id) as upto
      from request_groups g
      where g.newest >= ${from} and g.minute <= ${last} and g.oldest <= ${last} and g.names @> ${texts(names)}
        and (${ttftMsMin}::integer is null or g.ttft_most >= ${ttftMsMin}::integer) and ${groupMayHave(outcome)}
      order by g.newest desc, g.group_id limit ${requests}
    )
    select minute, group_id, (select max(newest) from fitting where upto > ${requests}) as reach
    from fitting where upto <= ${requests}`
}

/** Where the newest requests are that fit, and down to which moment these are all; null: there are no others. */
async function findRequests(
  db: Database,
  { filter, after }: Search,
  { requests, named }: Step,
  limit: number,
): Promise<{ readonly found: readonly Found[]; readonly reach: Date | null }> {
  const { from, to } = filter
  const looked = lookedAt(filter)
  const last = [to, after?.at ?? null].filter((end) => end !== null).sort((a, b) => a.getTime() - b.getTime())[0]
  const conditions = [
    sql`r.at > coalesce(n.reach, '-infinity')`,
    ...(from === null ? [] : [sql`r.at >= ${moment(from)}`]),
    ...(to === null ? [] : [sql`r.at < ${moment(to)}`]),
    ...(after === null ? [] : [sql`(r.at, e.request_id) < (${moment(after.at)}, ${after.requestId})`]),
    ...looked.fits,
  ]
  const arrays = [sql`at_ms`, sql`request_id`, ...looked.names]
  const range = {
    from: from === null ? sql`'-infinity'` : moment(from),
    last: last === undefined ? sql`'infinity'` : moment(last),
  }
  const near = nearGroups(filter, range, named ? namesFor(filter) : [], requests)
  const rows = await db.execute<Record<keyof Found | 'reach', string | null>>(sql`
    with near as materialized (${near}), found as (
      select g.minute::text, g.group_id, e.place, g.rows, (extract(epoch from r.at) * 1000)::bigint as at
      from near n, lateral (select * from request_groups g where (g.minute, g.group_id) = (n.minute, n.group_id) offset 0) as g,
        unnest(${sql.join(
          arrays.map((name) => sql`g.${name}`),
          sql`, `,
        )}) with ordinality as e (${sql.join(arrays, sql`, `)}, place),
        lateral (select g.minute + e.at_ms * interval '1 millisecond' as at) as r
      where ${sql.join(conditions, sql` and `)} order by r.at desc, e.request_id desc limit ${limit}
    )
    select (select (extract(epoch from reach) * 1000)::bigint from near limit 1) as reach, found.*
    from (values (1)) as one left join found on true`)
  const reach = rows[0]?.reach ?? null
  const found = rows.flatMap(({ minute, group_id, place, rows: count, at }) =>
    minute === null || group_id === null
      ? []
      : [{ minute, group_id, place: Number(place), rows: Number(count), at: Number(at) }],
  )
  return { found, reach: reach === null ? null : new Date(Number(reach)) }
}

/** Requests that lie by themselves among so many others are picked out one by one, else their groups are taken apart as a whole. */
const sparseFrom = 8
/** To pick one takes the server some 60 µs. */
const pickedMax = 400

function areSparse(found: readonly Found[]): boolean {
  const groups = new Map(found.map(({ group_id, rows }) => [group_id, rows]))
  return [...groups.values()].reduce((sum, rows) => sum + rows, 0) > sparseFrom * found.length
}

const fields = (value: (column: RequestColumn, at: number) => SQL) =>
  sql.join(
    requestColumns.map((column, at) => sql`${value(column, at)} as ${sql.identifier(column.field)}`),
    sql`, `,
  )
const picked = fields((column, at) => sql`coalesce(${sql.raw(`g.${column.column}[w.place]`)}, ${shared(column, at)})`)
const apart = fields((column, at) => sql`coalesce(${sql.raw(`e.${column.column}`)}, ${shared(column, at)})`)
const [everyArray, everyName] = ['g.', ''].map((of) =>
  sql.raw(requestColumns.map(({ column }) => of + column).join(', ')),
) as [SQL, SQL]

const keyOf = ({ group_id, place }: { readonly group_id: string; readonly place: number }) => `${place} ${group_id}`

/** The requests of those places, in their order. */
async function readRequests(db: Database, found: readonly Found[]): Promise<readonly RequestRecord[]> {
  if (found.length === 0) return []
  const groups = [...new Map(found.map((one) => [one.group_id, one])).values()]
  const wanted = (of: readonly Found[]) => sql`unnest(${texts(of.map(({ minute }) => minute))}::timestamptz[],
    ${texts(of.map(({ group_id }) => group_id))}, ${arrayOf(
      'numeric',
      of.map(({ place }) => place),
    )}::integer[])`
  const group = sql`lateral (select * from request_groups g where (g.minute, g.group_id) = (w.minute, w.group_id) offset 0) as g`
  const read = await db.execute<Omit<RequestRecord, 'at'> & { readonly group_id: string; readonly place: string }>(
    areSparse(found)
      ? sql`select g.group_id, w.place, ${picked} from ${wanted(found)} as w (minute, group_id, place), ${group}`
      : sql`select g.group_id, e.place, ${apart} from ${wanted(groups)} as w (minute, group_id, any_place), ${group},
          unnest(${everyArray}) with ordinality as e (${everyName}, place)`,
  )
  const records = new Map(
    read.map(({ group_id, place, ...record }) => [keyOf({ group_id, place: Number(place) }), record]),
  )
  // A day may have been dropped meanwhile.
  return found.flatMap((one) => {
    const record = records.get(keyOf(one))
    return record === undefined ? [] : [{ ...record, at: new Date(one.at) }]
  })
}

/** The place before everything of that moment. */
const beforeMoment = (reach: Date): RequestPlace => ({ at: new Date(reach.getTime() + 1), requestId: '0' })

const isBehind = (place: RequestPlace, after: RequestPlace | null) => after === null || place.at < after.at

async function pageOf(db: Database, found: readonly Found[], searchedTo: RequestPlace | null): Promise<RequestPage> {
  const most = areSparse(found) ? pickedMax : found.length
  const records = await readRequests(db, found.slice(0, most))
  return { records, searchedTo: found.length > most ? (records.at(-1) ?? searchedTo) : searchedTo }
}

/**
 * A page, newest first. Groups are looked through from the newest on, more of them in each step, and not without an end: a page
 * may have fewer rows than were asked for and still say where to go on (as in AIP-158). Groups that cannot have what is looked
 * for are left out by their names, so only what several filters have in common, and rarely, is searched for so long; and what lies
 * by itself in many groups comes 400 at once.
 */
export async function requestPage(
  db: Database,
  filter: RequestFilter,
  after: RequestPlace | null,
  limit: number,
): Promise<RequestPage> {
  const search = { filter, after }
  for (let turn = 0; ; turn++) {
    const { found, reach } = await findRequests(db, search, stepOf(turn, limit), limit)
    if (reach === null || found.length === limit) return pageOf(db, found, null)
    const searchedTo = beforeMoment(reach)
    // Groups that reach over the same moments could be more than a page looks through: it must come further than it began.
    if (turn > 0 && isBehind(searchedTo, after)) return pageOf(db, found, searchedTo)
  }
}
