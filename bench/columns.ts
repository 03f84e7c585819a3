import type { Sample } from './measure.ts'

/** Sum of two costs, of which only the first one always exists. */
const withSide = (own: number | undefined, side: number | undefined) =>
  own === undefined ? Number.NaN : own + (side ?? 0)

interface Column {
  readonly head: string
  /** NaN where the target does not say. */
  readonly of: (sample: Sample) => number
  readonly digits: number
}

/** Times as the load generator gives them, in µs. */
export const columns = {
  rps: { head: 'requests/s', of: (s) => s.rps, digits: 0 },
  chunks: { head: 'chunks/s', of: (s) => s.chunks_s, digits: 0 },
  p50: { head: 'p50 µs', of: (s) => s.lat.p50, digits: 0 },
  p99: { head: 'p99 µs', of: (s) => s.lat.p99, digits: 0 },
  ttft50: { head: 'TTFT p50 µs', of: (s) => s.ttft?.p50 ?? Number.NaN, digits: 0 },
  ttft99: { head: 'TTFT p99 µs', of: (s) => s.ttft?.p99 ?? Number.NaN, digits: 0 },
  added50: { head: 'added/chunk p50 µs', of: (s) => s.added?.p50 ?? Number.NaN, digits: 0 },
  added99: { head: 'added/chunk p99 µs', of: (s) => s.added?.p99 ?? Number.NaN, digits: 0 },
  cpuRequest: { head: 'CPU s/1,000 req', of: (s) => withSide(s.cpu_us_req, 0) / 1e3, digits: 3 },
  cpuRequestAll: { head: 'with database', of: (s) => withSide(s.cpu_us_req, s.cpu2_us_req) / 1e3, digits: 3 },
  cpuChunk: { head: 'CPU µs/chunk', of: (s) => withSide(s.cpu_us_chunk, 0), digits: 1 },
  cpuChunkAll: { head: 'with database', of: (s) => withSide(s.cpu_us_chunk, s.cpu2_us_chunk), digits: 1 },
  open: { head: 'open', of: (s) => s.open, digits: 0 },
  rss: { head: 'RSS MB', of: (s) => s.rss_end_mb ?? Number.NaN, digits: 0 },
  kbStream: {
    head: 'kB/stream',
    of: (s) => (((s.rss_end_mb ?? Number.NaN) - (s.rss0_mb ?? 0)) * 1e3) / Math.max(1, s.open),
    digits: 1,
  },
  abort: { head: 'abort ms', of: (s) => s.abortMs ?? Number.NaN, digits: 0 },
} as const satisfies Readonly<Record<string, Column>>

export type ColumnName = keyof typeof columns

export function show(name: ColumnName, value: number): string {
  if (value === Number.POSITIVE_INFINITY) return 'never'
  return Number.isFinite(value) ? value.toFixed(columns[name].digits) : ''
}
