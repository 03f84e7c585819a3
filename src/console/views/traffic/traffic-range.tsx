import type { AdminTraffic, TrafficMeasure } from '../../../protocol/wire/admin/traffic.ts'
import { amount, count, duration, shortTime } from '../../parts/format.ts'
import { Empty, Part } from '../../parts/states.tsx'
import type { Brush } from '../../plots/brush.ts'
import { useLoad } from '../../state/load.ts'
import { addressOf } from '../../state/place.ts'
import { TrafficCharts } from './traffic-charts.tsx'
import { ComparedTable } from './traffic-table.tsx'

/** Unix ms. */
export interface Range {
  readonly fromMs: number
  readonly toMs: number
}

interface RangeProps extends Range {
  readonly nodeId: string | null
  readonly model: string | null
  /** Of what the address has, all but the node and the model. */
  readonly here: Readonly<Record<string, string>>
  readonly names: ReadonlyMap<string, string>
  readonly brush: Brush
  /** It moves on with the time: what was read of it stays while it does. */
  readonly moves: boolean
}

/** What the reads of a range are asked for. */
const askedOf = ({ fromMs, toMs, nodeId, model }: Pick<RangeProps, 'fromMs' | 'toMs' | 'nodeId' | 'model'>) =>
  addressOf('', null, {
    from: new Date(fromMs).toISOString(),
    to: new Date(toMs).toISOString(),
    node_id: nodeId ?? '',
    model: model ?? '',
  }).slice(1)

/** A range of the past, and each number beside that of the range before it. */
export function TrafficRange(props: RangeProps) {
  const asked = askedOf(props)
  const { moves, nodeId, model, fromMs, toMs } = props
  const of = moves ? JSON.stringify([toMs - fromMs, nodeId, model]) : asked
  const [loaded, again] = useLoad<AdminTraffic>(`/v1/admin/traffic${asked}`, null, `traffic ${of}`)
  return (
    <Part what="the traffic" loaded={loaded} again={again}>
      {(traffic) => <Whole traffic={traffic} asked={asked} of={of} {...props} />}
    </Part>
  )
}

interface WholeProps extends RangeProps {
  readonly traffic: AdminTraffic
  readonly asked: string
  readonly of: string
}

function Whole({ traffic, asked, of, here, names, brush }: WholeProps) {
  const { from, to, now, before, kept_days: days, unread } = traffic
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
        {shortTime(from)} to {shortTime(to)}, beside as long before it. The gateway keeps {count(days)} days of
        requests.
        {unread.map(
          (part) =>
            ` From ${shortTime(part.from)} to ${shortTime(part.to)} there were too many to read: no figure has them.`,
        )}
      </p>
      <Totals now={now} before={before} />
      <TrafficCharts traffic={traffic} asked={asked} of={of} brush={brush} />
      {traffic.nodes.length > 0 && (
        <ComparedTable
          title="By node"
          first="Node"
          rows={traffic.nodes.map(({ node_id: id, ...both }) => ({
            id,
            name: names.get(id) ?? id,
            address: addressOf('traffic', null, { ...here, node_id: id }),
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
            address: addressOf('traffic', null, { ...here, model }),
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
