import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { product } from '../../../brand.ts'
import { foreignJson } from '../../../protocol/json/foreign-json.ts'
import { type Checkpoint, checkpointText, parseCheckpoint } from '../../../protocol/log/checkpoint.ts'
import { CliFailure } from '../../frame/failure.ts'

/** What this computer has seen of public logs. It exposes a log that shows something else later. */
export interface KnownLogs {
  readonly file: string
  /** Keys that a person gave once and that verified a checkpoint, as `name+hash+base64`. */
  keys(): readonly string[]
  remembered(origin: string): Checkpoint | null
  /** Keeps the larger checkpoint of each log, and the keys that verified it. */
  keep(checkpoint: Checkpoint, keys: readonly string[]): void
}

interface Content {
  readonly keys: readonly string[]
  readonly checkpoints: Readonly<Record<string, string>>
}

/** How many keys of logs one computer remembers. */
const keysMax = 1_000

export function openKnownLogs(env: Readonly<Record<string, string | undefined>>): KnownLogs {
  const file = join(env.HOME ?? homedir(), '.config', product, 'public-logs.json')
  let content = read(file)
  const remembered = (origin: string) => parseCheckpoint(content.checkpoints[origin] ?? '')
  return {
    file,
    keys: () => content.keys,
    remembered,
    keep: (checkpoint, keys) => {
      const { origin, size } = checkpoint
      const newest = size >= (remembered(origin)?.size ?? 0) ? checkpointText(checkpoint) : content.checkpoints[origin]
      content = {
        keys: [...new Set([...content.keys, ...keys])].slice(-keysMax),
        checkpoints: { ...content.checkpoints, [origin]: newest ?? '' },
      }
      mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
      const beside = `${file}.${process.pid}`
      writeFileSync(beside, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 })
      renameSync(beside, file)
    },
  }
}

function read(file: string): Content {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch {
    return { keys: [], checkpoints: {} }
  }
  const kept = foreignJson(text) as Partial<Content> | undefined
  if (typeof kept !== 'object' || kept === null)
    throw new CliFailure(`${file} is damaged: it does not contain a JSON object.`)
  return { keys: kept.keys ?? [], checkpoints: kept.checkpoints ?? {} }
}
