import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { product } from '../../../brand.ts'
import { foreignJson } from '../../../protocol/json/foreign-json.ts'
import type { Checkpoint } from '../../../protocol/log/checkpoint.ts'
import { rememberLog, type SeenLogs, seenLogs, seenOfLog } from '../../../protocol/verify/seen-logs.ts'
import { CliFailure } from '../../frame/failure.ts'

/** What this computer has seen of public logs. It exposes a log that shows something else later. */
export interface KnownLogs {
  readonly file: string
  keys(): readonly string[]
  /** Of this log under all its names, each the largest. */
  remembered(origin: string): readonly Checkpoint[]
  keep(checkpoint: Checkpoint, keys: readonly string[]): void
}

export function openKnownLogs(env: Readonly<Record<string, string | undefined>>): KnownLogs {
  const file = join(env.HOME ?? homedir(), '.config', product, 'public-logs.json')
  let content = read(file)
  return {
    file,
    keys: () => content.keys,
    remembered: (origin) => seenOfLog(content, origin),
    keep: (checkpoint, keys) => {
      content = rememberLog(content, checkpoint, keys)
      mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
      const beside = `${file}.${process.pid}`
      writeFileSync(beside, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 })
      renameSync(beside, file)
    },
  }
}

function read(file: string): SeenLogs {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch {
    return seenLogs(null)
  }
  const kept = foreignJson(text)
  if (typeof kept !== 'object' || kept === null)
    throw new CliFailure(`${file} is damaged: it does not contain a JSON object.`)
  return seenLogs(kept)
}
