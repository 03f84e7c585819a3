import { readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { writeBeside } from './private-files.ts'

const file = 'log-checkpoint.json'

/** What outlives a database that is put back: the last checkpoint that this gateway has seen. */
export interface LogMemory {
  read(): string | null
  write(note: string): void
}

/** The last checkpoint of the log, outside of the database: who puts an older database back has not this with it. */
export function logMemory(folder: string): LogMemory {
  const path = join(folder, file)
  return {
    read: () => {
      try {
        const kept: unknown = JSON.parse(readFileSync(path, 'utf8'))
        const note = (kept as { readonly note?: unknown } | null)?.note
        return typeof note === 'string' ? note : null
      } catch {
        // None yet, or a disk that was full: witnesses remember, too.
        return null
      }
    },
    write: (note) => {
      try {
        renameSync(writeBeside(path, { note }), path)
      } catch {
        // The log continues without it: see above.
      }
    },
  }
}
