import {
  MemoryPlanList,
  type PlanMode,
  type PlannedModel,
  type PlannedPlace,
} from '../../protocol/wire/admin/memory-plan.ts'
import { limitOf } from '../../protocol/wire/query.ts'
import { defineList } from '../frame/define-list.ts'

const stepWords: Readonly<Record<PlannedPlace['step'], string>> = {
  load: 'to load',
  leave: 'gives way',
  stay: 'in memory',
  spare: 'in memory, not asked for',
  away: 'not in memory',
}

const seconds = (ms: number) => `${Math.round(ms / 100) / 10} s`

const modeWords: Readonly<Record<PlanMode, readonly string[]>> = {
  off: ['The plan is off (SVC_PLAN=off).'],
  advise: [],
  act: ['The gateway does these loads itself (SVC_PLAN=act).'],
}

const wanting = ({ replicas, wanted_replicas: wanted }: PlannedModel) => wanted > replicas

/** Which model belongs where, and why (§37). */
export const memoryPlan = defineList({
  name: 'memory.plan',
  at: 'GET /v1/admin/plan',
  role: 'viewer',
  category: 'node_control',
  summary: 'Which model belongs on which node, and why',
  description:
    'Made once a minute and after changes, of the demand that the processes of this gateway have seen, the memory of the nodes, and the measured times of loads. `SVC_PLAN=act` does its loads; `advise` shows them.',
  tag: 'Model catalogue (extension)',
  query: { limit: limitOf(1_000, 10_000) },
  result: MemoryPlanList,
  rows: 'places',
  read: async ({ gateway: { planner }, views, query: { limit } }) =>
    views.plannedPlaces(await planner.current()).slice(0, limit),
  beside: ({ planner }, views) => views.planHead(planner),
  command: {
    words: 'plan',
    about: 'Show which model belongs on which node, and why',
    options: {},
    columns: [
      ['Model', ({ model }) => model],
      ['Node', ({ node }) => node],
      ['State', ({ step }) => stepWords[step]],
      ['Load takes', ({ load_ms: loadMs }) => seconds(loadMs)],
      ['Pinned', ({ pinned }) => pinned],
    ],
    empty: 'No node has a memory that can be planned.',
    note: ({ mode, models, places }) => {
      const lines = [
        ...places.flatMap(({ why }) => why ?? []),
        ...models
          .filter(wanting)
          .map(
            ({ model, replicas, wanted_replicas: wanted }) =>
              `${model}: ${wanted} servers wanted, ${replicas} in memory.`,
          ),
        ...modeWords[mode],
      ]
      return lines.length === 0 ? '' : `\n${lines.join('\n')}\n`
    },
  },
})
