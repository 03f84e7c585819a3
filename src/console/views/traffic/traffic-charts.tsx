import { useMemo } from 'preact/hooks'
import type { AdminFailures } from '../../../protocol/wire/admin/failures.ts'
import type { AdminFirstTokens, AdminTraffic } from '../../../protocol/wire/admin/traffic.ts'
import { count, duration } from '../../parts/format.ts'
import { Part } from '../../parts/states.tsx'
import type { Brush } from '../../plots/brush.ts'
import { HeatMap } from '../../plots/heat-map.tsx'
import { type Line, LinePlot } from '../../plots/line-plot.tsx'
import type { Mark } from '../../plots/marks.ts'
import { useLoad } from '../../state/load.ts'
import { alertMarks, MarkList, useMarks } from './traffic-marks.tsx'

type Point = AdminTraffic['points'][number]
/** As far back as failures are read by their status. */
const failuresMsMax = 7 * 86_400_000

const stepNames: Readonly<Record<number, string>> = { 60000: 'minute', 3600000: 'hour', 86400000: 'day' }
const stepName = (ms: number) => stepNames[ms] ?? duration(ms)

interface ChartsProps {
  readonly traffic: AdminTraffic
  /** What the reads of the range are asked for, and what it is of, which stays where it moves on with the time. */
  readonly asked: string
  readonly of: string
  readonly brush: Brush
}

function timesOf(traffic: AdminTraffic) {
  const { step_seconds: seconds, from, to } = traffic
  const [stepMs, fromMs, toMs] = [seconds * 1_000, Date.parse(from), Date.parse(to)]
  const first = Math.floor(fromMs / stepMs) * stepMs
  const times = Array.from({ length: Math.ceil((toMs - first) / stepMs) }, (_, at) => first + at * stepMs)
  const readMs = Date.parse(traffic.generated_at)
  // The step that runs would look like a fall.
  const over = times.filter((time) => time + stepMs <= readMs)
  return { stepMs, fromMs, toMs, times, over: over.length === 0 ? times : over }
}

/** Both ranges on one axis: the one before lies below, moved to where this one is. */
function linesOf(traffic: AdminTraffic) {
  const { stepMs, fromMs, toMs, over: times } = timesOf(traffic)
  const known = new Map(traffic.points.map((point) => [Date.parse(point.at), point]))
  const shift = Math.round((toMs - fromMs) / stepMs) * stepMs
  const isUnread = (time: number) =>
    traffic.unread.some(({ from, to }) => time < Date.parse(to) && time + stepMs > Date.parse(from))
  const of = (read: (point: Point) => number | null, none: number | null, backMs = 0) =>
    times.map((time) => {
      const point = known.get(time - backMs)
      if (isUnread(time - backMs)) return null
      return point === undefined ? none : read(point)
    })
  return (name: string, read: (point: Point) => number | null, none: number | null): readonly Line[] => [
    { name, values: of(read, none) },
    { name: 'before', values: of(read, none, shift), quiet: true },
  ]
}

/** The plots of a range: what a person marks in one of them is shown larger by all. */
export function TrafficCharts({ traffic, asked, of, brush }: ChartsProps) {
  const { stepMs, fromMs, toMs, times, over } = useMemo(() => timesOf(traffic), [traffic])
  const failuresPath = toMs - fromMs <= failuresMsMax ? `/v1/admin/failures${asked}` : null
  const [failures, readFailures] = useLoad<AdminFailures>(failuresPath, null, `failures ${of}`)
  const done = useMarks(asked, of)
  const found = failures.kind === 'ready' ? failures.data : null
  const marks = useMemo(
    () => [...done, ...alertMarks(traffic, found)].toSorted((a, b) => a.atMs - b.atMs),
    [done, traffic, found],
  )
  const shown = { times, fromMs, toMs, brush, marks }
  const each = `, per ${stepName(stepMs)}`
  const charts = useMemo(() => {
    const both = linesOf(traffic)
    return [
      { title: `Requests${each}`, lines: both('requests', (point) => point.requests, 0), show: count, whole: true },
      { title: `Failed${each}`, lines: both('failed', (point) => point.failed, 0), show: count, whole: true },
      { title: 'First token, p50', lines: both('p50', (point) => point.ttft_p50_ms, null), show: duration },
      { title: 'First token, p95', lines: both('p95', (point) => point.ttft_p95_ms, null), show: duration },
      { title: 'Took, p95', lines: both('p95', (point) => point.duration_p95_ms, null), show: duration },
      {
        title: `Tokens out${each}`,
        lines: both('tokens', (point) => point.completion_tokens, 0),
        show: count,
        whole: true,
      },
    ]
  }, [traffic, each])
  return (
    <>
      <div class="charts">
        {charts.map((chart) => (
          <LinePlot key={chart.title} {...shown} times={over} {...chart} />
        ))}
      </div>
      <div class="charts wide">
        <FirstTokens asked={asked} of={of} {...shown} />
        {failuresPath !== null && (
          <Part what="what failed" loaded={failures} again={readFailures}>
            {(data) => <ErrorPlot failures={data} {...shown} />}
          </Part>
        )}
      </div>
      <MarkList marks={marks} />
    </>
  )
}

interface ShownProps {
  readonly asked: string
  readonly of: string
  readonly times: readonly number[]
  readonly fromMs: number
  readonly toMs: number
  readonly brush: Brush
  readonly marks: readonly Mark[]
}

function FirstTokens({ asked, of, times: _, ...shown }: ShownProps) {
  const [loaded, again] = useLoad<AdminFirstTokens>(
    `/v1/admin/traffic/first-tokens${asked}`,
    null,
    `first tokens ${of}`,
  )
  return (
    <Part what="the first tokens" loaded={loaded} again={again}>
      {({ points, step_seconds: seconds }) => (
        <HeatMap
          title="First tokens by how long they took"
          steps={points.map(({ at, buckets }) => ({ atMs: Date.parse(at), buckets }))}
          stepMs={seconds * 1_000}
          {...shown}
        />
      )}
    </Part>
  )
}

/** What a person does about a failure depends on its class. */
const classes = [
  ['refused (4xx)', (status: number) => status >= 400 && status < 500 && status !== 429],
  ['turned away (429, 503)', (status: number) => status === 429 || status === 503],
  ['failed (5xx)', (status: number) => status >= 500 && status !== 503],
  ['broke off while it streamed', (status: number) => status < 400],
] as const

function ErrorPlot({ failures, ...shown }: Omit<ShownProps, 'asked' | 'of'> & { failures: AdminFailures }) {
  const { times } = shown
  const { points, step_seconds: seconds, complete, from } = failures
  const lines = useMemo(() => {
    const known = Map.groupBy(points, ({ at }) => Date.parse(at))
    const unreadMs = complete ? Number.NEGATIVE_INFINITY : Date.parse(from)
    return classes.map(
      ([name, has]): Line => ({
        name,
        values: times.map((time) =>
          time < unreadMs
            ? null
            : (known.get(time) ?? [])
                .filter(({ status }) => has(status))
                .reduce((sum, { requests }) => sum + requests, 0),
        ),
      }),
    )
  }, [failures, times])
  return (
    <LinePlot
      title={`Errors by class, per ${stepName(seconds * 1_000)}`}
      lines={lines}
      show={count}
      whole
      stacked
      {...shown}
    />
  )
}
