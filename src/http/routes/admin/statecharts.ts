import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { DrawnChart } from '../../../actors/console/statecharts.ts'
import { sameEverywhere } from '../../../actors/siblings/pooled-inspector.ts'
import { transitionsKeptMax } from '../../../actors/telemetry/transition-ring.ts'
import { brand } from '../../../brand.ts'
import { Problem } from '../../../errors.ts'
import { charts } from '../../../machines/charts/registry.ts'
import { type Machine, MachineList, Transition, TransitionList } from '../../../protocol/wire/admin/inspect.ts'
import { idFilter, limitOf } from '../../../protocol/wire/query.ts'
import { isoTime } from '../../../time.ts'
import type { HttpContext } from '../../frame/context.ts'
import { asks } from '../../frame/query.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { newest, ownTransitions } from '../../views/own.ts'

const tags = ['Statecharts (extension)']
const query = {
  limit: limitOf(100, transitionsKeptMax),
  id: idFilter('Only those of this instance: a node, request, command or batch id'),
} as const
const params = Type.Object({ machine: Type.String({ pattern: '^[a-z][a-z-]{0,63}$' }) })
const asked = asks(query)

interface Chosen {
  readonly params: { readonly machine: string }
}

function mustExist(machine: string): void {
  if (!charts.some((chart) => chart.machine.id === machine)) throw new Problem('machine_not_found')
}

const machineView = ({ graph, title, about, recorded, svg }: DrawnChart): Machine => ({
  machine: graph.id,
  title,
  about,
  recorded,
  states: graph.states.map(({ path, ...state }) => ({ state: path, ...state })),
  transitions: [...graph.transitions],
  svg,
})

/** The statecharts as graphs and pictures, and how their instances moved of late (§23). */
export const machineRoutes = (context: HttpContext) => {
  const { statecharts } = context.gateway
  return new Elysia()
    .use(admin(context))
    .get(
      '/v1/admin/machines',
      async () => {
        const machines = (await statecharts.all()).map(machineView)
        return {
          object: `${brand}.admin.machine_list` as const,
          generated_at: isoTime(Date.now()),
          count: machines.length,
          machines,
        }
      },
      {
        action: 'machine.list',
        response: { 200: MachineList },
        detail: describe({
          summary: 'List the statecharts as graphs and pictures',
          description: 'The graphs come from the definitions that the gateway runs.',
          tags,
        }),
      },
    )
    .get(
      '/v1/admin/machines/:machine/transitions',
      async ({ params: { machine }, query: { id, limit } }) => {
        const wanted = { machine, id: id ?? '', limit: String(limit) }
        // Each process runs a chart of its own for the same node.
        const elsewhere = sameEverywhere.has(machine)
          ? []
          : await context.gateway.siblings.ask('transitions', wanted, Type.Array(Transition))
        const own = ownTransitions(context.gateway, machine, id, limit)
        const transitions = newest([own, ...elsewhere], ({ at }) => at, limit)
        return {
          object: `${brand}.admin.transition_list` as const,
          generated_at: isoTime(Date.now()),
          count: transitions.length,
          transitions,
        }
      },
      {
        action: 'machine.transitions',
        params,
        response: { 200: TransitionList },
        query: asked.query,
        beforeHandle: [({ params: { machine } }: Chosen) => mustExist(machine), asked.beforeHandle],
        detail: describe({
          summary: 'List recent transitions of a statechart, newest first',
          description: `The last ${transitionsKeptMax.toLocaleString('en')} of each chart, which this gateway remembers. When one instance repeats the same round, only the last round is kept.`,
          tags,
        }),
      },
    )
}
