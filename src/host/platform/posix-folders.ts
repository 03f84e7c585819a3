import { chmodSync, closeSync, fsyncSync, openSync } from 'node:fs'
import type { FolderRules } from './platform.ts'

/** By permission bits, and by a handle of the folder itself. */
export const posixFolders: FolderRules = {
  close: (path, groupBits = 0) => chmodSync(path, 0o700 | groupBits),
  sync: (path) => {
    const handle = openSync(path, 'r')
    fsyncSync(handle)
    closeSync(handle)
  },
}
