import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import { count, duration, momentText, nothing } from '../parts/format.ts'
import { measureAxis, niceTop, timeAxis } from './axes.ts'
import { type Brush, cursorOf, lasting, marked } from './brush.ts'
import { drawMarks, type Mark, markedBelow } from './marks.ts'
import { type Ink, type PlotOptions, usePlot } from './plot.ts'

export interface Line {
  readonly name: string
  /** One value for each time; null: nothing was measured. */
  readonly values: readonly (number | null)[]
  /** What the others are compared with. */
  readonly quiet?: boolean
}

export interface LinePlotProps {
  readonly title: string
  /** Unix ms, rising. */
  readonly times: readonly number[]
  readonly lines: readonly Line[]
  readonly show: (value: number) => string
  /** Unix ms: what the axis shows. */
  readonly fromMs: number
  readonly toMs: number
  /** Each value stands on those of the lines before it. */
  readonly stacked?: boolean
  /** What is counted comes in whole numbers. */
  readonly whole?: boolean
  readonly brush?: Brush | undefined
  readonly marks?: readonly Mark[]
}

/** A lone point between two gaps has no line: it is a dot. */
function lonePoints(values: readonly (number | null | undefined)[]): number[] {
  return values.flatMap((value, at) => (value != null && values[at - 1] == null && values[at + 1] == null ? [at] : []))
}

/** The sums from the first line up to each. */
function stackedValues(lines: readonly Line[], times: readonly number[]): (number | null)[][] {
  const sums = times.map(() => 0)
  return lines.map(({ values }) =>
    values.map((value, at) => {
      sums[at] = (sums[at] ?? 0) + (value ?? 0)
      return sums[at] ?? 0
    }),
  )
}

function seriesOf({ lines, stacked = false }: LinePlotProps, ink: Ink): uPlot.Series[] {
  const bars = uPlot.paths.bars?.({ size: [0.9, 28], align: 1 })
  const all = lines.map(({ name, quiet = false }, at): uPlot.Series => {
    const color = quiet ? ink.text : (ink.series[at % ink.series.length] ?? ink.text)
    return stacked
      ? { label: name, stroke: color, fill: color, width: 0, points: { show: false }, ...(bars ? { paths: bars } : {}) }
      : {
          label: name,
          stroke: color,
          width: quiet ? 1.25 : 1.75,
          ...(quiet ? { dash: [4, 4] } : {}),
          points: {
            size: 4,
            fill: color,
            show: true,
            filter: (plot, index) => lonePoints((plot.data[index] ?? []) as readonly (number | null)[]),
          },
        }
  })
  // What was drawn first lies below: the highest sum, or what the others are compared with.
  return [{}, ...all.toReversed()]
}

/** `now`: a plot lives longer than one set of values, and its hooks ask for those of now. */
function optionsOf(
  now: { readonly current: LinePlotProps },
  ink: Ink,
  moved: (at: number | null, mark: string) => void,
): PlotOptions {
  const { current: props } = now
  const brush = lasting(props.brush, () => now.current.brush)
  return {
    legend: { show: false },
    padding: [8, 22, 0, 0],
    cursor: cursorOf('traffic', brush),
    scales: {
      x: { time: true, range: () => [now.current.fromMs / 1_000, now.current.toMs / 1_000] },
      y: { range: (_, _min, max) => [0, niceTop(max ?? 0)] },
    },
    axes: [timeAxis(ink), measureAxis(ink, props)],
    series: seriesOf(props, ink),
    hooks: {
      draw: [(plot) => drawMarks(plot, now.current.marks ?? [], ink)],
      setCursor: [(plot) => moved(plot.cursor.idx ?? null, markedBelow(plot, now.current.marks ?? []))],
      setSelect: [marked(brush)],
    },
  }
}

function spoken({ title, lines, show, fromMs, toMs, marks = [] }: LinePlotProps): string {
  const parts = lines.map(({ name, values }) => {
    const known = values.filter((value) => value !== null)
    if (known.length === 0) return `${name}: nothing measured`
    const last = values.at(-1) ?? null
    return `${name}: ${last === null ? 'nothing' : show(last)} at the end, at most ${show(Math.max(...known))}`
  })
  const more = marks.length === 0 ? '' : ` ${count(marks.length)} marks.`
  return `${title}, ${duration(toMs - fromMs)}. ${parts.join('. ')}.${more}`
}

/** Lines or stacked bars over time: the cursor reads single points, a mark zooms in, the label says the rest. */
export function LinePlot(props: LinePlotProps) {
  const { title, times, lines, show, stacked = false } = props
  const [at, setAt] = useState<number | null>(null)
  const [mark, setMark] = useState('')
  const box = useRef<HTMLDivElement>(null)
  const now = useRef(props)
  now.current = props
  const data = useMemo((): uPlot.AlignedData => {
    const values = stacked ? stackedValues(lines, times) : lines.map((line) => [...line.values])
    return [times.map((ms) => ms / 1_000), ...values.toReversed()]
  }, [times, lines, stacked])
  const shape = [stacked, props.brush !== undefined, ...lines.map(({ name }) => name)].join('\n')
  const moved = (index: number | null, text: string) => {
    setAt(index)
    setMark(text)
  }
  const plot = usePlot(box, (ink) => optionsOf(now, ink, moved), data, shape)
  useEffect(() => plot.current?.redraw(false), [props.marks])
  const moment = at === null ? undefined : times[at]
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{title}</span>
        <span class="chart-time">
          {mark !== '' && <b>{mark} </b>}
          {moment === undefined ? '' : momentText(moment)}
        </span>
      </figcaption>
      <ul class="legend">
        {lines.map(({ name, values, quiet = false }, index) => {
          const value = values.at(at ?? -1) ?? null
          return (
            <li key={name} class={quiet ? 'series-quiet' : `series-${index % 6}`}>
              <span class="swatch" aria-hidden="true" />
              {name} <b>{value === null ? nothing : show(value)}</b>
            </li>
          )
        })}
      </ul>
      <div class="plot" ref={box} role="img" aria-label={spoken(props)} />
    </figure>
  )
}
