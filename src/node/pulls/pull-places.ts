import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { PullFault } from './hubs/pull-fault.ts'

/** No separator, no dot at the beginning, nothing that another system reads differently. */
const leafForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,191}$/
/** Below the folder of the models: one for each pulled model. */
const foldersMax = 1_000
const filesMax = 1_000

/** The folder of one model: from its name, which a hub or a person chose, and told apart by the reference. */
export function modelFolder(root: string, model: string, ref: string): string {
  const name = model.replaceAll(/[^A-Za-z0-9._-]/g, '_').replace(/^[._-]+/, '')
  const mark = createHash('sha256').update(ref).digest('hex').slice(0, 8)
  return join(root, `${name.slice(0, 96)}-${mark}`)
}

/** Where a file of a hub is put. Throws `PullFault` for a name that leads out of its folder. */
export function placeOf(folder: string, name: string): string {
  if (!leafForm.test(name)) throw new PullFault('hub_malformed')
  return join(folder, name)
}

export const madeFolder = (folder: string): string => {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  return folder
}

const entriesOf = (folder: string) => {
  try {
    return readdirSync(folder, { withFileTypes: true })
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ENOENT') return []
    throw error
  }
}

/** A file that is not whole yet. */
export const partOf = (path: string): string => `${path}.part`

const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0

/** What of these files is there, whole or not, bytes. */
export const bytesAt = (paths: readonly string[]): number =>
  paths.reduce((sum, path) => sum + Math.max(sizeOf(path), sizeOf(partOf(path))), 0)

/** What all pulled files take, whole or not, bytes. */
export function bytesIn(root: string): number {
  const folders = entriesOf(root).filter((entry) => entry.isDirectory())
  let sum = 0
  for (const { name } of folders.slice(0, foldersMax)) {
    const files = entriesOf(join(root, name)).filter((entry) => entry.isFile())
    for (const file of files.slice(0, filesMax)) {
      sum += sizeOf(join(root, name, file.name))
    }
  }
  return sum
}
