import type { ComponentChildren } from 'preact'
import { useId, useState } from 'preact/hooks'
import { count } from './format.ts'
import { Frame } from './frame.tsx'
import { Cell } from './small.tsx'
import { useVirtual } from './virtual.ts'

export interface Column<T> {
  readonly title: string
  readonly number?: boolean
  /** What is sorted by; null stands last. Absent: nobody sorts by it. */
  readonly by?: (row: T) => string | number | null
  readonly show: (row: T) => ComponentChildren
}

export interface Sorting {
  readonly title: string
  readonly falling: boolean
}

/** Rows by a column; what has no value stands last in both directions. */
export function sorted<T>(
  rows: readonly T[],
  columns: readonly Column<T>[],
  { title, falling }: Sorting,
): readonly T[] {
  const column = columns.find((each) => each.title === title)
  const by = column?.by
  if (by === undefined) return rows
  const turn = falling ? -1 : 1
  return rows.toSorted((one, other) => {
    const [a, b] = [by(one), by(other)]
    if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1
    return turn * (typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b)))
  })
}

interface HeadProps {
  readonly title: string
  readonly number?: boolean | undefined
  readonly sorting: Sorting
  readonly sort: (next: Sorting) => void
}

/** A heading that sorts: numbers largest first. */
export const SortHead = ({ title, number, sorting, sort }: HeadProps) => {
  const here = sorting.title === title
  return (
    <th
      scope="col"
      class={number === true ? 'number' : ''}
      aria-sort={here ? (sorting.falling ? 'descending' : 'ascending') : undefined}
    >
      <button
        type="button"
        class="sort"
        onClick={() => sort({ title, falling: here ? !sorting.falling : number === true })}
      >
        {title}
        <span aria-hidden="true">{here ? (sorting.falling ? ' ↓' : ' ↑') : ''}</span>
      </button>
    </th>
  )
}

interface SearchProps {
  readonly label: string
  readonly value: string
  readonly change: (text: string) => void
  readonly shown: number
  readonly all: number
}

export const Search = ({ label, value, change, shown, all }: SearchProps) => {
  const id = useId()
  return (
    <div class="search">
      <label for={id}>{label}</label>
      <input
        id={id}
        type="search"
        autocomplete="off"
        spellcheck={false}
        value={value}
        onInput={(event) => change(event.currentTarget.value)}
      />
      <span class="muted" role="status">
        {shown === all ? count(all) : `${count(shown)} of ${count(all)}`}
      </span>
    </div>
  )
}

export const fits = (text: string, sought: string) => text.toLowerCase().includes(sought.trim().toLowerCase())

interface LongTableProps<T> {
  /** Of the table and of its search, such as `Models`. */
  readonly label: string
  readonly rows: readonly T[]
  readonly keyOf: (row: T) => string
  /** What a search looks through. */
  readonly textOf: (row: T) => string
  readonly columns: readonly Column<T>[]
  /** Absent: as the rows come. */
  readonly first?: Sorting
  readonly kind?: string
  /** What can be done with a row, at its end. */
  readonly actions?: (row: T) => ComponentChildren
}

const rowGuessPx = 37
/** So many rows of a table within another are looked through by eye. */
const unsoughtMax = 8
const unsorted: Sorting = { title: '', falling: false }

/** A table of any length, with search and sort: only the rows that can be seen are there. */
export function LongTable<T>({ label, rows, keyOf, textOf, columns, first, kind, actions }: LongTableProps<T>) {
  const [sought, seek] = useState('')
  const [sorting, sort] = useState(first ?? unsorted)
  const found = sorted(
    rows.filter((row) => fits(textOf(row), sought)),
    columns,
    sorting,
  )
  const virtual = useVirtual<HTMLTableElement>(found.map(keyOf), rowGuessPx)
  return (
    <>
      {(kind !== 'inner' || rows.length > unsoughtMax || sought !== '') && (
        <Search
          label={`Find in ${(label.split(',')[0] ?? '').toLowerCase()}`}
          value={sought}
          change={seek}
          shown={found.length}
          all={rows.length}
        />
      )}
      <Frame label={label} kind={`${kind ?? 'table-frame'} long`}>
        <table ref={virtual.list} class="cards" aria-rowcount={found.length + 1}>
          <thead>
            <tr aria-rowindex={1}>
              {columns.map(({ title, number, by }) =>
                by === undefined ? (
                  <th key={title} scope="col" class={number === true ? 'number' : ''}>
                    {title}
                  </th>
                ) : (
                  <SortHead key={title} title={title} number={number} sorting={sorting} sort={sort} />
                ),
              )}
              {actions !== undefined && (
                <th scope="col">
                  <span class="visually-hidden">Actions</span>
                </th>
              )}
            </tr>
          </thead>
          <Gap px={virtual.before} />
          <tbody>
            {found.slice(virtual.first, virtual.end).map((row, at) => (
              <tr key={keyOf(row)} data-row={keyOf(row)} aria-rowindex={virtual.first + at + 2}>
                {columns.map(({ title, number, show }, place) =>
                  place === 0 ? (
                    <th key={title} scope="row">
                      {show(row)}
                    </th>
                  ) : (
                    <Cell key={title} label={title} number={number}>
                      {show(row)}
                    </Cell>
                  ),
                )}
                {actions !== undefined && <td class="actions">{actions(row)}</td>}
              </tr>
            ))}
          </tbody>
          <Gap px={virtual.after} />
        </table>
      </Frame>
    </>
  )
}

/** The place of rows that are not there. */
export const Gap = ({ px }: { px: number }) =>
  px === 0 ? null : (
    <tbody aria-hidden="true">
      <tr>
        <td style={{ height: `${px}px`, padding: 0, border: 0 }} />
      </tr>
    </tbody>
  )
