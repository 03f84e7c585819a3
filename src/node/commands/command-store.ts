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
import type { CommandState } from '../../protocol/wire/admin/command.ts'

/** What outlives a crash of the agent: never the prompt, and the answer only as it was sealed. */
export interface StoredCommand {
  readonly commandId: string
  /** Hex SHA-256 of the ephemeral key: this key is this command's, for as long as the record stands. */
  readonly publicKeyHash: string
  readonly state: CommandState
  /** Unix ms. */
  readonly createdMs: number
  /** Nobody asks for the result after this, Unix ms. */
  readonly deadlineMs: number
}

export interface CommandStore {
  /** What is whole; a file that a crash left half written never took its name. */
  load(): readonly StoredCommand[]
  /** On the disk when it returns. */
  save(command: StoredCommand): void
  remove(commandId: string): void
}

const suffix = '.json'
const fileName = /^cmd_[0-9A-Z]{26}\.json$/

/** A file for each command, 0600, in a folder of their own, 0700, made with the first one. */
export function openCommandStore(folder: string): CommandStore {
  const fileOf = (commandId: string) => join(folder, commandId + suffix)
  const names = existsSync(folder) ? readdirSync(folder) : []
  // What a crash left half written.
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

/** Under a name nobody reads, to the disk, then in its place. */
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

function syncFolder(folder: string): void {
  const handle = openSync(folder, 'r')
  fsyncSync(handle)
  closeSync(handle)
}
