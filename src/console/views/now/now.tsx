import type { NodeList } from '../../../protocol/wire/admin/admin.ts'
import type { AdminFailures } from '../../../protocol/wire/admin/failures.ts'
import type { AdminTraffic, TrafficMeasure } from '../../../protocol/wire/admin/traffic.ts'
import { amount, count, duration, nothing } from '../../parts/format.ts'
import { byNeed, merged } from '../../parts/node-facts.ts'
import { Figure, useNow } from '../../parts/small.tsx'
import { Empty, Part } from '../../parts/states.tsx'
import { useCustomerNames, useKeyNames } from '../../state/account-names.ts'
import { liveNodes } from '../../state/live.ts'
import { useLoad } from '../../state/load.ts'
import { nodesPath } from '../../state/node-list.ts'
import { useNodeNames } from '../../state/node-names.ts'
import { addressOf } from '../../state/place.ts'
import { Alerts } from './alerts.tsx'
import { FailureRow } from './failure-row.tsx'
import { Room } from './room.tsx'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const againEveryMs = 15_000
/** The gateway had no room, or the caller had used up what it may have. */
const turnedAway: readonly number[] = [429, 503]

/** The hour that ends `backMs` before `toMs`. What was read of it stays while it moves on. */
function useHour<T>(what: string, toMs: number, backMs = 0) {
  const endMs = toMs - backMs
  const range = { from: new Date(endMs - hourMs).toISOString(), to: new Date(endMs).toISOString() }
  return useLoad<T>(
    `/v1/admin/${what}${addressOf('', null, range).slice(1)}`,
    null,
    `${what} of an hour, ${backMs} ago`,
  )
}

/** The last hour, beside the same hour of yesterday, and what is wrong. */
export function Now() {
  // The hour moves on by a quarter of a minute, as often as it is read.
  const to = Math.ceil(useNow(againEveryMs) / againEveryMs) * againEveryMs
  const [traffic, again] = useHour<AdminTraffic>('traffic', to)
  const [yesterday] = useHour<AdminTraffic>('traffic', to, dayMs)
  const [failures, readFailures] = useHour<AdminFailures>('failures', to)
  const [before] = useHour<AdminFailures>('failures', to, dayMs)
  return (
    <>
      <h1>Now</h1>
      <Part what="the last hour" loaded={traffic} again={again}>
        {({ now, kept_days: days }) =>
          days === 0 ? (
            <Empty title="No requests are kept">
              The setting <code>SVC_REQUEST_LOG_DAYS</code> is 0: the view Traffic shows the last 15 minutes.
            </Empty>
          ) : (
            <Figures
              now={now}
              away={failures.kind === 'ready' ? awayOf(failures.data) : null}
              before={yesterday.kind === 'ready' ? yesterday.data.now : null}
              awayBefore={before.kind === 'ready' ? awayOf(before.data) : null}
            />
          )
        }
      </Part>
      <Room />
      <section aria-label="Problems" class="problems">
        <h2>Problems</h2>
        <Alerts />
        <NodesAway />
        <Part what="what failed" loaded={failures} again={readFailures}>
          {(found) => <Causes found={found} />}
        </Part>
      </section>
    </>
  )
}

const awayOf = ({ failures }: AdminFailures) =>
  failures.filter(({ status }) => turnedAway.includes(status)).reduce((sum, { requests }) => sum + requests, 0)

interface FiguresProps {
  readonly now: TrafficMeasure
  readonly away: number | null
  /** null: not read yet. */
  readonly before: TrafficMeasure | null
  readonly awayBefore: number | null
}

const succeeded = ({ requests, failed }: TrafficMeasure) =>
  requests === 0 ? nothing : `${amount(Math.floor((1 - failed / requests) * 1_000) / 10)} %`
const rateOf = ({ completion_tokens: tokens }: TrafficMeasure) => `${amount(tokens / (hourMs / 1_000))} tok/s`
const known = (value: number | null) => (value === null ? nothing : count(value))

function Figures({ now, before, away, awayBefore }: FiguresProps) {
  const figures: readonly (readonly [string, (of: TrafficMeasure) => string])[] = [
    ['Succeeded', succeeded],
    ['Requests', ({ requests }) => count(requests)],
    ['First token, p50', ({ ttft_p50_ms: ms }) => duration(ms)],
    ['First token, p95', ({ ttft_p95_ms: ms }) => duration(ms)],
    ['Tokens out', rateOf],
  ]
  return (
    <>
      <p class="muted">The last hour, beside the same hour of yesterday.</p>
      <dl class="figures">
        {figures.map(([name, of]) => (
          <Figure
            key={name}
            name={name}
            value={of(now)}
            hint={`yesterday: ${before === null ? nothing : of(before)}`}
          />
        ))}
        <Figure name="Turned away" value={known(away)} hint={`yesterday: ${known(awayBefore)}`} />
      </dl>
    </>
  )
}

const shownMax = 5
const meant: readonly string[] = ['ready', 'yielding', 'asleep']

/**
 * Nodes that should answer and cannot. Those that an operator has drained or revoked are meant to be away, and those that sleep or
 * yield do what their owner wants.
 */
function NodesAway() {
  const [list] = useLoad<NodeList>(nodesPath)
  const live = liveNodes.value
  if (list.kind !== 'ready') return null
  const nodes = list.data.nodes.map((row) => merged(row, live.get(row.node_id)))
  const wanted = nodes.filter(({ admin_state: wish }) => wish === 'active')
  const away = wanted.filter(({ state }) => !meant.includes(state)).toSorted(byNeed)
  if (away.length === 0) return null
  const named = away.slice(0, shownMax).map(({ name, state }) => `${name} (${state})`)
  const more = away.length > shownMax ? ` and ${count(away.length - shownMax)} more` : ''
  return (
    <p class="problem">
      <strong>
        {count(away.length)} of {count(wanted.length)} nodes cannot answer:
      </strong>{' '}
      {named.join(', ')}
      {more}. <a href={addressOf('pool', null)}>Look at the pool</a>
    </p>
  )
}

function Causes({ found }: { found: AdminFailures }) {
  const nodes = useNodeNames()
  const customers = useCustomerNames()
  const names = { nodes, customers, keys: useKeyNames(customers) }
  if (found.kept_days === 0) return null
  if (found.failures.length === 0)
    return <Empty title="No request failed">None ended with an error in the last hour.</Empty>
  return (
    <ul class="causes">
      {found.failures.map((cluster) => (
        <FailureRow key={`${cluster.status} ${cluster.code}`} cluster={cluster} from={found.from} {...names} />
      ))}
    </ul>
  )
}
