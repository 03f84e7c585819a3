import type { LocalRuntime } from '../runtimes/local-runtime.ts'

const moves: ReadonlySet<string | undefined> = new Set([
  'queued',
  'starting',
  'falling',
  'recalled',
  'waking',
  'stopping',
])

/** Whether a model server of this computer works, by its own word or ours, or loads a model. */
export const isAtWork = (runtimes: readonly LocalRuntime[]): boolean =>
  runtimes.some(
    ({ inFlight, running = 0, queueDepth, slotsTotal, slotsFree, models }) =>
      inFlight > 0 ||
      running > 0 ||
      (queueDepth ?? 0) > 0 ||
      (slotsTotal !== null && slotsFree !== null && slotsFree < slotsTotal) ||
      models.some(({ serverState, loadingSinceMs }) => moves.has(serverState) || loadingSinceMs != null),
  )
