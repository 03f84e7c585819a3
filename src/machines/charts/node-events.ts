/** All in ms. Times come in with the events, so that the chart needs no clock of its own but its timers'. */
export interface NodeThresholds {
  readonly staleAfterMs: number
  readonly offlineAfterMs: number
  readonly holdDownMs: number
  readonly drainTimeoutMs: number
}

/** Good polls in a row until a node serves again (§8, hysteresis). */
export const goodPolls = { fromStale: 2, fromOffline: 3 } as const
/** Failed polls in a row until its models count as not ready. */
export const failedPollsMax = 2
/** A node flaps after this many changes of readiness within the window. */
export const flappingChanges = 4
export const flappingWindowMs = 600_000

/** What an agent says of its computer with its status (§39); `null`: nothing, as most nodes. */
export type PowerState = 'awake' | 'asleep' | 'yielding' | null

/** The time that a computer gets to fall asleep, ms. If it still answers afterwards, it did not. */
export const fallingAsleepMs = 60_000

interface Timed {
  /** Unix ms. */
  readonly at: number
}

export type NodeEvent =
  | ({
      readonly type: 'poll.answered'
      readonly modelsReady: number
      readonly power?: PowerState
      /** Somebody wakes it. */
      readonly wanted?: boolean
      /** When the poll went out, Unix ms, where another process made it: from then on the node may be silent. */
      readonly askedMs?: number
    } & Timed)
  | ({ readonly type: 'poll.failed' } & Timed)
  | ({ readonly type: 'connection.refused' } & Timed)
  /** The node has dialled in and proved its identity. */
  | ({ readonly type: 'tunnel.opened' } & Timed)
  /** An operator, or the node at another gateway, says that it sleeps now. */
  | ({ readonly type: 'sleep.told' } & Timed)
  /** Another gateway has seen it awake. */
  | ({ readonly type: 'sleep.over' } & Timed)
  /** `at`: when the operator asked, also if that was before this process started. */
  | ({ readonly type: 'drain.asked' } & Timed)
  | ({ readonly type: 'resume.asked' } & Timed)
  | ({ readonly type: 'revoke.asked' } & Timed)
  | ({ readonly type: 'calls.drained' } & Timed)

export interface NodeContext extends NodeThresholds {
  readonly modelsReady: number
  /** In a row. */
  readonly pollsGood: number
  readonly pollsFailed: number
  readonly lastAnswerMs: number
  /** Unix ms when it was told that the node sleeps; 0: never. */
  readonly asleepSinceMs: number
  /** True if the node has dialled in since it fell silent. Then the first good poll is enough. */
  readonly dialled: boolean
  /** The time of the last event, from which the remaining delay of a timer is counted. */
  readonly nowMs: number
  /** The operator's drain. It is `done` when the work has ended or its time is over. */
  readonly drain: 'none' | 'asked' | 'done'
  readonly drainDeadlineMs: number
  /** Times of the last changes of readiness that no operator asked for; at most `flappingChanges`. */
  readonly changes: readonly number[]
  /** True if the node left `ready` by itself. Then its return counts as a change, too. */
  readonly fell: boolean
  /** No new work until then while another route can serve; 0 when the node is not held down. */
  readonly heldUntilMs: number
}
