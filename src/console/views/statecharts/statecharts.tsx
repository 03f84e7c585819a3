import { useState } from 'preact/hooks'
import type { Machine, MachineCounts, MachineList } from '../../../protocol/wire/admin/inspect.ts'
import { History, useTransitions } from '../../parts/chart-history.tsx'
import { ChartPicture } from '../../parts/chart-picture.tsx'
import { type Zoom, ZoomButtons } from '../../parts/chart-picture-zoom.tsx'
import { count, nothing } from '../../parts/format.ts'
import { Frame } from '../../parts/frame.tsx'
import { instanceSources, instancesOf, type Row, rowsOf } from '../../parts/instances.ts'
import { Id } from '../../parts/small.tsx'
import { Empty, Part } from '../../parts/states.tsx'
import { machines as counted } from '../../state/live.ts'
import { useLoad } from '../../state/load.ts'
import { addressOf, usePlace } from '../../state/place.ts'
import { InstanceFacts } from './instance-facts.tsx'
import { Instances } from './instances.tsx'
import { useRecorded } from './recorded.ts'

const rowsEveryMs = 10_000
const countedText = 'Numbers are the instances that are in a state now.'
const recordedText = 'No statechart runs while it is served, so nothing is counted.'

export function Statecharts() {
  const [list, again] = useLoad<MachineList>('/v1/admin/machines')
  // `#statecharts/<machine>/<id>`
  const { id: wanted, below: id } = usePlace()
  return (
    <>
      <h1>Statecharts</h1>
      <Part what="the statecharts" loaded={list} again={again}>
        {({ machines }) => {
          const machine = machines.find((each) => each.machine === wanted) ?? machines[0]
          if (machine === undefined) return <Empty title="No statechart">This gateway runs none.</Empty>
          return (
            <>
              <nav aria-label="Statecharts">
                <ul class="tabs">
                  {machines.map((each) => (
                    <li key={each.machine}>
                      <a href={`#statecharts/${each.machine}`} aria-current={each === machine ? 'true' : undefined}>
                        {each.title} {!each.recorded && <Live of={each.machine} />}
                      </a>
                    </li>
                  ))}
                </ul>
              </nav>
              <OneChart key={machine.machine} machine={machine} id={id} />
            </>
          )
        }}
      </Part>
    </>
  )
}

const liveOf = (counts: MachineCounts | undefined) => counts?.states.filter(({ live }) => live > 0) ?? []

function Live({ of }: { of: string }) {
  const total = liveOf(counted.value.get(of)).reduce((sum, { live }) => sum + live, 0)
  return <span class="badge">{count(total)}</span>
}

function OneChart({ machine, id }: { machine: Machine; id: string | null }) {
  const source = instanceSources[machine.machine]
  const [zoom, setZoom] = useState<Zoom>('width')
  const [answer] = useLoad<Row>(source?.path ?? null, rowsEveryMs)
  const [transitions, again] = useTransitions(machine.machine)
  const rows = answer.kind === 'ready' && source !== undefined ? rowsOf(answer.data, source) : []
  const all = transitions.kind === 'ready' ? transitions.data : []
  const instances = instancesOf(all, rows, source)
  const recorded = useRecorded(machine, id)
  const chosen = instances.find((each) => each.id === id)
  const own = recorded ?? all.filter((each) => each.id === id)
  const lit = recorded?.[0]?.to ?? chosen?.state ?? null
  const counts = new Map(liveOf(counted.value.get(machine.machine)).map(({ state, live }) => [state, live]))
  return (
    <div class="statechart-page">
      <div>
        <div class="picture-bar">
          <h2>{machine.title}</h2>
          <p class="muted">
            {machine.about}. {machine.recorded ? recordedText : countedText}
          </p>
          <ZoomButtons zoom={zoom} change={setZoom} />
        </div>
        <ChartPicture
          machine={machine}
          zoom={zoom}
          counts={counts}
          lit={lit}
          visited={new Set(own.map(({ to }) => to))}
        />
        <StateTable machine={machine} />
      </div>
      <aside aria-label="Instances">
        <h2>Instances</h2>
        <Part what="the transitions" loaded={transitions} again={again}>
          {() => <Instances machine={machine} instances={instances} chosen={id} />}
        </Part>
        {id !== null && (
          <section aria-labelledby="chosen-title" class="chosen">
            <h2 id="chosen-title">
              {chosen?.name ?? machine.title} <Id id={id} />
            </h2>
            <History transitions={own} />
            {machine.recorded && <a href={addressOf('requests', id)}>All about this request</a>}
            {source !== undefined && <InstanceFacts source={source} row={rows.find((row) => row[source.id] === id)} />}
          </section>
        )}
      </aside>
    </div>
  )
}

/** The picture in words: for readers who do not see it, and for the numbers since the start. */
function StateTable({ machine }: { machine: Machine }) {
  const counts = new Map((counted.value.get(machine.machine)?.states ?? []).map((each) => [each.state, each]))
  const leaves = machine.states.filter(({ kind }) => kind !== 'compound')
  return (
    <details class="in-words">
      <summary>States and transitions in words</summary>
      <Frame label="States">
        <table>
          <thead>
            <tr>
              <th scope="col">State</th>
              {!machine.recorded && (
                <>
                  <th scope="col" class="number">
                    Now
                  </th>
                  <th scope="col" class="number">
                    Entered
                  </th>
                </>
              )}
              <th scope="col">Leads to</th>
            </tr>
          </thead>
          <tbody>
            {leaves.map(({ state }) => (
              <tr key={state}>
                <th scope="row">{state}</th>
                {!machine.recorded && (
                  <>
                    <td class="number">{count(counts.get(state)?.live ?? 0)}</td>
                    <td class="number">{count(counts.get(state)?.entered ?? 0)}</td>
                  </>
                )}
                <td>{leadsTo(machine, state)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Frame>
    </details>
  )
}

/** Its own transitions and those of the states around it. */
function leadsTo({ transitions }: Machine, state: string): string {
  const from = transitions.filter(
    ({ source, target }) => target !== source && (source === '' || source === state || state.startsWith(`${source}.`)),
  )
  const texts = from.map(({ event, guard, target }) => `${target} (${event}${guard === null ? '' : `, ${guard}`})`)
  return texts.length === 0 ? nothing : [...new Set(texts)].join('; ')
}
