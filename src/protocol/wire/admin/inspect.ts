import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { count, Instant, literals, nullable, nullableNumber } from '../shapes.ts'
import { Node } from './admin.ts'

/** A statechart as a graph and as a picture, both derived from the machine that runs (§23). */
export const Machine = Type.Object({
  machine: Type.String({ description: 'The name of the chart in transitions' }),
  title: Type.String(),
  about: Type.String({ description: 'What one instance of the chart stands for' }),
  recorded: Type.Boolean({
    description: 'No instance runs: each is the record of what is over, so nothing is counted',
  }),
  states: Type.Array(
    Type.Object({
      state: Type.String({ description: 'A dotted path. The path of the chart itself is empty.' }),
      name: Type.String(),
      kind: literals(['atomic', 'compound', 'final']),
      parent: nullable(Type.String()),
      initial: Type.Boolean({ description: 'The chart enters this state together with the state around it' }),
    }),
  ),
  transitions: Type.Array(
    Type.Object({
      source: Type.String(),
      target: Type.String(),
      event: Type.String({ description: '`always` means that the chart takes it as soon as its condition holds' }),
      guard: nullable(
        Type.String({
          description: 'The condition. `else` follows another transition of the same event that has a condition.',
        }),
      ),
      reenter: Type.Boolean(),
    }),
  ),
  svg: Type.String({ description: 'Each state carries `data-state`, each transition `data-source` and `data-target`' }),
})
export type Machine = Static<typeof Machine>
export const MachineList = Type.Object({
  object: Type.Literal(`${brand}.admin.machine_list`),
  generated_at: Instant,
  count,
  machines: Type.Array(Machine),
})
export type MachineList = Static<typeof MachineList>

/** Types, states, ids and times: never content. */
export const Transition = Type.Object({
  machine: Type.String(),
  id: Type.String({ description: 'The id of the instance: a node, request, command or batch id' }),
  from: nullable(Type.String({ description: 'null at the start of the instance' })),
  to: Type.String(),
  event: Type.String(),
  at: Instant,
})
export type Transition = Static<typeof Transition>
export const TransitionList = Type.Object({
  object: Type.Literal(`${brand}.admin.transition_list`),
  generated_at: Instant,
  count,
  transitions: Type.Array(Transition),
})
export type TransitionList = Static<typeof TransitionList>

export const MachineCounts = Type.Object({
  machine: Type.String(),
  states: Type.Array(
    Type.Object({
      state: Type.String(),
      live: Type.Integer({
        description: 'Instances in this state now. A durable chart also counts the rows that rest in it.',
      }),
      entered: Type.Integer({ description: 'How often instances entered the state since this gateway started' }),
    }),
  ),
})
export type MachineCounts = Static<typeof MachineCounts>

/** What moves in a node; the rest of it is read by `GET /v1/admin/nodes`. */
export const LiveNode = Type.Pick(Node, [
  'node_id',
  'admin_state',
  'state',
  'state_reasons',
  'state_says',
  'state_since',
  'held_until',
  'in_flight',
  'transport',
  'runtimes',
  'last_error',
  'usage_claims',
])
export type LiveNode = Static<typeof LiveNode>

const quantiles = Type.Object(
  { p50: Type.Number(), p95: Type.Number() },
  { description: 'Milliseconds, to the bucket; null: nothing was measured' },
)
const buckets = Type.Array(Type.Object({ above_ms: Type.Number(), to_ms: Type.Number(), count }), {
  description: 'What was measured, by bucket, empty ones left out: percentiles of several steps come from their sum',
})
const counts = Type.Record(Type.String(), Type.Integer())
/** One step of the traffic series: differences of what `/metrics` shows. */
export const TrafficPoint = Type.Object({
  at: Instant,
  seconds: Type.Number({ description: 'The length of one step' }),
  requests: Type.Unsafe<number>({
    ...count,
    description: 'Of all inference routes; refused strangers count here and leave no row',
  }),
  errors: counts,
  upstream_failures: counts,
  ttft_ms: nullable(quantiles),
  inter_chunk_ms: nullable(quantiles),
  tokens_in: count,
  tokens_out: count,
  in_flight: count,
  queued: count,
  models: Type.Array(
    Type.Object({
      model: Type.String(),
      requests: count,
      tokens_out: count,
      ttft_p50_ms: nullableNumber,
      inter_chunk_p50_ms: nullableNumber,
      ttft_buckets: buckets,
      inter_chunk_buckets: buckets,
    }),
  ),
  strategies: Type.Array(Type.Object({ strategy: Type.String(), outcome: Type.String(), count })),
})
export type TrafficPoint = Static<typeof TrafficPoint>

/** Events of `GET /v1/admin/inspect`, by name. */
export interface InspectEvents {
  /** First, once. */
  readonly hello: {
    readonly role: 'viewer' | 'operator' | 'admin'
    /** null: the token bears none. */
    readonly name: string | null
    readonly heartbeat_ms: number
  }
  /** Second, once: all that the later events change. */
  readonly snapshot: {
    readonly generated_at: string
    readonly machines: readonly MachineCounts[]
    readonly nodes: readonly LiveNode[]
    readonly traffic: readonly TrafficPoint[]
  }
  /** At most every 100 ms. `skipped`: how many further transitions the event leaves out. */
  readonly transitions: {
    readonly transitions: readonly Transition[]
    readonly machines: readonly MachineCounts[]
    readonly skipped: number
  }
  /** At most every second: nodes that look different now, and those that are gone. */
  readonly pool: { readonly changed: readonly LiveNode[]; readonly removed: readonly string[] }
  /** One step of the series. */
  readonly traffic: TrafficPoint
  /** The last event: the console may ask again, a slow one with less on its hands, one that is signed out not. */
  readonly end: { readonly reason: 'slow_client' | 'shutdown' | 'signed_out' }
}
