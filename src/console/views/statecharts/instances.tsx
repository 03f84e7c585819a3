import { useState } from 'preact/hooks'
import type { Machine } from '../../../protocol/wire/admin/inspect.ts'
import { count, shortId, shortTime } from '../../parts/format.ts'
import { Frame } from '../../parts/frame.tsx'
import { anyInstance, filtered, type Instance, type InstanceFilter } from '../../parts/instances.ts'
import { useNow } from '../../parts/small.tsx'
import { useVirtual } from '../../parts/virtual.ts'
import { useNodeNames } from '../../state/node-names.ts'

const minuteMs = 60_000
/** What the age can be; a negative one: at most. */
const ages = [
  ['any age', 0],
  ['moved in the last minute', -minuteMs],
  ['moved in the last hour', -60 * minuteMs],
  ['still for 10 minutes', 10 * minuteMs],
  ['still for a day', 1_440 * minuteMs],
] as const
const rowGuessPx = 52

interface InstancesProps {
  readonly machine: Machine
  readonly instances: readonly Instance[]
  readonly chosen: string | null
}

/** The instances that are known, by state, age and node. */
export function Instances({ machine, instances, chosen }: InstancesProps) {
  const [filter, change] = useState(anyInstance)
  const names = useNodeNames()
  const now = useNow(10_000)
  const found = filtered(instances, filter, names, now)
  const virtual = useVirtual<HTMLUListElement>(
    found.map(({ id }) => id),
    rowGuessPx,
  )
  if (instances.length === 0) return <p class="muted">None since the gateway started.</p>
  return (
    <>
      <InstanceFilters machine={machine} filter={filter} change={change} shown={found.length} all={instances.length} />
      {found.length === 0 && <p class="muted">None fits.</p>}
      {found.length > 0 && (
        <Frame label="List of instances" kind="instances">
          <ul ref={virtual.list}>
            {virtual.before > 0 && <li aria-hidden="true" style={{ height: `${virtual.before}px` }} />}
            {found.slice(virtual.first, virtual.end).map(({ id, name, state, at, since }) => (
              <li key={id} data-row={id}>
                <a href={`#statecharts/${machine.machine}/${id}`} aria-current={id === chosen ? 'true' : undefined}>
                  <span class="instance-name">{name ?? shortId(id)}</span>
                  <span class="instance-state">{state}</span>
                  <span class="muted">
                    {at !== null ? shortTime(at) : machine.recorded && since !== null ? shortTime(since) : 'rests'}
                  </span>
                  <span class="muted instance-id">{id}</span>
                </a>
              </li>
            ))}
            {virtual.after > 0 && <li aria-hidden="true" style={{ height: `${virtual.after}px` }} />}
          </ul>
        </Frame>
      )}
    </>
  )
}

interface FiltersProps {
  readonly machine: Machine
  readonly filter: InstanceFilter
  readonly change: (next: InstanceFilter) => void
  readonly shown: number
  readonly all: number
}

const InstanceFilters = ({ machine, filter, change, shown, all }: FiltersProps) => (
  <div class="instance-filters">
    <select
      aria-label="State"
      value={filter.state}
      onChange={(event) => change({ ...filter, state: event.currentTarget.value })}
    >
      <option value="">any state</option>
      {machine.states
        .filter(({ state }) => state !== '')
        .map(({ state }) => (
          <option key={state}>{state}</option>
        ))}
    </select>
    <select
      aria-label="Age"
      value={String(filter.ageMs)}
      onChange={(event) => change({ ...filter, ageMs: Number(event.currentTarget.value) })}
    >
      {ages.map(([title, ageMs]) => (
        <option key={title} value={String(ageMs)}>
          {title}
        </option>
      ))}
    </select>
    <input
      type="search"
      aria-label="Node, name or id"
      placeholder="node, name or id"
      value={filter.text}
      onInput={(event) => change({ ...filter, text: event.currentTarget.value })}
    />
    <span class="muted" role="status">
      {shown === all ? count(all) : `${count(shown)} of ${count(all)}`}
    </span>
  </div>
)
