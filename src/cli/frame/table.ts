import type { Cell } from '../../actions/frame/command.ts'
import type { Style, Terminal } from './terminal.ts'

const controls = /[\u0000-\u001f\u007f-\u009f]/g

/** A value as it stands in a table: `-` for none. */
export function cellText(cell: Cell): string {
  if (cell === null || cell === undefined || cell === '') return '-'
  if (typeof cell === 'boolean') return cell ? 'yes' : 'no'
  return String(cell).replaceAll(controls, '')
}

const stateStyles: Readonly<Record<string, Style>> = {
  ready: 'green',
  active: 'green',
  chosen: 'green',
  live: 'yellow',
  draining: 'yellow',
  stale: 'yellow',
  suspended: 'yellow',
  enrolled: 'dim',
  offline: 'red',
  revoked: 'red',
  closed: 'red',
}

/** Aligned columns, numbers to the right. `rows` may be empty: then `empty` stands alone. */
export function table(
  terminal: Pick<Terminal, 'style'>,
  columns: readonly string[],
  rows: readonly (readonly Cell[])[],
  empty = 'None.',
): string {
  if (rows.length === 0) return `${empty}\n`
  const texts = rows.map((row) => columns.map((_, at) => cellText(row[at])))
  const widths = columns.map((name, at) =>
    Math.max(Bun.stringWidth(name), ...texts.map((row) => Bun.stringWidth(row[at] ?? ''))),
  )
  const numeric = columns.map(
    (_, at) =>
      rows.every((row) => typeof row[at] === 'number' || row[at] == null) && rows.some((row) => row[at] != null),
  )
  const line = (cells: readonly string[], paint: (text: string) => string) => {
    const padded = cells.map((text, at) => {
      const gap = ' '.repeat(Math.max(0, (widths[at] ?? 0) - Bun.stringWidth(text)))
      const last = at === cells.length - 1
      return numeric[at] === true ? gap + paint(text) : paint(text) + (last ? '' : gap)
    })
    return `${padded.join('  ')}\n`
  }
  const head = line(columns, (text) => terminal.style('bold', text))
  const body = texts.map((row) => line(row, (text) => paintState(terminal, text)))
  return head + body.join('')
}

function paintState(terminal: Pick<Terminal, 'style'>, text: string): string {
  const style = stateStyles[text]
  return style === undefined ? text : terminal.style(style, text)
}

/** One thing: a name and a value per line. */
export function fields(terminal: Pick<Terminal, 'style'>, pairs: readonly (readonly [string, Cell])[]): string {
  const width = Math.max(...pairs.map(([name]) => name.length))
  return pairs
    .map(([name, cell]) => `${terminal.style('dim', name.padEnd(width))}  ${paintState(terminal, cellText(cell))}\n`)
    .join('')
}

/** `2026-11-20T16:00:00.000Z` → `2026-11-20 16:00:00`, UTC. */
export function shortTime(instant: string | null): string | null {
  return instant === null ? null : instant.slice(0, 19).replace('T', ' ')
}

export function rounded(value: number | null, digits = 0): number | null {
  return value === null ? null : Number(value.toFixed(digits))
}
