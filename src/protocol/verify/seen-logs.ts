import { type Checkpoint, checkpointText, parseCheckpoint } from '../log/checkpoint.ts'
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

export const seenCheckpoint = ({ checkpoints }: SeenLogs, origin: string): Checkpoint | null =>
  parseCheckpoint(textOf(checkpoints[origin]) ?? '')

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
