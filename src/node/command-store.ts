import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  closeSync,
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
import type { CommandState } from '../protocol/wire/command.ts'

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

/** A file for each command, 0600, in a folder of their own, 0700. */
export function openCommandStore(folder: string): CommandStore {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  chmodSync(folder, 0o700)
  for (const name of readdirSync(folder)) if (!fileName.test(name)) rmSync(join(folder, name), { force: true })
  const fileOf = (commandId: string) => join(folder, commandId + suffix)
  return {
    load: () =>
      readdirSync(folder)
        .filter((name) => fileName.test(name))
        .map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as StoredCommand),
    save: (command) => {
      const beside = `${fileOf(command.commandId)}.${randomBytes(4).toString('hex')}`
      const handle = openSync(beside, 'wx', 0o600)
      try {
        writeSync(handle, JSON.stringify(command))
        fsyncSync(handle)
      } finally {
        closeSync(handle)
      }
      renameSync(beside, fileOf(command.commandId))
      syncFolder(folder)
    },
    remove: (commandId) => rmSync(fileOf(commandId), { force: true }),
  }
}

function syncFolder(folder: string): void {
  const handle = openSync(folder, 'r')
  fsyncSync(handle)
  closeSync(handle)
}
