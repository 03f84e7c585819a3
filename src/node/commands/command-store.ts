import { randomBytes } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { syncFolder } from '../../host/private-files.ts'
import type { CommandState } from '../../protocol/wire/admin/command.ts'

/** What survives a crash of the agent: never the prompt, and the answer only in sealed form. */
export interface StoredCommand {
  readonly commandId: string
  /** The hexadecimal SHA-256 of the ephemeral key. While the record exists, no other command can use this key. */
  readonly publicKeyHash: string
  readonly state: CommandState
  /** Unix ms. */
  readonly createdMs: number
  /** After this time the gateway no longer asks for the result, Unix ms. */
  readonly deadlineMs: number
}

export interface CommandStore {
  /** Loads complete records. A record that a crash left unfinished never got its final name. */
  load(): readonly StoredCommand[]
  /** On the disk when it returns. */
  save(command: StoredCommand): void
  remove(commandId: string): void
}

const suffix = '.json'
const fileName = /^cmd_[0-9A-Z]{26}\.json$/

/** One file with mode 0600 for each command, in its own folder with mode 0700. The first command makes the folder. */
export function openCommandStore(folder: string): CommandStore {
  const fileOf = (commandId: string) => join(folder, commandId + suffix)
  const names = existsSync(folder) ? readdirSync(folder) : []
  // Files that a crash left half written.
  for (const name of names) if (!fileName.test(name)) rmSync(join(folder, name), { force: true })
  return {
    load: () =>
      names
        .filter((name) => fileName.test(name))
        .map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as StoredCommand),
    save: (command) => {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      writeWhole(fileOf(command.commandId), JSON.stringify(command))
      syncFolder(folder)
    },
    remove: (commandId) => rmSync(fileOf(commandId), { force: true }),
  }
}

/** Writes under a temporary name to the disk and then renames the file. */
function writeWhole(file: string, text: string): void {
  const beside = `${file}.${randomBytes(4).toString('hex')}`
  const handle = openSync(beside, 'wx', 0o600)
  try {
    writeSync(handle, text)
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
  renameSync(beside, file)
}
