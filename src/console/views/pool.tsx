import { useEffect, useState } from 'preact/hooks'
import type { CustomerList } from '../../protocol/wire/admin/accounts.ts'
import type { Node, NodeList } from '../../protocol/wire/admin/admin.ts'
import { ActButton } from '../actions/act-button.tsx'
import { addNode, enrolNode } from '../actions/node-acts.ts'
import { ago, amount, count, duration } from '../parts/format.ts'
import { Frame } from '../parts/frame.tsx'
import { type Column, fits, Gap, Search, SortHead, type Sorting, sorted } from '../parts/long-table.tsx'
import { byNeed, firstTokenOf, merged, modelsOf, occupancyOf, speedOf } from '../parts/node-facts.ts'
import { Figure, useNow } from '../parts/small.tsx'
import { Cut, Empty, Part } from '../parts/states.tsx'
import { useVirtual } from '../parts/virtual.ts'
import { liveNodes } from '../state/live.ts'
import { useLoad } from '../state/load.ts'
import { nodesMax, nodesPath } from '../state/node-list.ts'
import { usePlace } from '../state/place.ts'
import { mayAct } from '../state/session.ts'
import { Joins } from './pool-joins.tsx'
import { MapChoices, readMap } from './pool-map/choices.tsx'
import { PoolMap } from './pool-map/map.tsx'
import { NodeRow } from './pool-node.tsx'

const rowsEveryMs = 30_000

function Summary({ nodes }: { nodes: readonly Node[] }) {
  const { inFlight, slots } = occupancyOf(nodes)
  const now = useNow()
  const ready = nodes.filter(({ state }) => state === 'ready').length
  const models = new Set(
    nodes.flatMap(({ runtimes }) =>
      runtimes.flatMap((runtime) => runtime.models.filter((each) => each.ready).map((each) => each.model)),
    ),
  )
  const measured = nodes.flatMap(({ runtimes }) => runtimes.flatMap((runtime) => runtime.models))
  const [soonest] = measured.flatMap(({ first_token: first }) => first ?? []).toSorted((a, b) => a.ms - b.ms)
  const speeds = measured.map(({ tokens_per_second }) => tokens_per_second).filter((value) => value !== null)
  return (
    <dl class="figures">
      <Figure
        name="Ready"
        value={`${ready} of ${nodes.filter(({ state }) => state !== 'revoked').length}`}
        hint="nodes"
      />
      <Figure name="Models" value={count(models.size)} hint="can answer" />
      <Figure
        name="In flight"
        value={count(inFlight)}
        hint={slots === null ? undefined : `${count(slots.taken)} of ${count(slots.all)} known slots taken`}
      />
      <Figure
        name="Best first token"
        value={duration(soonest?.ms)}
        hint={soonest === undefined ? undefined : ago(soonest.at, now)}
      />
      <Figure name="Fastest" value={speeds.length === 0 ? '–' : `${amount(Math.max(...speeds))} tok/s`} />
    </dl>
  )
}

type Owners = readonly { readonly value: string; readonly label: string }[]

const noOwners: Owners = []
/** What stands for owners that are still read. */
const ownersToCome: Owners = []

/** Only for roles that may read them: a refusal would count as a denied call in the audit. */
function useOwners(): Owners {
  const path = mayAct('operator') ? '/v1/admin/customers?limit=1000' : null
  const [customers] = useLoad<CustomerList>(path)
  if (customers.kind !== 'ready') return path !== null && customers.kind === 'loading' ? ownersToCome : noOwners
  return customers.data.customers.map(({ customer_id, display_name }) => ({ value: customer_id, label: display_name }))
}

/** The nodes of the pool: rows on a wide screen, cards on a phone. */
export function Pool() {
  const [list, again] = useLoad<NodeList>(nodesPath, rowsEveryMs)
  const owners = useOwners()
  const able = owners !== ownersToCome
  const live = liveNodes.value
  const rows = list.kind === 'ready' ? list.data.nodes : []
  const strangers =
    list.kind === 'ready' ? [...live.keys()].filter((id) => !rows.some((row) => row.node_id === id)) : []
  const strange = strangers.join()
  useEffect(() => {
    if (strange !== '') again()
  }, [strange, again])
  return (
    <>
      <div class="title-bar">
        <h1>Pool</h1>
        <p class="acts">
          <ActButton act={addNode(owners)} label="Add a node" kind="primary" able={able} />
          <ActButton act={enrolNode(owners)} label="Enrol a computer" able={able} />
        </p>
      </div>
      <Joins owners={owners} able={able} />
      <Part what="the nodes" loaded={list} again={again}>
        {() => {
          const nodes = rows.map((row) => merged(row, live.get(row.node_id))).toSorted(byNeed)
          if (nodes.length === 0)
            return (
              <Empty title="No node yet">
                Add a model server by its URL, or enrol a computer that the gateway cannot reach. On the command line:{' '}
                <code>./penstock nodes add</code> and <code>./penstock nodes enroll</code>. A computer that starts{' '}
                <code>./penstock node</code> asks to join by six words, which appear here.
              </Empty>
            )
          return (
            <>
              <Summary nodes={nodes} />
              <Nodes nodes={nodes} owners={owners} />
              <Cut rows={rows.length} limit={nodesMax} what="the first nodes" />
            </>
          )
        }}
      </Part>
    </>
  )
}

/** Nodes with problems stand first until somebody sorts. */
const columns: readonly Column<Node>[] = [
  { title: 'Node', by: ({ name }) => name, show: ({ name }) => name },
  { title: 'State', by: ({ state }) => state, show: ({ state }) => state },
  { title: 'Models', by: (node) => modelsOf(node).length, show: () => null },
  { title: 'In flight', by: ({ in_flight }) => in_flight, show: () => null },
  { title: 'First token', number: true, by: (node) => firstTokenOf(node)?.ms ?? null, show: () => null },
  { title: 'Tokens/s', number: true, by: speedOf, show: () => null },
]
const rowGuessPx = 45

const textOf = (node: Node) =>
  [node.name, node.node_id, node.state, ...modelsOf(node).map((each) => each.model)].join(' ')

/** What is sought holds in both forms. */
function Nodes({ nodes, owners }: { nodes: readonly Node[]; owners: Owners }) {
  const { id, query } = usePlace()
  const [sought, seek] = useState('')
  const [at, walk] = useState<string | null>(null)
  const found = nodes.filter((node) => fits(textOf(node), sought))
  const names = new Map(owners.map(({ value, label }) => [value, label]))
  const chosen = readMap(id, query, names.size > 0)
  return (
    <>
      <div class="map-choices">
        <Search label="Find a node or model" value={sought} change={seek} shown={found.length} all={nodes.length} />
        <MapChoices chosen={chosen} hasOwners={names.size > 0} />
      </div>
      {chosen.form === 'table' ? (
        <NodeTable nodes={found} opened={id} />
      ) : (
        <PoolMap nodes={found} colour={chosen.colour} grouping={chosen.group} owners={names} at={at} walk={walk} />
      )}
    </>
  )
}

/** `opened`: the node that the address names stands first, with its details. */
function NodeTable({ nodes, opened }: { nodes: readonly Node[]; opened: string | null }) {
  const [sorting, sort] = useState<Sorting>({ title: '', falling: false })
  const inOrder = sorted(nodes, columns, sorting)
  const found = [
    ...inOrder.filter(({ node_id }) => node_id === opened),
    ...inOrder.filter(({ node_id }) => node_id !== opened),
  ]
  const virtual = useVirtual<HTMLTableElement>(
    found.map((node) => node.node_id),
    rowGuessPx,
  )
  const { list } = virtual
  useEffect(() => {
    if (opened === null) return
    list.current?.querySelector<HTMLElement>(`[data-row="${CSS.escape(opened)}"] .expand`)?.focus()
  }, [list, opened])
  return (
    <Frame label="Nodes">
      <table class="nodes" ref={virtual.list}>
        <caption class="visually-hidden">Nodes, those with problems first</caption>
        <thead>
          <tr>
            {columns.map(({ title, number }) => (
              <SortHead key={title} title={title} number={number} sorting={sorting} sort={sort} />
            ))}
            <th scope="col">Trouble</th>
            <th scope="col">
              <span class="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <Gap px={virtual.before} />
        {found.slice(virtual.first, virtual.end).map((node) => (
          <NodeRow key={node.node_id} node={node} opened={node.node_id === opened} />
        ))}
        <Gap px={virtual.after} />
      </table>
    </Frame>
  )
}
