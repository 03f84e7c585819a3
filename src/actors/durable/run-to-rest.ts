import { type AnyStateMachine, createActor, type EventFromLogic, type InspectionEvent, type SnapshotFrom } from 'xstate'
import { failureName, type Log } from '../../log.ts'

export interface RunOptions {
  /** The id of the row, for log and console. */
  readonly id: string
  readonly log: Log
  readonly inspect?: (event: InspectionEvent) => void
  /** Stops the chart and its running effects where they are. The row says where to continue. */
  readonly signal: AbortSignal
}

/**
 * Runs a durable chart from the resting state that its row says until it rests again; resolves with that state, or with
 * null where it was stopped. The one place that hydrates a chart: from plain columns, never from a stored snapshot.
 */
export function runToRest<M extends AnyStateMachine>(
  machine: M,
  from: { readonly value: string; readonly context: SnapshotFrom<M>['context'] },
  event: EventFromLogic<M>,
  { id, log, inspect, signal }: RunOptions,
): Promise<string | null> {
  const snapshot = machine.resolveState({ value: from.value, context: from.context })
  const actor = createActor(machine as AnyStateMachine, {
    id,
    snapshot,
    ...(inspect === undefined ? {} : { inspect }),
  })
  return new Promise((resolve) => {
    const finish = (value: string | null) => {
      signal.removeEventListener('abort', stop)
      actor.stop()
      resolve(value)
    }
    const stop = () => finish(null)
    actor.start()
    if (signal.aborted) return stop()
    signal.addEventListener('abort', stop, { once: true })
    // It subscribes only now, because the state in which the chart starts is a resting state, too.
    actor.subscribe({
      next: (current) => {
        if (!current.hasTag('working')) finish(String(current.value))
      },
      error: (error) => {
        log.error('actor_failed', { id, failure: failureName(error) })
        finish(null)
      },
    })
    actor.send(event)
  })
}
