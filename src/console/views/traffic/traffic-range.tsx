import type { AdminTraffic, TrafficMeasure } from '../../../protocol/wire/admin/traffic.ts'
import { amount, count, duration, shortTime } from '../../parts/format.ts'
import { type Line, LineChart } from '../../parts/line-chart.tsx'
import { useNow } from '../../parts/small.tsx'
import { Empty, Part } from '../../parts/states.tsx'
import { useLoad } from '../../state/load.ts'
import { addressOf } from '../../state/place.ts'
import { ComparedTable } from './traffic-table.tsx'

const againEveryMs = 60_000

interface RangeProps {
  readonly spanMs: number
  /** As the address has it. */
  readonly range: string
  readonly nodeId: string | null
  readonly model: string | null
  readonly names: ReadonlyMap<string, string>
}

/** A range of the past, and each number beside that of the range before it. */
export function TrafficRange({ spanMs, range, nodeId, model, names }: RangeProps) {
  // The end moves on with the minutes, not with the seconds.
  const minute = Math.ceil(useNow(againEveryMs) / 60_000) * 60_000
  const from = new Date(minute - spanMs).toISOString()
  const asked = addressOf('', null, { from, node_id: nodeId ?? '', model: model ?? '' }).slice(1)
  const [loaded, again] = useLoad<AdminTraffic>(`/v1/admin/traffic${asked}`)
  return (
    <Part what="the traffic" loaded={loaded} again={again}>
      {(traffic) => <Whole traffic={traffic} range={range} names={names} />}
    </Part>
  )
}

interface WholeProps {
  readonly traffic: AdminTraffic
  readonly range: string
  readonly names: ReadonlyMap<string, string>
}

function Whole({ traffic, range, names }: WholeProps) {
  const { from, now, before, kept_days: days, unread } = traffic
  if (days === 0) {
    return (
      <Empty title="No requests are kept">
        The setting <code>SVC_REQUEST_LOG_DAYS</code> is 0, so this gateway knows only the last 15 minutes.
      </Empty>
    )
  }
  if (now.requests === 0 && before.requests === 0) {
    return <Empty title="No request">None was asked in this range, nor in the one before.</Empty>
  }
  return (
    <>
      <p class="muted">
        Since {shortTime(from)}, beside as long before it. The gateway keeps {count(days)} days of requests.
        {unread.map(
          (part) =>
            ` From ${shortTime(part.from)} to ${shortTime(part.to)} there were too many to read: no figure has them.`,
        )}
      </p>
      <Totals now={now} before={before} />
      <Charts traffic={traffic} />
      {traffic.nodes.length > 0 && (
        <ComparedTable
          title="By node"
          first="Node"
          rows={traffic.nodes.map(({ node_id: id, ...both }) => ({
            id,
            name: names.get(id) ?? id,
            address: addressOf('traffic', null, { range, node_id: id }),
            ...both,
          }))}
        />
      )}
      {traffic.models.length > 0 && (
        <ComparedTable
          title="By model"
          first="Model"
          rows={traffic.models.map(({ model, ...both }) => ({
            id: model,
            name: model,
            address: addressOf('traffic', null, { range, model }),
            ...both,
          }))}
        />
      )}
    </>
  )
}

const Compared = ({ name, now, before }: { name: string; now: string; before: string }) => (
  <div class="figure">
    <dt>{name}</dt>
    <dd>
      {now} <small>before: {before}</small>
    </dd>
  </div>
)

const percent = ({ failed, requests }: TrafficMeasure) =>
  requests === 0 ? '–' : `${amount((failed / requests) * 100)} %`

const Totals = ({ now, before }: { now: TrafficMeasure; before: TrafficMeasure }) => (
  <dl class="figures">
    <Compared name="Requests" now={count(now.requests)} before={count(before.requests)} />
    <Compared name="Failed" now={percent(now)} before={percent(before)} />
    <Compared name="First token, p50" now={duration(now.ttft_p50_ms)} before={duration(before.ttft_p50_ms)} />
    <Compared name="First token, p95" now={duration(now.ttft_p95_ms)} before={duration(before.ttft_p95_ms)} />
    <Compared name="Took, p95" now={duration(now.duration_p95_ms)} before={duration(before.duration_p95_ms)} />
    <Compared name="Tokens out" now={count(now.completion_tokens)} before={count(before.completion_tokens)} />
  </dl>
)

/** Both ranges on one axis: the one before lies below, moved to where this one is. */
function Charts({ traffic }: { traffic: AdminTraffic }) {
  const { unread } = traffic
  const [stepMs, fromMs, toMs] = [traffic.step_seconds * 1_000, Date.parse(traffic.from), Date.parse(traffic.to)]
  const spanMs = toMs - fromMs
  const known = new Map(traffic.points.map((point) => [Date.parse(point.at), point]))
  const first = Math.floor(fromMs / stepMs) * stepMs
  const times = Array.from({ length: Math.ceil((toMs - first) / stepMs) }, (_, at) => first + at * stepMs)
  const shift = Math.round(spanMs / stepMs) * stepMs
  type Point = AdminTraffic['points'][number]
  const of = (read: (point: Point) => number | null, none: number | null, backMs = 0) =>
    times.map((time) => {
      const point = known.get(time - backMs)
      if (unread.some(({ from, to }) => time - backMs < Date.parse(to) && time - backMs + stepMs > Date.parse(from)))
        return null
      return point === undefined ? none : read(point)
    })
  const both = (name: string, read: (point: Point) => number | null, none: number | null): readonly Line[] => [
    { name, values: of(read, none) },
    { name: 'before', values: of(read, none, shift) },
  ]
  const each = `, per ${duration(stepMs)}`
  const charts = [
    { title: `Requests${each}`, lines: both('requests', (point) => point.requests, 0), show: count },
    { title: `Failed${each}`, lines: both('failed', (point) => point.failed, 0), show: count },
    { title: 'First token, p50', lines: both('p50', (point) => point.ttft_p50_ms, null), show: duration },
    { title: 'First token, p95', lines: both('p95', (point) => point.ttft_p95_ms, null), show: duration },
    { title: 'Took, p95', lines: both('p95', (point) => point.duration_p95_ms, null), show: duration },
    { title: `Tokens out${each}`, lines: both('tokens', (point) => point.completion_tokens, 0), show: count },
  ]
  return (
    <div class="charts compared">
      {charts.map((chart) => (
        <LineChart key={chart.title} times={times} spanMs={spanMs} {...chart} />
      ))}
    </div>
  )
}
