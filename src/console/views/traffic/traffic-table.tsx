import type { TrafficMeasure } from '../../../protocol/wire/admin/traffic.ts'
import { amount, count, duration, nothing } from '../../parts/format.ts'
import { type Column, LongTable } from '../../parts/long-table.tsx'

export interface ComparedRow {
  readonly id: string
  readonly name: string
  readonly address: string
  readonly now: TrafficMeasure
  readonly before: TrafficMeasure
}

/** How a number has changed, in per cent; null: there is nothing to compare. */
export function changeOf(now: number | null, before: number | null): number | null {
  return now === null || before === null || before === 0 ? null : (now / before - 1) * 100
}

/** Smaller changes are no news. */
const changePercentMin = 1

interface ChangeProps {
  readonly now: number | null
  readonly before: number | null
  /** Whether more is worse; null: neither. */
  readonly bad: boolean | null
}

function Change({ now, before, bad }: ChangeProps) {
  const change = changeOf(now, before)
  if (change === null || Math.abs(change) < changePercentMin) return null
  const tone = bad === null ? 'muted' : change > 0 === bad ? 'bad-text' : 'good-text'
  return (
    <small class={tone}>
      {' '}
      {change > 0 ? '+' : '−'}
      {amount(Math.abs(change))} %
    </small>
  )
}

const failedPercent = ({ failed, requests }: TrafficMeasure) => (requests === 0 ? null : (failed / requests) * 100)

function timeColumn(title: string, read: (measure: TrafficMeasure) => number | null): Column<ComparedRow> {
  return {
    title,
    number: true,
    by: ({ now }) => read(now),
    show: ({ now, before }) => (
      <>
        {duration(read(now))}
        <Change now={read(now)} before={read(before)} bad={true} />
      </>
    ),
  }
}

const columnsOf = (first: string): readonly Column<ComparedRow>[] => [
  { title: first, by: ({ name }) => name, show: ({ name, address }) => <a href={address}>{name}</a> },
  {
    title: 'Requests',
    number: true,
    by: ({ now }) => now.requests,
    show: ({ now, before }) => (
      <>
        {count(now.requests)}
        <Change now={now.requests} before={before.requests} bad={null} />
      </>
    ),
  },
  {
    title: 'Failed',
    number: true,
    by: ({ now }) => failedPercent(now),
    show: ({ now }) => {
      const percent = failedPercent(now)
      return percent === null ? nothing : `${amount(percent)} %`
    },
  },
  timeColumn('First token p50', ({ ttft_p50_ms }) => ttft_p50_ms),
  timeColumn('First token p95', ({ ttft_p95_ms }) => ttft_p95_ms),
  timeColumn('Took p95', ({ duration_p95_ms }) => duration_p95_ms),
  {
    title: 'Tokens out',
    number: true,
    by: ({ now }) => now.completion_tokens,
    show: ({ now }) => count(now.completion_tokens),
  },
]

/** Nodes or models, each beside itself in the range before. */
export const ComparedTable = ({
  title,
  first,
  rows,
}: {
  title: string
  first: string
  rows: readonly ComparedRow[]
}) => (
  <section aria-labelledby={`${first}-title`}>
    <h2 id={`${first}-title`}>{title}</h2>
    <LongTable
      label={`${first}s`}
      rows={rows}
      keyOf={({ id }) => id}
      textOf={({ id, name }) => `${name} ${id}`}
      columns={columnsOf(first)}
      first={{ title: 'Requests', falling: true }}
    />
  </section>
)
