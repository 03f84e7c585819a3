import { type Checkpoint, checkpointText, parseCheckpoint } from '../log/checkpoint.ts'
import { isEarlier, lineageOf } from '../log/origins.ts'
import { fieldsOf, listOf, textOf } from './given.ts'

/** The public logs that a user has seen, as kept in a file or a browser. */
export interface SeenLogs {
  /** Keys that a person gave once and that verified a checkpoint, as `name+hash+base64`. */
  readonly keys: readonly string[]
  readonly checkpoints: Readonly<Record<string, unknown>>
}

/** How many keys of logs are remembered. */
const keysMax = 1_000

/** Of a value that was kept: whatever is of another form is nothing. */
export function seenLogs(value: unknown): SeenLogs {
  const { keys, checkpoints } = fieldsOf(value)
  return { keys: listOf(keys).filter((key) => typeof key === 'string'), checkpoints: fieldsOf(checkpoints) }
}

const seenCheckpoint = ({ checkpoints }: SeenLogs, origin: string): Checkpoint | null =>
  parseCheckpoint(textOf(checkpoints[origin]) ?? '')

/** Of this log under all its names, each the largest. */
export const seenOfLog = ({ checkpoints }: SeenLogs, origin: string): readonly Checkpoint[] =>
  Object.values(checkpoints)
    .map((text) => parseCheckpoint(textOf(text) ?? ''))
    .flatMap((one) => (one !== null && lineageOf(one.origin) === lineageOf(origin) ? [one] : []))

/** The one with the newest name; null: the list is empty. */
const newestOf = (seen: readonly Checkpoint[]) =>
  seen.reduce<Checkpoint | null>(
    (best, one) => (best === null || isEarlier(best.origin, one.origin) ? one : best),
    null,
  )

/**
 * The checkpoint from which this one is to be followed: of the same name; else of the newest name before, by the fork's entry
 * (§36); else of a later one, whose log must hold all of this one. null: nothing of the log was seen.
 */
export const seenBefore = (seen: readonly Checkpoint[], { origin }: Checkpoint): Checkpoint | null =>
  seen.find((one) => one.origin === origin) ??
  newestOf(seen.filter((one) => isEarlier(one.origin, origin))) ??
  newestOf(seen)

/** With the larger checkpoint of the log, and the keys that verified it. */
export function rememberLog(seen: SeenLogs, checkpoint: Checkpoint, keys: readonly string[]): SeenLogs {
  const { origin, size } = checkpoint
  const before = seenCheckpoint(seen, origin)
  const newest = before !== null && before.size > size ? before : checkpoint
  return {
    keys: [...new Set([...seen.keys, ...keys])].slice(-keysMax),
    checkpoints: { ...seen.checkpoints, [origin]: checkpointText(newest) },
  }
}
