import { Pill } from '../../parts/small.tsx'
import { addressOf, usePlace } from '../../state/place.ts'
import { useNodeNames } from '../requests/request-list.tsx'
import { TrafficLive } from './traffic-live.tsx'
import { TrafficRange } from './traffic-range.tsx'

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

/** What went through: now, or in a range beside the one before it. All of it stands in the address. */
export function Traffic() {
  const { query } = usePlace()
  const names = useNodeNames()
  const [range, nodeId, model] = ['range', 'node_id', 'model'].map((name) => query.get(name) || null)
  const [id, , spanMs] = ranges.find(([each]) => each === (range ?? '')) ?? ranges[0]
  const here = { node_id: nodeId ?? '', model: model ?? '' }
  const of = model ?? (nodeId == null ? null : (names.get(nodeId) ?? nodeId))
  return (
    <>
      <div class="title-row">
        <h1>Traffic</h1>
        <nav aria-label="Range">
          <ul class="tabs">
            {ranges.map(([each, title]) => (
              <li key={each}>
                <a
                  href={addressOf('traffic', null, { range: each, ...here })}
                  aria-current={each === id ? 'true' : undefined}
                >
                  {title}
                </a>
              </li>
            ))}
          </ul>
        </nav>
      </div>
      {of !== null && (
        <p>
          Only <Pill tone="info" text={of} /> <a href={addressOf('traffic', null, { range: id })}>Show all</a>
        </p>
      )}
      {spanMs === null && nodeId == null ? (
        <TrafficLive model={model ?? null} />
      ) : (
        <TrafficRange
          spanMs={spanMs ?? hourMs}
          range={id}
          nodeId={nodeId ?? null}
          model={model ?? null}
          names={names}
        />
      )}
    </>
  )
}
