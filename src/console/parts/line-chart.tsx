import { useState } from 'preact/hooks'
import { duration, nothing, shortTime } from './format.ts'

export interface Line {
  readonly name: string
  /** One value for each time; null: nothing was measured. */
  readonly values: readonly (number | null)[]
}

interface LineChartProps {
  readonly title: string
  /** Unix ms, rising. */
  readonly times: readonly number[]
  readonly lines: readonly Line[]
  readonly show: (value: number) => string
  readonly spanMs: number
}

const width = 320
const height = 88

/** A round number at least as large: the scale does not jump with every point. */
export function niceTop(max: number): number {
  if (max <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(max))
  return ([1, 2, 2.5, 5].find((step) => step * power >= max) ?? 10) * power
}

/** Measured points joined; a gap stays a gap, a lone point is a dot. */
function pathsOf(xs: readonly number[], values: readonly (number | null)[], top: number): string {
  let pen = false
  const parts: string[] = []
  for (const [at, value] of values.entries()) {
    if (value === null) {
      pen = false
      continue
    }
    const point = `${(xs[at] ?? 0).toFixed(1)} ${(height - (value / top) * height).toFixed(1)}`
    const lone = !pen && (values[at + 1] ?? null) === null
    parts.push(lone ? `M${point}h0.1` : `${pen ? 'L' : 'M'}${point}`)
    pen = true
  }
  return parts.join('')
}

function spoken({ title, lines, show, spanMs }: LineChartProps): string {
  const parts = lines.map(({ name, values }) => {
    const known = values.filter((value) => value !== null)
    if (known.length === 0) return `${name}: nothing measured`
    const now = values.at(-1) ?? null
    return `${name}: ${now === null ? 'nothing' : show(now)} now, at most ${show(Math.max(...known))}`
  })
  return `${title}, last ${duration(spanMs)}. ${parts.join('. ')}.`
}

/** A small chart drawn by hand: the pointer reads single points, the label says the rest. */
export function LineChart(props: LineChartProps) {
  const { title, times, lines, show, spanMs } = props
  const [at, setAt] = useState<number | null>(null)
  const end = times.at(-1) ?? 0
  const xs = times.map((time) => width - ((end - time) / spanMs) * width)
  const max = Math.max(0, ...lines.flatMap(({ values }) => values.map((value) => value ?? 0)))
  const top = niceTop(max)
  const point = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect()
    const x = ((event.clientX - box.left) / box.width) * width
    const nearest = xs.reduce(
      (best, each, index) => (Math.abs(each - x) < Math.abs((xs[best] ?? 0) - x) ? index : best),
      0,
    )
    setAt(xs.length === 0 ? null : nearest)
  }
  const moment = at === null ? undefined : times[at]
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{title}</span>
        <span class="chart-time">{moment === undefined ? '' : shortTime(new Date(moment).toISOString())}</span>
      </figcaption>
      <ul class="legend">
        {lines.map(({ name, values }, index) => {
          const value = values.at(at ?? -1) ?? null
          return (
            <li key={name} class={`series-${index % 6}`}>
              <span class="swatch" aria-hidden="true" />
              {name} <b>{value === null ? nothing : show(value)}</b>
            </li>
          )
        })}
      </ul>
      <div class="plot" onPointerMove={point} onPointerLeave={() => setAt(null)}>
        <span class="scale" aria-hidden="true">
          {show(top)}
        </span>
        <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={spoken(props)}>
          <path class="grid" d={`M0 0.5H${width}M0 ${height / 2}H${width}M0 ${height - 0.5}H${width}`} />
          {lines.map(({ name, values }, index) => (
            <path key={name} class={`line series-${index % 6}`} d={pathsOf(xs, values, top)} />
          ))}
          {at !== null && <path class="cursor" d={`M${xs[at] ?? 0} 0V${height}`} />}
        </svg>
      </div>
    </figure>
  )
}
