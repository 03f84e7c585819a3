import { createHash } from 'node:crypto'
import { appendFileSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { PrivateFolder } from '../../host/private-files.ts'
import { dayMs, secondMs } from '../../time.ts'

export const replaysFile = 'sealed-replays.bin'
/** How long an encapsulated key stays used, ms. */
const replayKeptMs = dayMs
/** Used keys at most; beyond them nothing new is taken, because what is forgotten could come again. */
const replaysMax = 1_000_000
/** Unix seconds, and enough of the hash to exclude collisions. */
const hashBytes = 16
const recordBytes = 4 + hashBytes

export type ReplayVerdict = 'fresh' | 'used' | 'full'

/** The encapsulated keys that have been used, across restarts: HPKE itself says nothing of a request that comes twice. */
export interface Replays {
  /** Written to the file before it returns `fresh`. */
  use(keyId: string, enc: Uint8Array): ReplayVerdict
}

export interface ReplaysOptions {
  readonly folder: PrivateFolder
  readonly most?: number
  /** Unix ms. The default is the computer's clock. */
  readonly now?: () => number
}

export function openReplays({ folder, most = replaysMax, now = Date.now }: ReplaysOptions): Replays {
  const file = join(folder.path, replaysFile)
  const beside = `${file}.new`
  const used = new Map<string, number>()
  let written = 0
  const leastSeconds = () => Math.floor((now() - replayKeptMs) / secondMs)
  const forget = () => {
    const least = leastSeconds()
    // In the order of their times.
    for (const [hash, seconds] of used) {
      if (seconds >= least) break
      used.delete(hash)
    }
  }
  const rewrite = () => {
    // A crash in the middle of it must forget none.
    writeFileSync(beside, Buffer.concat([...used].map(([hash, seconds]) => recordOf(hash, seconds))), { mode: 0o600 })
    renameSync(beside, file)
    written = used.size
  }
  for (const [hash, seconds] of readRecords(file)) used.set(hash, seconds)
  forget()
  rewrite()
  return {
    use(keyId, enc) {
      forget()
      const hash = createHash('sha256').update(keyId).update(enc).digest().subarray(0, hashBytes).toString('latin1')
      if (used.has(hash)) return 'used'
      if (used.size >= most) return 'full'
      const seconds = Math.floor(now() / secondMs)
      used.set(hash, seconds)
      // Twice what is kept: most of the file is of days before.
      if (written >= 2 * used.size + 1_024) rewrite()
      else {
        appendFileSync(file, recordOf(hash, seconds), { mode: 0o600 })
        written++
      }
      return 'fresh'
    },
  }
}

function recordOf(hash: string, seconds: number): Buffer {
  const record = Buffer.alloc(recordBytes)
  record.writeUInt32BE(seconds)
  record.write(hash, 4, 'latin1')
  return record
}

/** A record that was not written to its end, at a crash, was never answered. */
function readRecords(file: string): [string, number][] {
  let bytes: Buffer
  try {
    bytes = readFileSync(file)
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ENOENT') return []
    throw error
  }
  const records: [string, number][] = []
  for (let at = 0; at + recordBytes <= bytes.length; at += recordBytes) {
    records.push([bytes.toString('latin1', at + 4, at + recordBytes), bytes.readUInt32BE(at)])
  }
  return records
}
