import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { count, Instant, literals, nullable } from '../shapes.ts'

/** What one process of a gateway tells its siblings of the demand that it has seen in the last hour (§33). */
const Sum = Type.Number({ minimum: 0 })
export const Demands = Type.Object({
  /** How long was watched: weighted by age, and of the last minute alone. */
  decayed_ms: Sum,
  recent_ms: Sum,
  models: Type.Array(
    Type.Object({
      /** Of the nodes. */
      owner: Type.String(),
      model: Type.String(),
      calls: Sum,
      waited: Sum,
      waitMs: Sum,
      turnedAway: Sum,
      decayed: Sum,
      recent: Sum,
    }),
  ),
})
export type Demands = Static<typeof Demands>

const planModes = ['off', 'advise', 'act'] as const
export type PlanMode = (typeof planModes)[number]

/**
 * `load`: the plan wants the model there. `leave`: it gives way to such a load. `stay`: it is in memory and wanted. `spare`: it is
 * in memory, and stays while nothing needs the room. `away`: it is not, and is not wanted.
 */
export const planSteps = ['load', 'leave', 'stay', 'spare', 'away'] as const

export const PlannedPlace = Type.Object({
  model: Type.String({ description: 'The model id that clients use' }),
  node_id: Type.String(),
  node: Type.String({ description: 'The name of the node' }),
  step: literals(planSteps),
  why: nullable(Type.String({ description: 'Of a load, in a sentence' })),
  in_place_of: nullable(Type.String({ description: 'Of a load: the models that leave memory for it' })),
  saves_ms: nullable(
    Type.Integer({ description: 'Of a load: how much less callers wait within ten minutes, less the load itself' }),
  ),
  loaded: Type.Boolean(),
  pinned: Type.Boolean({ description: 'The owner of the node wants it in memory always' }),
  memory_mb: nullable(Type.Integer({ description: 'What it takes of memory; null: not reported' })),
  load_ms: Type.Integer({ minimum: 0, description: 'How long a load takes there, as measured or expected' }),
})
export type PlannedPlace = Static<typeof PlannedPlace>

export const PlannedModel = Type.Object({
  model: Type.String(),
  calls_per_minute: Type.Number({ minimum: 0, description: 'Expected' }),
  calls: Type.Unsafe<number>({ ...count, description: 'Of the last hour, as the following' }),
  waited_calls: Type.Unsafe<number>({ ...count, description: 'Calls that waited for a load' }),
  wait_ms: nullable(Type.Number({ minimum: 0, description: 'How long these waited, on the mean' })),
  turned_away: Type.Unsafe<number>({ ...count, description: 'Requests that found no room' }),
  replicas: Type.Unsafe<number>({ ...count, description: 'Servers that have it in memory now' }),
  planned_replicas: Type.Unsafe<number>({ ...count, description: 'As the plan has it' }),
  wanted_replicas: Type.Unsafe<number>({
    ...count,
    description: 'As its demand asks for, whether there is room or not',
  }),
})
export type PlannedModel = Static<typeof PlannedModel>

/** Which model belongs where, and why (§37). */
export const MemoryPlanList = Type.Object({
  object: Type.Literal(`${brand}.admin.memory_plan`),
  generated_at: Instant,
  count,
  mode: literals(planModes),
  planned_at: nullable(Type.Unsafe<string>({ ...Instant, description: 'null: the plan is off' })),
  exact: Type.Boolean({ description: 'No plan is better; false: the best that was found, or none was made' }),
  models: Type.Array(PlannedModel, { description: 'The most asked for first, at most 1,000' }),
  places: Type.Array(PlannedPlace, { description: 'Loads first' }),
})
export type MemoryPlanList = Static<typeof MemoryPlanList>
