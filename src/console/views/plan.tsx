import type { MemoryPlanList, PlannedModel, PlannedPlace } from '../../protocol/wire/admin/memory-plan.ts'
import { ActButtons } from '../actions/act-button.tsx'
import { amount, count, duration, nothing } from '../parts/format.ts'
import { type Column, LongTable } from '../parts/long-table.tsx'
import { Pill } from '../parts/small.tsx'
import { Empty, Part } from '../parts/states.tsx'
import { useLoad } from '../state/load.ts'

const everyMs = 15_000
const path = '/v1/admin/plan?limit=10000'

const modes: Readonly<Record<MemoryPlanList['mode'], string>> = {
  off: 'The plan is off: the setting SVC_PLAN says so.',
  advise: 'The gateway loads nothing of this plan by itself. With SVC_PLAN=act it does, one model per node at a time.',
  act: 'The gateway does these loads itself, one per node at a time, each with an event in the audit.',
}

/** Which model belongs on which node, and why. */
export function Plan() {
  const [plan, again] = useLoad<MemoryPlanList>(path, everyMs)
  return (
    <>
      <h1>Plan: which model should run where, and why</h1>
      <Part what="the plan" loaded={plan} again={again}>
        {(found) => (
          <>
            <p class="muted">{modes[found.mode]}</p>
            <Moves places={found.places} />
            <h2>Models</h2>
            <Models models={found.models} />
            {found.places.length > 0 && (
              <>
                <h2>Places</h2>
                <Places places={found.places} />
              </>
            )}
          </>
        )}
      </Part>
    </>
  )
}

const keyOf = ({ node_id, model }: PlannedPlace) => `${node_id} ${model}`

/** The form of the existing action: what the node throws out for it, the node decides unless it is told first. */
const Act = ({ place }: { place: PlannedPlace }) => (
  <ActButtons
    kind="model of a node"
    row={{ node_id: place.node_id, name: place.node, model: place.model, loaded: place.loaded }}
    on={`${place.model} on ${place.node}`}
  />
)

function Moves({ places }: { places: readonly PlannedPlace[] }) {
  const moves = places.filter(({ step }) => step === 'load')
  if (places.length === 0) return <Empty title="Nothing to plan">No node has a memory that can be planned.</Empty>
  if (moves.length === 0)
    return <Empty title="Everything is where it should be">No load would pay for itself within ten minutes.</Empty>
  return (
    <ul class="causes" aria-label="Loads that pay">
      {moves.map((place) => (
        <li key={keyOf(place)} class="problem">
          {place.why}{' '}
          {place.saves_ms !== null && (
            <span class="muted">It saves {duration(place.saves_ms)} of waiting in ten minutes. </span>
          )}
          <Act place={place} />
        </li>
      ))}
    </ul>
  )
}

const modelColumns: readonly Column<PlannedModel>[] = [
  { title: 'Model', by: ({ model }) => model, show: ({ model }) => model },
  {
    title: 'Calls a minute',
    number: true,
    by: (model) => model.calls_per_minute,
    show: (model) => amount(model.calls_per_minute),
  },
  { title: 'Calls, last hour', number: true, by: ({ calls }) => calls, show: ({ calls }) => count(calls) },
  {
    title: 'Waited for a load',
    number: true,
    by: (model) => model.waited_calls,
    show: ({ waited_calls: waited, wait_ms: ms }) =>
      waited === 0 || ms === null ? nothing : `${count(waited)} (${duration(ms)} each)`,
  },
  {
    title: 'Turned away',
    number: true,
    by: (model) => model.turned_away,
    show: ({ turned_away: away }) => (away === 0 ? nothing : count(away)),
  },
  { title: 'In memory', number: true, by: ({ replicas }) => replicas, show: ({ replicas }) => count(replicas) },
  {
    title: 'Planned',
    number: true,
    by: (model) => model.planned_replicas,
    show: (model) => count(model.planned_replicas),
  },
  {
    title: 'Wanted',
    number: true,
    by: (model) => model.wanted_replicas,
    show: ({ wanted_replicas: wanted, planned_replicas: planned }) =>
      wanted > planned ? <Pill tone="warn" text={count(wanted)} /> : count(wanted),
  },
]

const Models = ({ models }: { models: readonly PlannedModel[] }) => (
  <LongTable
    label="Models, by their demand"
    rows={models}
    keyOf={({ model }) => model}
    textOf={({ model }) => model}
    columns={modelColumns}
    first={{ title: 'Calls a minute', falling: true }}
  />
)

const steps: Readonly<Record<PlannedPlace['step'], string>> = {
  load: 'to load',
  leave: 'gives way',
  stay: 'in memory',
  spare: 'in memory, not asked for',
  away: 'not in memory',
}

const placeColumns: readonly Column<PlannedPlace>[] = [
  { title: 'Node', by: ({ node }) => node, show: ({ node }) => node },
  { title: 'Model', by: ({ model }) => model, show: ({ model }) => model },
  {
    title: 'State',
    by: ({ step }) => steps[step],
    show: ({ step, pinned }) => `${steps[step]}${pinned ? ', pinned' : ''}`,
  },
  {
    title: 'Memory',
    number: true,
    by: (place) => place.memory_mb,
    show: ({ memory_mb: mb }) => (mb === null ? nothing : `${count(mb)} MiB`),
  },
  { title: 'Load takes', number: true, by: (place) => place.load_ms, show: ({ load_ms: ms }) => duration(ms) },
]

const Places = ({ places }: { places: readonly PlannedPlace[] }) => (
  <LongTable
    label="Models on nodes"
    rows={places}
    keyOf={keyOf}
    textOf={({ node, model }) => `${node} ${model}`}
    columns={placeColumns}
    first={{ title: 'Node', falling: false }}
    actions={(place) => <Act place={place} />}
  />
)
