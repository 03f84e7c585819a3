import { foreignJson } from '../protocol/json/foreign-json.ts'
import { type Checkpoint, checkpointText, parseCheckpoint } from '../protocol/log/checkpoint.ts'

/** What this browser has seen of public logs, as the command keeps it in a file. */
const place = 'penstock-public-logs'

interface Seen {
  readonly keys: readonly string[]
  readonly checkpoints: Readonly<Record<string, string>>
}

function read(): Seen {
  try {
    const { keys, checkpoints } = (foreignJson(localStorage.getItem(place) ?? '') ?? {}) as Partial<Seen>
    return { keys: keys ?? [], checkpoints: checkpoints ?? {} }
  } catch {
    // A browser that keeps nothing.
    return { keys: [], checkpoints: {} }
  }
}

export const seenKeys = (): readonly string[] => read().keys
export const seenCheckpoint = (origin: string): Checkpoint | null => parseCheckpoint(read().checkpoints[origin] ?? '')

/** Keeps the larger checkpoint of each log, and the keys that verified it. False: this browser keeps nothing. */
export function keep(checkpoint: Checkpoint, keys: readonly string[]): boolean {
  const { origin, size } = checkpoint
  const seen = read()
  const newest = size >= (seenCheckpoint(origin)?.size ?? 0) ? checkpointText(checkpoint) : seen.checkpoints[origin]
  try {
    localStorage.setItem(
      place,
      JSON.stringify({
        keys: [...new Set([...seen.keys, ...keys])],
        checkpoints: { ...seen.checkpoints, [origin]: newest },
      }),
    )
    return true
  } catch {
    return false
  }
}
