import { duration } from './format.ts'

/** One thing that happened, from the start of the whole; `tookMs` null: a moment. */
export interface Happening {
  readonly title: string
  readonly atMs: number
  readonly tookMs: number | null
  readonly tone?: 'bad' | 'good'
}

const width = 1_000
/** What took nothing is still seen. */
const widthMin = 4

/** What happened in its order, and how long each took beside the others. */
export function Timeline({ happenings, wholeMs }: { happenings: readonly Happening[]; wholeMs: number }) {
  const scale = width / Math.max(1, wholeMs)
  return (
    <ol class="timeline">
      {happenings.map(({ title, atMs, tookMs, tone }, index) => {
        const length = Math.max(widthMin, (tookMs ?? 0) * scale)
        const x = Math.max(0, Math.min(atMs * scale, width - length))
        return (
          <li key={index}>
            <span class="happening">{title}</span>
            <span class="number">{atMs === 0 ? 'at once' : `at ${duration(atMs)}`}</span>
            <span class="number">{tookMs === null ? '' : `for ${duration(tookMs)}`}</span>
            <svg viewBox={`0 0 ${width} 10`} preserveAspectRatio="none" aria-hidden="true">
              <rect class={`bar ${tone ?? ''}`} x={x} y="0" width={length} height="10" />
            </svg>
          </li>
        )
      })}
    </ol>
  )
}
