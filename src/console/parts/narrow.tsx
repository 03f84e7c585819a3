import { useState } from 'preact/hooks'

/** Rows that a table shows before somebody asks for more: a browser gets slow with thousands. */
const shownAtFirst = 100

export interface Narrow<T> {
  readonly rows: readonly T[]
  readonly found: number
  readonly wanted: string
  readonly setWanted: (text: string) => void
  readonly more: () => void
}

/** The rows whose text has what was typed, as many as a page bears. `textOf`: all that can be looked for. */
export function useNarrow<T>(all: readonly T[], textOf: (row: T) => string): Narrow<T> {
  const [wanted, setWanted] = useState('')
  const [most, setMost] = useState(shownAtFirst)
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean)
  const found =
    words.length === 0 ? all : all.filter((row) => words.every((word) => textOf(row).toLowerCase().includes(word)))
  return {
    rows: found.slice(0, most),
    found: found.length,
    wanted,
    setWanted: (text) => {
      setWanted(text)
      setMost(shownAtFirst)
    },
    more: () => setMost(most + shownAtFirst),
  }
}

export const SearchField = ({
  what,
  narrow,
}: {
  what: string
  narrow: Pick<Narrow<unknown>, 'wanted' | 'setWanted'>
}) => (
  <input
    type="search"
    class="search"
    aria-label={`Search ${what}`}
    placeholder={`Search ${what}`}
    value={narrow.wanted}
    onInput={(event) => narrow.setWanted(event.currentTarget.value)}
  />
)

/** Below a table that does not show all that was found. */
export function More({ narrow: { rows, found, more } }: { narrow: Narrow<unknown> }) {
  if (rows.length === found) return null
  return (
    <p class="muted">
      {rows.length} of {found} are shown.{' '}
      <button type="button" onClick={more}>
        Show more
      </button>
    </p>
  )
}

export interface Order {
  readonly by: string
  readonly down: boolean
}

interface SortHeadProps {
  readonly name: string
  readonly by: string
  readonly order: Order | null
  readonly set: (order: Order) => void
  readonly number?: boolean
}

/** A column by which the table can be sorted: the largest number first, then the other way round. */
export function SortHead({ name, by, order, set, number = false }: SortHeadProps) {
  const mine = order?.by === by
  return (
    <th
      scope="col"
      class={number ? 'number' : undefined}
      aria-sort={mine ? (order.down ? 'descending' : 'ascending') : undefined}
    >
      <button type="button" class="sort" onClick={() => set({ by, down: mine ? !order.down : number })}>
        {name}
        {mine && <span aria-hidden="true">{order.down ? ' ↓' : ' ↑'}</span>}
      </button>
    </th>
  )
}

/** Rows without a value come last, whichever way. */
export function inOrder<T>(
  rows: readonly T[],
  down: boolean,
  sortedBy: (row: T) => string | number | null,
): readonly T[] {
  return rows.toSorted((a, b) => {
    const [one, other] = [sortedBy(a), sortedBy(b)]
    if (one === null || other === null) return Number(one === null) - Number(other === null)
    const rise =
      typeof one === 'number' && typeof other === 'number' ? one - other : String(one).localeCompare(String(other))
    return down ? -rise : rise
  })
}
