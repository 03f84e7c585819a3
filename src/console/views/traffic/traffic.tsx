import { fullTime } from '../../parts/format.ts'
import { Pill, useNow } from '../../parts/small.tsx'
import { useNodeNames } from '../../state/node-names.ts'
import { addressOf, usePlace } from '../../state/place.ts'
import { TrafficLive } from './traffic-live.tsx'
import { type Range, TrafficRange } from './traffic-range.tsx'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
/** What can be chosen; null: the last quarter of an hour, as it comes. */
const ranges = [
  ['', '15 minutes, live', null],
  ['1h', '1 hour', hourMs],
  ['3h', '3 hours', 3 * hourMs],
  ['24h', '24 hours', dayMs],
  ['7d', '7 days', 7 * dayMs],
  ['30d', '30 days', 30 * dayMs],
  ['90d', '90 days', 90 * dayMs],
  ['365d', '365 days', 365 * dayMs],
] as const

/** The shortest mark: the plot's smallest unit is a minute. */
const markedMsMin = 5 * 60_000
const minuteMs = 60_000
const againEveryMs = 60_000

const isoOf = (ms: number) => new Date(ms).toISOString().replace('.000Z', 'Z')
const momentOf = (text: string | null) => {
  const ms = Date.parse(text ?? '')
  return Number.isNaN(ms) ? null : ms
}

/** Whole minutes around what was marked. */
function markedRange(fromMs: number, toMs: number): Range {
  const lackingMs = Math.max(0, markedMsMin - (toMs - fromMs))
  return {
    fromMs: Math.floor((fromMs - lackingMs / 2) / minuteMs) * minuteMs,
    toMs: Math.ceil((toMs + lackingMs / 2) / minuteMs) * minuteMs,
  }
}

interface Shown {
  readonly range: string
  readonly node_id: string
  readonly model: string
}

const addressIn = (shown: Shown, range: Range | null) =>
  addressOf('traffic', null, {
    ...shown,
    ...(range === null ? {} : { from: isoOf(range.fromMs), to: isoOf(range.toMs) }),
  })

/** What went through: now, or in a range beside the one before it. All of it stands in the address. */
export function Traffic() {
  const { query } = usePlace()
  const names = useNodeNames()
  const [nodeId, model] = ['node_id', 'model'].map((name) => query.get(name) || null)
  const [id, title, spanMs] = ranges.find(([each]) => each === (query.get('range') ?? '')) ?? ranges[0]
  const [fromMs, toMs] = [momentOf(query.get('from')), momentOf(query.get('to'))]
  const zoomed = fromMs !== null && toMs !== null && fromMs < toMs ? { fromMs, toMs } : null
  const shown: Shown = { range: id, node_id: nodeId ?? '', model: model ?? '' }
  const of = model ?? (nodeId == null ? null : (names.get(nodeId) ?? nodeId))
  const brush = (markFromMs: number, markToMs: number) => {
    location.hash = addressIn(shown, markedRange(markFromMs, markToMs))
  }
  const past = { nodeId: nodeId ?? null, model: model ?? null, names, brush }
  return (
    <>
      <div class="title-row">
        <h1>Traffic</h1>
        <nav aria-label="Range">
          <ul class="tabs">
            {ranges.map(([each, name]) => (
              <li key={each}>
                <a
                  href={addressIn({ ...shown, range: each }, null)}
                  aria-current={each === id && zoomed === null ? 'true' : undefined}
                >
                  {name}
                </a>
              </li>
            ))}
          </ul>
        </nav>
      </div>
      {of !== null && (
        <p>
          Only <Pill tone="info" text={of} />{' '}
          <a href={addressIn({ range: id, node_id: '', model: '' }, zoomed)}>Show all</a>
        </p>
      )}
      {zoomed !== null ? (
        <>
          <Zoomed shown={shown} back={title} zoomed={zoomed} />
          <TrafficRange
            {...zoomed}
            here={{ range: id, from: isoOf(zoomed.fromMs), to: isoOf(zoomed.toMs) }}
            moves={false}
            {...past}
          />
        </>
      ) : spanMs === null && nodeId == null ? (
        <TrafficLive model={model ?? null} brush={brush} />
      ) : (
        <Latest spanMs={spanMs ?? hourMs} here={{ range: id }} {...past} />
      )}
    </>
  )
}

/** Ends now: the end moves on with the minutes, not with the seconds. */
function Latest({
  spanMs,
  ...past
}: { spanMs: number } & Omit<Parameters<typeof TrafficRange>[0], keyof Range | 'moves'>) {
  const toMs = Math.ceil(useNow(againEveryMs) / minuteMs) * minuteMs
  return <TrafficRange fromMs={toMs - spanMs} toMs={toMs} moves {...past} />
}

/** Ways on from a part of the time, also for those who do not drag. */
function Zoomed({ shown, back, zoomed }: { shown: Shown; back: string; zoomed: Range }) {
  const { fromMs, toMs } = zoomed
  const spanMs = toMs - fromMs
  const to = (name: string, range: Range) => <a href={addressIn(shown, range)}>{name}</a>
  const quarter = spanMs / 4
  return (
    <nav class="zoomed" aria-label="Part of the time">
      <b>
        {fullTime(isoOf(fromMs))} to {fullTime(isoOf(toMs))}
      </b>
      {to('Earlier', { fromMs: fromMs - spanMs, toMs: fromMs })}
      {to('Later', { fromMs: toMs, toMs: toMs + spanMs })}
      {to('Closer', markedRange(fromMs + quarter, toMs - quarter))}
      {to('Wider', { fromMs: fromMs - spanMs / 2, toMs: toMs + spanMs / 2 })}
      <a href={addressIn(shown, null)}>Back to {back}</a>
    </nav>
  )
}
