import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { folderRules } from './platform/platforms.ts'

/** The text names the file that is at fault, but not its content. */
export class PrivateFileError extends Error {
  override readonly name = 'PrivateFileError'
}

/** A folder that its owner alone can enter (0700), with JSON files that its owner alone can read (0600). */
export interface PrivateFolder {
  /** Absolute. */
  readonly path: string
  /** undefined where there is no such file. Throws `PrivateFileError`. */
  read(name: string): unknown
  /** Writes the whole value to the disk, or nothing. */
  write(name: string, value: unknown): void
}

const codeOf = (error: unknown) => String((error as { code?: unknown }).code)

export const syncFolder = (folder: string): void => folderRules.sync(folder)

/** Writes the whole value to the disk under a new, temporary name, and returns that name. */
export function writeBeside(file: string, value: unknown): string {
  const beside = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`
  const handle = openSync(beside, 'wx', 0o600)
  try {
    writeSync(handle, `${JSON.stringify(value, null, 2)}\n`)
    fsyncSync(handle)
  } catch (error) {
    // Otherwise each retry on a full disk would leave a partial file behind.
    rmSync(beside, { force: true })
    throw error
  } finally {
    closeSync(handle)
  }
  return beside
}

function readWhole(file: string): unknown {
  let content: string
  try {
    content = readFileSync(file, 'utf8')
    chmodSync(file, 0o600)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw new PrivateFileError(`${file} cannot be read (${codeOf(error)})`)
  }
  try {
    return JSON.parse(content)
  } catch {
    throw new PrivateFileError(`${file} is damaged. Restore it from a backup.`)
  }
}

/** Makes the folder if need be, and closes it to others. */
export function openPrivateFolder(dir: string): PrivateFolder {
  const path = resolve(dir)
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
    folderRules.close(path)
  } catch (error) {
    throw new PrivateFileError(`${path} cannot be used (${codeOf(error)})`)
  }
  return {
    path,
    read: (name) => readWhole(join(path, name)),
    write: (name, value) => {
      const file = join(path, name)
      const beside = writeBeside(file, value)
      try {
        renameSync(beside, file)
      } catch (error) {
        rmSync(beside, { force: true })
        throw error
      }
      syncFolder(path)
    },
  }
}
