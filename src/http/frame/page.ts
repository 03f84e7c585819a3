import { filter } from '../../protocol/wire/query.ts'
import { invalidParameter } from './query.ts'

/** Where a page of a list ends; a list is sorted by time, then by id, newest first. */
export interface Place {
  readonly at: Date
  readonly id: string
}

const instant = '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:[0-9]{2})$'
const moment = (description: string) => filter(description, instant, 'a time such as 2026-11-20T16:00:00Z')

/** Of every list and export (§32). */
export const pageQuery = {
  from: moment('The first moment, RFC 3339'),
  to: moment('The moment behind the last, RFC 3339'),
  cursor: filter(
    '`next_cursor` of the page before',
    '^[0-9]{1,14}\\.[A-Za-z0-9][A-Za-z0-9_-]{0,63}$',
    '`next_cursor` of the page before',
  ),
} as const

export interface PageEnd {
  readonly next_cursor: string | null
  readonly truncated: boolean
}

export interface Range {
  readonly from: Date | null
  readonly to: Date | null
}

function momentOf(name: 'from' | 'to', text: string | null): Date | null {
  if (text === null) return null
  const at = new Date(text)
  if (Number.isNaN(at.getTime())) throw invalidParameter(name, 'names a day or an hour that does not exist')
  return at
}

export function readRange(query: { readonly from: string | null; readonly to: string | null }): Range {
  const [from, to] = [momentOf('from', query.from), momentOf('to', query.to)]
  if (from !== null && to !== null && from >= to) throw invalidParameter('to', 'must be later than `from`')
  return { from, to }
}

export function readCursor(text: string | null): Place | null {
  if (text === null) return null
  const dot = text.indexOf('.')
  const at = new Date(Number(text.slice(0, dot)))
  if (Number.isNaN(at.getTime())) throw invalidParameter('cursor', 'must be `next_cursor` of the page before')
  return { at, id: text.slice(dot + 1) }
}

export const cursorOf = ({ at, id }: Place) => `${at.getTime()}.${id}`

/** Of rows that were asked for with one more than the page shows. `searchedTo`: the search for them has ended there for now. */
export function pageOf<R>(
  found: readonly R[],
  limit: number,
  placeOf: (row: R) => Place,
  searchedTo: Place | null = null,
): { readonly shown: readonly R[]; readonly page: PageEnd } {
  const shown = found.slice(0, limit)
  const last = shown.at(-1)
  const next = found.length > limit && last !== undefined ? placeOf(last) : searchedTo
  return { shown, page: { next_cursor: next === null ? null : cursorOf(next), truncated: next !== null } }
}

/** RFC 8288, for clients that follow links: the same question with the next cursor. */
export function nextLink(baseUrl: string, url: string, cursor: string): string {
  const next = new URL(url)
  next.searchParams.set('cursor', cursor)
  return `<${baseUrl}${next.pathname}${next.search}>; rel="next"`
}

/** Rows per page: a table of any length is read in pages, so that it needs the memory of only one page. */
export const rowsPerRead = 1_000

/** Every page from the first on, each read when the one before was taken. */
export async function* allPages<R>(
  first: Place | null,
  most: number | null,
  read: (after: Place | null, limit: number) => Promise<readonly R[]>,
  placeOf: (row: R) => Place,
): AsyncGenerator<readonly R[]> {
  let after = first
  let left = most ?? Number.POSITIVE_INFINITY
  while (left > 0) {
    const limit = Math.min(rowsPerRead, left)
    const rows = await read(after, limit)
    if (rows.length > 0) yield rows
    const last = rows.at(-1)
    if (last === undefined || rows.length < limit) return
    after = placeOf(last)
    left -= rows.length
  }
}

/** Resolves when the first page is there, so that an error in the query still gets its own status. */
export async function begun<T>(values: AsyncGenerator<T>): Promise<AsyncGenerator<T>> {
  const first = await values.next()
  return (async function* () {
    if (first.done === true) return
    yield first.value
    yield* values
  })()
}
