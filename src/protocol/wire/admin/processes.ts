import { type Static, Type } from '@sinclair/typebox'
import { FirstToken } from './admin.ts'
import { MachineCounts, Transition } from './inspect.ts'

/** What several processes of one gateway tell each other of themselves (§33). */
const Count = Type.Number()
const Counts = Type.Record(Type.String(), Count)

/** Nodes that work for this process, or have; the others are left out. */
export const Loads = Type.Array(
  Type.Object({
    node_id: Type.String(),
    in_flight: Count,
    /** In flight, by profile, where any are. */
    models: Counts,
    /** What it claimed here; absent: nothing, or of an earlier version. */
    usage_claims: Type.Optional(Type.Object({ calls: Count, at_bound: Count })),
    /** The last first token, by profile, where one was measured; absent: of an earlier version. */
    first_tokens: Type.Optional(Type.Record(Type.String(), FirstToken)),
  }),
)
export type Loads = Static<typeof Loads>

/** How many instances of one chart a process names. */
export const runningSentMax = 10_000

const MovedMachine = Type.Composite([
  MachineCounts,
  Type.Object({
    /** Id and state of what works here, where the instances rest as rows; absent: of an earlier version, or they do not. */
    running: Type.Optional(Type.Array(Type.Tuple([Type.String(), Type.String()]), { maxItems: runningSentMax })),
  }),
])
export type MovedMachine = Static<typeof MovedMachine>

/** What moved since a moment of this computer's clock. */
export const Moved = Type.Object({
  process: Type.String(),
  up_to_ms: Count,
  transitions: Type.Array(Transition),
  machines: Type.Array(MovedMachine),
  loads: Loads,
})
export type Moved = Static<typeof Moved>

/** The numbers behind the console's traffic, since the start of the process. */
export const Totals = Type.Object({
  process: Type.String(),
  /** Since its start; absent: of an earlier version. */
  up_ms: Type.Optional(Count),
  requests: Count,
  errors: Counts,
  upstream_failures: Counts,
  mixtures: Type.Array(Type.Object({ strategy: Type.String(), outcome: Type.String(), count: Count })),
  models: Type.Array(
    Type.Object({
      model: Type.String(),
      requests: Count,
      ttft: Type.Array(Count),
      per_token: Type.Array(Count),
      tokens_in: Count,
      tokens_out: Count,
    }),
  ),
  in_flight: Count,
  queued: Count,
})
export type Totals = Static<typeof Totals>

export const MetricsText = Type.Object({ index: Type.Integer(), text: Type.String() })

/** What the alerts look at, of one process: by the name of what is read. */
export const AlertReadings = Type.Object({
  index: Type.Union([Type.Integer(), Type.Null()]),
  readings: Type.Record(
    Type.String(),
    Type.Array(Type.Object({ labels: Type.Record(Type.String(), Type.String()), value: Count })),
  ),
})
export type AlertReadings = Static<typeof AlertReadings>

/** How many polls one answer has; the rest is asked for at once. */
export const pollsSentMax = 250

const Poll = Type.Object({
  node_id: Type.String({ maxLength: 64 }),
  /** Which address and key were asked, as a hash: a row may just have changed. */
  way: Type.String({ maxLength: 64 }),
  /** Of this poll, by the process that made it: each has the next one. */
  number: Type.Integer({ minimum: 1 }),
  /** How long ago the poll went out, rounded up. */
  asked_ms_ago: Type.Integer({ minimum: 0 }),
  /** What it found, as a text of its own; absent: what the poll before it found; null: it is not told. */
  result: Type.Optional(Type.Union([Type.String(), Type.Null()])),
})
export type Poll = Static<typeof Poll>

/** Polls of nodes, the oldest first, by the process that makes them for all of its computer (§37). */
export const Polls = Type.Object({
  /** The number of the last of them, to be asked for from there on. */
  up_to: Type.Integer({ minimum: 0 }),
  /** There are later ones already. */
  more: Type.Boolean(),
  polls: Type.Array(Poll, { maxItems: pollsSentMax }),
})
export type Polls = Static<typeof Polls>
