import type { CaseName } from './cases.ts'
import { cases } from './cases.ts'
import { type ColumnName, columns, show } from './columns.ts'
import { errorsOf, type Sample } from './measure.ts'
import { type TargetName, targetNames } from './targets.ts'

/** By round; the same index is the same round for every target. */
export type Rounds = Readonly<Record<TargetName, readonly Sample[]>>
export type Results = ReadonlyMap<CaseName, Rounds>

export function median(values: readonly number[]): number {
  const sorted = values.filter((value) => !Number.isNaN(value)).toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}

const ofTarget = (samples: readonly Sample[], column: ColumnName) => median(samples.map(columns[column].of))

/** Penstock divided by raw Bun, within each round, then the median: what disturbs a round disturbs both. */
export function ratio(rounds: Rounds, column: ColumnName): number {
  const { of } = columns[column]
  return median(
    rounds.Penstock.map((sample, round) => {
      const raw = rounds['raw Bun'][round]
      return raw === undefined ? Number.NaN : of(sample) / of(raw)
    }),
  )
}

export function markdown(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((text, at) => Math.max(text.length, ...rows.map((row) => row[at]?.length ?? 0)))
  const line = (row: readonly string[]) =>
    `| ${widths.map((width, at) => (at === 0 ? (row[at] ?? '').padEnd(width) : (row[at] ?? '').padStart(width))).join(' | ')} |`
  const rule = `|${widths.map((width, at) => (at === 0 ? '-'.repeat(width + 2) : `${'-'.repeat(width + 1)}:`)).join('|')}|`
  return [line(head), rule, ...rows.map(line)].join('\n')
}

/** Only a gateway has a database: elsewhere the column would repeat the one before it. */
const isSide = (column: ColumnName) => column === 'cpuRequestAll' || column === 'cpuChunkAll'

export function caseTable(name: CaseName, rounds: Rounds): string {
  const { about, columns: shown } = cases[name]
  const rows = targetNames.map((target) => {
    const samples = rounds[target]
    const values = shown.map((column) =>
      isSide(column) && target !== 'Penstock' ? '' : show(column, ofTarget(samples, column)),
    )
    return [target, ...values, String(samples.reduce((sum, sample) => sum + errorsOf(sample), 0))]
  })
  const ratios = shown.map((column) => {
    const value = ratio(rounds, column)
    return Number.isFinite(value) && column !== 'open' ? value.toFixed(2) : ''
  })
  const head = ['', ...shown.map((column) => columns[column].head), 'errors']
  return `### ${name}: ${about}\n\n${markdown(head, [...rows, ['Penstock ÷ raw Bun', ...ratios, '']])}`
}

export interface Goal {
  readonly what: string
  readonly in: CaseName
  readonly column: ColumnName
  readonly atLeast?: number
  readonly atMost?: number
}

/** Of Penstock ÷ raw Bun, with all of a chat's work on. */
export const goals: readonly Goal[] = [
  { what: 'requests/s at 64 connections', in: 'json64', column: 'rps', atLeast: 0.5 },
  { what: 'p50 of one connection', in: 'json1', column: 'p50', atMost: 1.15 },
  { what: 'time to first token p50', in: 'stream', column: 'ttft50', atMost: 1.5 },
  { what: 'time to first token p99', in: 'stream', column: 'ttft99', atMost: 3 },
  { what: 'added time per chunk p50', in: 'stream', column: 'added50', atMost: 1.2 },
  { what: 'CPU per chunk', in: 'stream', column: 'cpuChunk', atMost: 1.2 },
  { what: 'requests/s with 100 kB bodies', in: 'body100k', column: 'rps', atLeast: 0.4 },
  { what: 'memory per open stream', in: 'hold5k', column: 'kbStream', atMost: 1.15 },
]

export function goalTable(results: Results): string {
  const rows = goals.flatMap((goal) => {
    const rounds = results.get(goal.in)
    if (rounds === undefined) return []
    const value = ratio(rounds, goal.column)
    const met =
      value >= (goal.atLeast ?? Number.NEGATIVE_INFINITY) && value <= (goal.atMost ?? Number.POSITIVE_INFINITY)
    const bound = goal.atLeast === undefined ? `≤ ${goal.atMost}` : `≥ ${goal.atLeast}`
    return [[goal.what, goal.in, bound, value.toFixed(2), met ? 'yes' : '**no**']]
  })
  return markdown(['Penstock ÷ raw Bun', 'case', 'goal', 'measured', 'met'], rows)
}
