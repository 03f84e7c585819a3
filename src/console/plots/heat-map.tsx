import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type uPlot from 'uplot'
import { count, duration, momentText } from '../parts/format.ts'
import { logSplits, measureAxis, timeAxis } from './axes.ts'
import { type Brush, cursorOf, lasting, marked } from './brush.ts'
import { drawMarks, type Mark, markedBelow } from './marks.ts'
import { type Ink, type PlotOptions, usePlot } from './plot.ts'

/** How many times were measured between these bounds, ms. Without an end, both are the same. */
export interface HeatBucket {
  readonly above_ms: number
  readonly to_ms: number
  readonly count: number
}

export interface HeatStep {
  /** Unix ms: where the step begins. */
  readonly atMs: number
  readonly buckets: readonly HeatBucket[]
}

interface HeatMapProps {
  readonly title: string
  readonly steps: readonly HeatStep[]
  readonly stepMs: number
  /** Unix ms: what the axis shows. */
  readonly fromMs: number
  readonly toMs: number
  readonly brush?: Brush | undefined
  readonly marks?: readonly Mark[]
}

/** A log scale has no zero: what came sooner lies at its foot. ms. */
const footMs = 1
/** A bucket without an upper bound is drawn up to this multiple of its lower bound. */
const openTimes = 2
/** One request is to be seen, too. */
const faintest = 0.16

const lowOf = ({ above_ms: above }: HeatBucket) => Math.max(footMs, above)
const isOpen = ({ above_ms: above, to_ms: to }: HeatBucket) => to <= above
const highOf = (bucket: HeatBucket) =>
  isOpen(bucket) ? lowOf(bucket) * openTimes : Math.max(bucket.to_ms, footMs * 1.5)

/** A decade at least, so that a single bucket does not fill the plot. */
function boundsOf(steps: readonly HeatStep[]): [number, number] {
  const all = steps.flatMap(({ buckets }) => buckets)
  if (all.length === 0) return [10, 10_000]
  const low = Math.min(...all.map(lowOf))
  const high = Math.max(...all.map(highOf))
  const middle = Math.sqrt(low * high)
  return [Math.min(low, middle / Math.sqrt(10)), Math.max(high, middle * Math.sqrt(10))]
}

const mostOf = (steps: readonly HeatStep[]) =>
  Math.max(1, ...steps.flatMap(({ buckets }) => buckets.map((bucket) => bucket.count)))

/** By its root, so that the few slow ones are seen beside the many quick ones. */
const shadeOf = (requests: number, most: number) => faintest + (1 - faintest) * Math.sqrt(requests / most)

function drawCells(plot: uPlot, { steps, stepMs }: HeatMapProps, ink: Ink): void {
  const { ctx, bbox } = plot
  const most = mostOf(steps)
  ctx.save()
  ctx.beginPath()
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height)
  ctx.clip()
  ctx.fillStyle = ink.series[0] ?? ink.text
  for (const { atMs, buckets } of steps) {
    const left = Math.round(plot.valToPos(atMs / 1_000, 'x', true))
    const right = Math.round(plot.valToPos((atMs + stepMs) / 1_000, 'x', true))
    for (const bucket of buckets) {
      const [top, foot] = [highOf(bucket), lowOf(bucket)].map((ms) => Math.round(plot.valToPos(ms, 'y', true)))
      ctx.globalAlpha = shadeOf(bucket.count, most)
      ctx.fillRect(left, top ?? 0, Math.max(1, right - left), Math.max(1, (foot ?? 0) - (top ?? 0)))
    }
  }
  ctx.restore()
}

interface Pointed {
  readonly step: HeatStep
  readonly bucket: HeatBucket
}

function pointedAt(plot: uPlot, { steps, stepMs }: HeatMapProps): Pointed | null {
  const { left = -1, top = -1 } = plot.cursor
  if (left < 0 || top < 0) return null
  const [atMs, value] = [plot.posToVal(left, 'x') * 1_000, plot.posToVal(top, 'y')]
  const step = steps.find((each) => atMs >= each.atMs && atMs < each.atMs + stepMs)
  const bucket = step?.buckets.find((each) => value > lowOf(each) && value <= highOf(each))
  return step === undefined || bucket === undefined ? null : { step, bucket }
}

function rangeText(bucket: HeatBucket): string {
  const { above_ms: above, to_ms: to } = bucket
  return isOpen(bucket)
    ? `more than ${duration(above)}`
    : `${above < footMs ? '0' : duration(above)} to ${duration(to)}`
}
const requestsText = (requests: number) => `${count(requests)} ${requests === 1 ? 'request' : 'requests'}`

function spoken({ title, steps, fromMs, toMs }: HeatMapProps): string {
  const sums = new Map<string, number>()
  for (const bucket of steps.flatMap(({ buckets }) => buckets))
    sums.set(rangeText(bucket), (sums.get(rangeText(bucket)) ?? 0) + bucket.count)
  const most = [...sums].toSorted((a, b) => b[1] - a[1]).slice(0, 3)
  const parts = most.map(([range, requests]) => `${requestsText(requests)} took ${range}`)
  return `${title}, ${duration(toMs - fromMs)}. ${parts.length === 0 ? 'Nothing measured' : parts.join(', ')}.`
}

/** `now`: a plot lives longer than one set of values, and its hooks ask for those of now. */
function optionsOf(
  now: { readonly current: HeatMapProps },
  ink: Ink,
  moved: (to: Pointed | null, mark: string) => void,
): PlotOptions {
  const brush = lasting(now.current.brush, () => now.current.brush)
  return {
    legend: { show: false },
    padding: [8, 22, 0, 0],
    cursor: { ...cursorOf('traffic', brush), y: true },
    scales: {
      x: { time: true, range: () => [now.current.fromMs / 1_000, now.current.toMs / 1_000] },
      y: { distr: 3, log: 10, range: () => boundsOf(now.current.steps) },
    },
    axes: [
      timeAxis(ink),
      {
        ...measureAxis(ink, { show: duration }),
        splits: () => logSplits(...boundsOf(now.current.steps)),
        // By itself a log scale hides all marks but its powers.
        filter: (_, splits) => splits,
      },
    ],
    series: [{}, { points: { show: false } }],
    hooks: {
      drawAxes: [(plot) => drawCells(plot, now.current, ink)],
      draw: [(plot) => drawMarks(plot, now.current.marks ?? [], ink)],
      setCursor: [(plot) => moved(pointedAt(plot, now.current), markedBelow(plot, now.current.marks ?? []))],
      setSelect: [marked(brush)],
    },
  }
}

/** How many took how long, over time: a second hump or a slow fringe is seen, which a percentile hides. */
export function HeatMap(props: HeatMapProps) {
  const { title, steps } = props
  const [pointed, setPointed] = useState<Pointed | null>(null)
  const [mark, setMark] = useState('')
  const box = useRef<HTMLDivElement>(null)
  const now = useRef(props)
  now.current = props
  const data = useMemo((): uPlot.AlignedData => [steps.map(({ atMs }) => atMs / 1_000), steps.map(() => null)], [steps])
  const moved = (to: Pointed | null, text: string) => {
    setPointed(to)
    setMark(text)
  }
  const plot = usePlot(box, (ink) => optionsOf(now, ink, moved), data, String(props.brush !== undefined))
  useEffect(() => plot.current?.redraw(false), [props.marks])
  const sum = steps.reduce((total, { buckets }) => total + buckets.reduce((all, { count: n }) => all + n, 0), 0)
  return (
    <figure class="chart heat-map">
      <figcaption>
        <span class="chart-title">{title}</span>
        <span class="chart-time">
          {mark !== '' && <b>{mark} </b>}
          {pointed === null ? '' : momentText(pointed.step.atMs)}
        </span>
      </figcaption>
      <p class="legend">
        {pointed === null && sum === 0 ? (
          'Nothing measured'
        ) : pointed === null ? (
          <span class="series-0">
            <span class="heat-scale" aria-hidden="true" /> 1 to {count(mostOf(steps))} in a field, {requestsText(sum)}{' '}
            in all
          </span>
        ) : (
          <span>
            {rangeText(pointed.bucket)}: <b>{requestsText(pointed.bucket.count)}</b>
          </span>
        )}
      </p>
      <div class="plot" ref={box} role="img" aria-label={spoken(props)} />
    </figure>
  )
}
