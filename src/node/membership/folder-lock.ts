import { Database } from 'bun:sqlite'
import { closeSync, openSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { fileHolder, lockFiles } from '../../host/port-holder.ts'
import type { PrivateFolder } from '../../host/private-files.ts'
import { NodeStartError } from './enrollment.ts'

/**
 * One agent on one folder: two would be one node with two tunnels, each the other's stranger. An empty SQLite database
 * is locked, because that lock is the kernel's: it ends with its process however that ends, and knows no numbers of
 * processes, which another container on the same folder would read wrongly. Returns what releases it. Throws
 * `NodeStartError`.
 */
export function lockFolder(folder: PrivateFolder): () => void {
  const path = join(folder.path, lockFiles.agent)
  closeSync(openSync(path, 'a', 0o600))
  const database = new Database(path)
  try {
    database.run('BEGIN EXCLUSIVE')
  } catch (error) {
    database.close()
    if ((error as { code?: unknown }).code !== 'SQLITE_BUSY') throw error
    const pid = fileHolder(realpathSync(path))
    throw new NodeStartError(
      `Another agent${pid === null ? '' : ` (process ${pid})`} uses ${folder.path}. Stop it first, or give this one its own folder with --data-dir.`,
    )
  }
  return () => database.close()
}
